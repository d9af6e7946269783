"""A module's state becomes inputs and outputs of its graph, which computes what the module does in a sequence."""

from collections import deque
from typing import Any

import pytest
import torch
from tests.frontend.state import stateful_networks
from torch import Tensor, nn

from deuteron.errors import DeuteronError, InputError
from deuteron.frontend.eager.capture import captured, run
from deuteron.frontend.eager.outputs import equal
from deuteron.frontend.eager.state import Snapshot
from deuteron.frontend.export import StateError


def stream(count: int) -> list[tuple[torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.rand(1, stateful_networks.WIDTH) * 2 - 1,) for _ in range(count)]


def made(name: str) -> nn.Module:
    torch.manual_seed(0)
    return stateful_networks.FORMS[name]().eval()


def check_steps(module: nn.Module, count: int) -> None:
    """The captured graph gives the module's outputs for so many steps, and capturing leaves the module as it was."""
    before = Snapshot(module)
    observed, graph = captured(module, stream(3))
    assert before.changed(Snapshot(module)) == ()
    values = [one.initial for one in observed.variables]
    assert values
    with torch.no_grad():
        for (x,) in stream(count):
            (*outputs,) = run(graph, (x, *values))
            wanted = module(x)
            ours, values = outputs[:1], outputs[1:]
            torch.testing.assert_close(ours[0], wanted)


@pytest.mark.parametrize("name", stateful_networks.FORMS)
def test_the_graph_steps_as_the_module_does(name: str):
    check_steps(made(name), 20)


def test_names_and_initial_values():
    observed, _ = captured(made("ring"), stream(2))
    assert [one.name for one in observed.variables] == ["cache", "at"]
    assert equal([one.initial for one in observed.variables], [stateful_networks.rows(), stateful_networks.position()])
    observed, _ = captured(made("lstm"), stream(2))
    assert [one.name for one in observed.variables] == ["state.0", "state.1"]


class Starts(nn.Module):
    """A smoothed input that starts at the first input, or at half of it as with zeros."""

    def __init__(self, *, at_the_input: bool) -> None:
        super().__init__()
        self.at_the_input = at_the_input
        self.h: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.h is None:
            self.h = x if self.at_the_input else 0.5 * x
        else:
            self.h = 0.5 * self.h + 0.5 * x
        return self.h * 2


def refused(module: nn.Module, samples: list[tuple[Tensor]]) -> DeuteronError:
    with pytest.raises(DeuteronError) as caught:
        captured(module, samples)
    return caught.value


def test_a_start_with_none_is_compared_on_every_sample():
    silence_first = [(stateful_networks.row(),), *stream(2)]
    observed, _ = captured(Starts(at_the_input=True), silence_first)
    assert [one.name for one in observed.variables] == ["h", "phase"]
    observed, graph = captured(Starts(at_the_input=False), silence_first)
    ((x,),) = stream(1)
    torch.testing.assert_close(run(graph, (x, observed.variables[0].initial)), (x, 0.5 * x))


def first_kept(m: Any, x: Tensor) -> Tensor:
    m.kept["h"] = 0.5 * m.kept.get("h", x) + x
    return m.kept["h"]


def fraction(m: Any, x: Tensor) -> Tensor:
    y = torch.where(x > 50, x * m.kept, x)
    m.kept = (x > 60).sum()
    return y


def seldom(m: Any, x: Tensor) -> Tensor:
    y = torch.where(x > 50, x * m.kept.get("h", 1.0), x)
    m.kept["h"] = x * 0.5
    return y


def written_twice(m: Any, x: Tensor) -> Tensor:
    m.kept[0].add_((x > 50).float())
    y = x + m.kept[1]
    m.kept.append(0.5 * x)
    return y


def joined(m: Any, x: Tensor) -> Tensor:
    m.kept[0].add_((x > 50).float())
    y = x + m.kept[1]
    h = 0.5 * x
    m.kept = [h, h]
    return y


def warming_up(m: Any, x: Tensor) -> Tensor:
    m.kept.append(x)
    return torch.cat([*m.kept]).mean(0, keepdim=True)


@pytest.mark.parametrize(
    ("function", "kept"), [(first_kept, {}), (seldom, {}), (warming_up, deque(maxlen=3)), (fraction, 0.5)]
)
def test_a_first_run_that_computes_something_else_is_a_phase(function: Any, kept: object):
    module = stateful_networks.Keeps(function, kept=kept).eval()
    observed, graph = captured(module, stream(3))
    assert observed.variables[-1].name == "phase"
    ((x,),) = stream(1)
    values = [one.initial for one in observed.variables]
    with torch.no_grad():
        for scale in (1e4, 1.0, 1e4, 1.0):
            ours, *values = run(graph, (x * scale, *values))
            torch.testing.assert_close(ours, module(x * scale))


def test_python_values_that_repeat_late_or_never_are_refused():
    def every_tenth(m: Any, x: Tensor) -> Tensor:
        m.count = (m.count + 1) % 10
        return x * 2 if m.count else x

    error = refused(stateful_networks.Keeps(every_tenth, count=0).eval(), stream(3))
    assert isinstance(error, StateError)
    assert error.where is not None


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (written_twice, deque([stateful_networks.row()] * 2, maxlen=2)),
        (joined, [stateful_networks.row(), stateful_networks.row() + 1]),
    ],
)
def test_a_start_without_a_tensor_that_computes_something_else_is_refused(function: Any, kept: object):
    error = refused(stateful_networks.Keeps(function, kept=kept), stream(3))
    assert isinstance(error, StateError)
    assert error.message.startswith("a run of the model changes the attribute `kept`, and later runs read it")


def test_a_number_that_no_sample_changes_is_a_variable():
    def counted(m: Any, x: Tensor) -> Tensor:
        m.count = m.count + (x > 50).sum()
        return x * m.count

    module = stateful_networks.Keeps(counted, count=0).eval()
    observed, graph = captured(module, stream(3))
    ((x,),) = stream(1)
    with torch.no_grad():
        wanted = [module(x * 1e4), module(x)]
    first, count = run(graph, (x * 1e4, observed.variables[0].initial))
    torch.testing.assert_close([first, run(graph, (x, count))[0]], wanted)


def test_a_start_with_none_needs_a_sample_that_is_not_zero():
    error = refused(Starts(at_the_input=True), [(stateful_networks.row(),)] * 3)
    assert isinstance(error, InputError)
    assert error.message == (
        "the attribute `h` starts without a tensor, and the input `x` is zero in all samples: they do not show whether "
        "the model computes the same if it starts as a tensor"
    )
    assert error.hint == "give samples with other values, or start with a tensor"
    assert error.where is not None
    assert error.where.startswith(f"{__file__}:")


@pytest.mark.parametrize("name", ["flagged_rarely", "flagged_rarely_in_place"])
def test_a_variable_that_no_sample_changes(name: str):
    module = made(name)
    observed, graph = captured(module, stream(3))
    ((x,),) = stream(1)
    _, seen = run(graph, (x * 1e4, observed.variables[0].initial))
    assert seen.all()
    with torch.no_grad():
        module(x * 1e4)
        torch.testing.assert_close(run(graph, (x, seen))[0], module(x))


class HeldOver(nn.Module):
    """Returns the buffer that each run writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.on = nn.Buffer(torch.zeros(1, dtype=torch.bool))

    def forward(self, x: Tensor) -> Tensor:
        level = x.mean(1)
        return self.on.copy_(torch.where(self.on, level > -0.5, level > 0.5))


def test_a_returned_buffer_is_that_of_its_run():
    samples = [(torch.full((1, 8), level),) for level in (0.0, 0.7)]
    observed, graph = captured(HeldOver(), samples)
    assert [one.name for one in observed.variables] == ["on"]
    value, outputs = observed.variables[0].initial, list[bool]()
    for sample in (*samples, samples[0]):
        output, value = run(graph, (*sample, value))
        outputs.append(bool(output))
    assert outputs == [False, True, True]
