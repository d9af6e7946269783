"""Modules are copied before they are observed: what a copy shares, what it leaves out, and what is refused."""

import threading

import numpy as np
import pytest
import torch
from tests.frontend.eager.test_observe import SAMPLES, Net, hooked_by_a_closure, iterated
from torch import nn

from deuteron.errors import InputError
from deuteron.frontend.eager.capture import captured
from deuteron.frontend.eager.observe import copied, observe


def test_what_cannot_be_copied_is_shared():
    lock = threading.Lock()
    module = Net(lambda m, x: x, lock=lock)
    assert observe(module, SAMPLES).module.lock is lock
    assert module.lock is lock


def test_a_generator_gives_each_value_once():
    with pytest.raises(InputError) as caught:
        observe(Net(iterated, kept=(i for i in range(9))), SAMPLES)
    assert str(caught.value) == (
        "the attribute `kept` of the model is a generator: it yields each value once\n\n"
        "hint: make a list or a tensor of its values when the model is made"
    )


@pytest.mark.parametrize(("name", "value"), [("modules", [1]), ("half", torch.ones(4))])
def test_an_attribute_in_place_of_a_method_is_refused(name: str, value: object):
    module = Net(lambda m, x: x)
    setattr(module, name, value)
    with pytest.raises(InputError) as caught:
        observe(module, SAMPLES)
    assert str(caught.value) == (
        f"the attribute `{name}` of `Net` hides the method `nn.Module.{name}`\n\nhint: give the attribute another name"
    )


def test_an_attribute_may_have_the_name_of_a_method_that_no_build_calls():
    module = Net(lambda m, x: x * 2 if m.type == "double" else x, type="double", half=None)
    _, graph = captured(module, SAMPLES)
    torch.testing.assert_close(graph(*SAMPLES[0]), module(*SAMPLES[0]))


def test_layers_that_a_method_hides_are_kept_by_another_name():
    layer = nn.Linear(4, 4)
    module = Net(lambda m, x: m.layer(x) * torch.tensor(m.factors), parameters=nn.ParameterList(layer.parameters()))
    module.layer, module.factors = layer, np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    _, graph = captured(module, SAMPLES)
    torch.testing.assert_close(graph(*SAMPLES[0]), module(*SAMPLES[0]))


def test_a_compiled_module_is_copied_without_its_compiler():
    module = nn.Sequential(torch.compile(nn.Linear(4, 4)), nn.ReLU())
    module[1].compile()
    parts = [type(part) for part in copied(module).modules()]
    assert parts == [nn.Sequential, nn.Linear, nn.ReLU]
    assert type(module[0]) is not nn.Linear


def test_a_hook_of_a_copy_uses_the_copy():
    module = hooked_by_a_closure()
    copied(module)(*SAMPLES[0])
    assert module.found is None
