"""A module's state becomes inputs and outputs of its graph, which computes what the module does in a sequence."""

import pytest
import torch
from tests.frontend.state import forms
from torch import nn

from deuteron.frontend.eager.capture import captured, run
from deuteron.frontend.eager.outputs import equal
from deuteron.frontend.eager.state import Snapshot


def stream(count: int) -> list[tuple[torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.rand(1, forms.WIDTH) * 2 - 1,) for _ in range(count)]


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return forms.FORMS[name]().eval()


@pytest.mark.parametrize("name", forms.FORMS)
def test_the_graph_steps_as_the_module_does(name: str):
    module = made(name)
    before = Snapshot(module)
    observed, graph = captured(module, stream(3))
    assert before.changed(Snapshot(module)) == ()
    values = [one.initial for one in observed.variables]
    assert values
    with torch.no_grad():
        for (x,) in stream(20):
            (*outputs,) = run(graph, (x, *values))
            wanted = module(x)
            ours, values = outputs[:1], outputs[1:]
            torch.testing.assert_close(ours[0], wanted)


def test_names_and_initial_values():
    observed, _ = captured(made("ring"), stream(2))
    assert [one.name for one in observed.variables] == ["cache", "at"]
    assert equal([one.initial for one in observed.variables], [forms.rows(), forms.position()])
    observed, _ = captured(made("lstm"), stream(2))
    assert [one.name for one in observed.variables] == ["state.0", "state.1"]
