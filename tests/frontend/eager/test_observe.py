"""The state that a module keeps from run to run is found in every form, and the user's module does not change."""

import collections
import cProfile
import inspect
import itertools
import logging
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from tests import full
from tests.frontend.eager import settings
from torch import Tensor, nn

from deuteron.errors import InputError, UnsupportedError
from deuteron.frontend.eager.capture import captured
from deuteron.frontend.eager.observe import distinct, observe
from deuteron.frontend.eager.state import Snapshot
from deuteron.frontend.export import KEEPS

SAMPLES = [(torch.arange(4.0).reshape(1, 4) - 1,), (torch.ones(1, 4),), (torch.full((1, 4), -2.0),)]

Forward = Callable[..., Any]


class Net(nn.Module):
    """A module of a function, and of the attributes that it uses."""

    def __init__(self, function: Forward, **attributes: object) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.function = function
        for name, value in attributes.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, x: Tensor) -> Any:
        return self.function(self, self.layer(x))


STEPS = {"count": 0}
TOTAL = 0


class Shared(nn.Module):
    runs = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).runs += 1
        return x * self.runs


class Neuron:
    """An object of the user's that is no module."""

    def __init__(self) -> None:
        self.potential = torch.zeros(1, 4)

    def fire(self, x: Tensor) -> Tensor:
        self.potential = self.potential * 0.5 + x
        return (self.potential > 0.5).float()


def assigned(m: Any, x: Tensor) -> Tensor:
    m.kept = m.kept * 0.5 + x
    return m.kept


def written(m: Any, x: Tensor) -> Tensor:
    m.kept.copy_(m.kept * 0.5 + x)
    return m.kept * 1


def written_through_a_view(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        m.kept.unbind(1)[0].add_(1)
    return x + m.kept


def swapped_data(m: Any, x: Tensor) -> Tensor:
    m.kept.data = m.kept.data + x
    return m.kept * 2


def first_input(m: Any, x: Tensor) -> Tensor:
    if m.kept is None:
        m.kept = x
    return x + m.kept


def appended(m: Any, x: Tensor) -> Tensor:
    m.kept.append(x)
    return sum(list(m.kept)[-2:])  # type: ignore[return-value]


def long_list(m: Any, x: Tensor) -> Tensor:
    m.kept = [*m.kept, x][-20:]
    return x + m.kept[0] if len(m.kept) == 20 else x


def long_deque(m: Any, x: Tensor) -> Tensor:
    m.kept.append(x)
    return x + m.kept[0] if len(m.kept) == 20 else x


def long_tensor(m: Any, x: Tensor) -> Tensor:
    m.kept = torch.cat([m.kept, x])[-20:]
    return x + m.kept[:1] if len(m.kept) == 20 else x


def counted(m: Any, x: Tensor) -> Tensor:
    m.kept += 1
    return x * 2 if m.kept <= 2 else x


def toggled(m: Any, x: Tensor) -> Tensor:
    m.kept = not m.kept
    return x * 2 if m.kept else x


def counted_from_nothing(m: Any, x: Tensor) -> Tensor:
    m.kept = getattr(m, "kept", 0) + 1
    return x * 2 if m.kept > 100 else x


def compared(m: Any, x: Tensor) -> Tensor:
    m.kept = m.kept * 0.5 + x.mean()
    return x * (m.kept > 100.0)


class Slots:
    """State in slots."""

    __slots__ = ("step",)

    def __init__(self) -> None:
        self.step = 0


class Computed(Slots):
    """A constant with the name of a slot, as the constants of mpmath have."""

    def __init__(self) -> None:
        pass

    @property
    def step(self) -> list[float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return [0.5]


def of_a_property(m: Any, x: Tensor) -> Tensor:
    return x * m.state.step[0]


def in_slots(m: Any, x: Tensor) -> Tensor:
    m.state.step += 1
    return x if m.state.step < 500 else x * 2


def in_a_module(_: Any, x: Tensor) -> Tensor:
    settings.COUNT += 1
    return x if settings.COUNT < 500 else x * 2


def iterated(m: Any, x: Tensor) -> Tensor:
    return x * next(m.kept)


def registered(m: Any, x: Tensor) -> Tensor:
    m.register_buffer("kept", x + (m.kept if hasattr(m, "kept") else 0))
    return m.kept


def in_an_object(m: Any, x: Tensor) -> Tensor:
    return m.neuron.fire(x)


def in_a_global_dict(_: Any, x: Tensor) -> Tensor:
    STEPS["count"] += 1
    return x * STEPS["count"]


def in_a_global(_: Any, x: Tensor) -> Tensor:
    global TOTAL  # noqa: PLW0603 - what is tested
    TOTAL += 1
    return x * TOTAL


def in_a_closure() -> Forward:
    seen = 0

    def forward(_: Any, x: Tensor) -> Tensor:
        nonlocal seen
        seen += 1
        return x * seen

    return forward


def in_a_default(_: Any, x: Tensor, memory: list[Tensor] = []) -> Tensor:  # noqa: B006 - what is tested
    memory.append(x)
    return memory[0]


def hooked() -> nn.Module:
    seen: list[Tensor] = []

    def add_last(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        seen.append(output)
        return output + seen[0]

    module = nn.Sequential(nn.Linear(4, 4))
    module[0].register_forward_hook(add_last)
    return module


ZEROS = torch.zeros(1, 4)

STATEFUL: list[tuple[Callable[[], nn.Module], str, str]] = [
    (lambda: Net(swapped_data, kept=ZEROS.clone()), "attribute `kept`", "m.kept.data = m.kept.data + x"),
    (lambda: Net(appended, kept=[]), "attribute `kept`", "m.kept.append(x)"),
    (lambda: Net(long_list, kept=[]), "attribute `kept`", "m.kept = [*m.kept, x][-20:]"),
    (lambda: Net(long_deque, kept=collections.deque(maxlen=20)), "attribute `kept`", "m.kept.append(x)"),
    (lambda: Net(long_tensor, kept=ZEROS.clone()), "attribute `kept`", "m.kept = torch.cat([m.kept, x])[-20:]"),
    (lambda: Net(counted, kept=0), "attribute `kept`", "m.kept += 1"),
    (lambda: Net(counted_from_nothing), "attribute `kept`", 'm.kept = getattr(m, "kept", 0) + 1'),
    (lambda: Net(in_slots, state=Slots()), "attribute `state.step`", "m.state.step += 1"),
    (lambda: Net(in_a_module), "variable `COUNT` of module `tests.frontend.eager.settings`", "settings.COUNT += 1"),
    (lambda: Net(iterated, kept=itertools.count()), "attribute `kept`", "return x * next(m.kept)"),
    (lambda: Net(iterated, kept=iter([1, 2, 3, 4, 5, 6, 7, 8])), "attribute `kept`", "return x * next(m.kept)"),
    (
        lambda: Net(registered),
        "attribute `kept`",
        'm.register_buffer("kept", x + (m.kept if hasattr(m, "kept") else 0))',
    ),
    (lambda: Net(in_a_global_dict), "global variable `STEPS`", 'STEPS["count"] += 1'),
    (lambda: Net(in_a_global), "global variable `TOTAL`", "TOTAL += 1"),
    (lambda: Net(in_a_closure()), "variable `seen` of in_a_closure.<locals>.forward", "seen += 1"),
    (lambda: Net(in_a_default), "default of `memory` of in_a_default", "memory.append(x)"),
    (hooked, "variable `seen` of hooked.<locals>.add_last", "seen.append(output)"),
    (Shared, "class attribute `Shared.runs`", "type(self).runs += 1"),
]


@pytest.mark.parametrize(("make", "place", "code"), full.only(STATEFUL, *STATEFUL[::3]))
def test_state_is_refused_with_its_place_and_line(make: Callable[[], nn.Module], place: str, code: str):
    module = make()
    before = Snapshot(module)
    with pytest.raises(UnsupportedError) as caught:
        captured(module, SAMPLES)
    message, _, hint = str(caught.value).partition("\n\nhint: ")
    where, _, text = message.partition(": ")
    assert text == f"a run of the model changes the {place}, and later runs read it, at `{code}`"
    assert where.startswith(f"{__file__}:")
    assert inspect.getsource(inspect.getmodule(Net)).splitlines()[int(where.rpartition(":")[2]) - 1].strip() == code  # type: ignore[arg-type]
    assert hint == KEEPS
    assert before.changed(Snapshot(module)) == ()


VARIABLES: list[tuple[Callable[[], nn.Module], str, str]] = [
    (lambda: Net(assigned, kept=ZEROS.clone()), "kept", "m.kept = m.kept * 0.5 + x"),
    (lambda: Net(written, kept=ZEROS.clone()), "kept", "m.kept.copy_(m.kept * 0.5 + x)"),
    (lambda: Net(written_through_a_view, kept=ZEROS.clone()), "kept", "m.kept.unbind(1)[0].add_(1)"),
    (lambda: Net(compared, kept=torch.zeros(1)), "kept", "m.kept = m.kept * 0.5 + x.mean()"),
    (
        lambda: Net(in_an_object, neuron=Neuron()),
        "neuron.potential",
        "self.potential = self.potential * 0.5 + x",
    ),
]


@pytest.mark.parametrize(("make", "name", "code"), VARIABLES)
def test_tensors_in_attributes_are_variables(make: Callable[[], nn.Module], name: str, code: str):
    module = make()
    before = Snapshot(module)
    observed, _ = captured(module, SAMPLES)
    ((found, source),) = [(one.name, one.source) for one in observed.variables]
    assert (found, source and source.code) == (name, code)
    assert before.changed(Snapshot(module)) == ()


def test_a_profiler_sees_its_run():
    with cProfile.Profile() as profiler:
        observed = observe(Net(toggled, kept=False), SAMPLES)
    assert "at `m.kept = not m.kept`" in str(observed.refusal)
    assert any("toggled" in str(entry.code) for entry in profiler.getstats())


def only_written(m: Any, x: Tensor) -> Tensor:
    m.calls += 1
    m.seen.append(x)
    m.last = x
    return x * 2


def overwritten(m: Any, x: Tensor) -> Tensor:
    m.kept.copy_(x)
    m.last = x + m.kept
    return m.last * m.kept


def collected(m: Any, x: Tensor) -> Tensor:
    m.found["x"] = x * 2
    m.listed.clear()
    m.listed.append(x)
    return m.found["x"] + m.listed[0]


def cached(m: Any, x: Tensor) -> Tensor:
    if 4 not in m.tables:
        m.tables[4] = torch.arange(4.0)
    return x * m.tables[4]


def logged(_: Any, x: Tensor) -> Tensor:
    logging.getLogger("deuteron.test").info("shape %s", x.shape)
    sys.stdout.write(str(x.shape))
    return x * 2


def counted_by_key(m: Any, x: Tensor) -> Tensor:
    m.seen[len(x)].append(x.mean())
    m.calls["all"] = m.calls["all"] + 1
    m.shapes[tuple(x.shape)] += 1
    return x * 2


def told_now_and_then(m: Any, x: Tensor) -> Tensor:
    m.calls += 1
    if m.calls % 100 == 0:
        logging.getLogger("deuteron.test").info("call %d", m.calls)
    print(f"call {m.calls}")  # noqa: T201 - what is tested
    return x * 2


def hooked_by_a_closure() -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    module.found = None
    module[0].register_forward_hook(lambda _, __, output: setattr(module, "found", output))
    module[1].register_forward_hook(lambda _, __, output: output + module.found.mean())
    return module


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


PURE: list[Callable[[], nn.Module]] = [
    lambda: Net(only_written, calls=0, seen=[], last=None),
    lambda: Net(overwritten, kept=ZEROS.clone(), last=None),
    lambda: Net(cached, tables={}),
    lambda: Net(collected, found={}, listed=[]),
    lambda: Net(logged),
    lambda: Net(of_a_property, state=Computed()),
    lambda: Net(
        counted_by_key, seen=collections.defaultdict(list), calls={"all": 0}, shapes=collections.Counter[Any]()
    ),
    lambda: Net(told_now_and_then, calls=0),
    hooked_by_a_closure,
    lambda: torch.compile(nn.Linear(4, 4), backend="eager"),
    lambda: nn.Sequential(torch.compile(nn.Linear(4, 4), backend="eager"), nn.ReLU()),
    lambda: nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4)),
    lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)),
    lambda: nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.ReLU())),
    lambda: nn.utils.spectral_norm(nn.Linear(4, 4)),
]


@pytest.mark.parametrize("make", PURE)
def test_what_no_later_run_reads_is_no_state(make: Callable[[], nn.Module]):
    module = make().train()
    before = Snapshot(module)
    observed = observe(module, SAMPLES)
    twin = make().eval()
    twin.load_state_dict(module.state_dict())
    with torch.no_grad():
        for sample, outputs in zip(SAMPLES, observed.outputs, strict=True):
            assert torch.equal(twin(*sample), outputs[0])
    assert before.changed(Snapshot(module)) == ()
    assert module.training


@pytest.mark.parametrize(
    "draw", [lambda m, x: x + torch.rand(4), lambda m, x: x * random.random(), lambda m, x: x + torch.randn_like(x)]
)
def test_random_numbers_are_no_state(draw: Forward):
    module = Net(draw)
    state, python = torch.get_rng_state(), random.getstate()
    assert observe(module, SAMPLES).draws
    assert torch.equal(state, torch.get_rng_state())
    assert python == random.getstate()


def test_outputs_of_any_structure_are_flat():
    def forward(_: Any, x: Tensor) -> Any:
        return {"b": [x, None, (x + 1,)], "a": Pair(x * 2, x * 3), "max": x.max(1)}

    outputs = observe(Net(forward), SAMPLES[:1]).outputs[0]
    assert [list(value.shape) for value in outputs] == [[1, 4]] * 4 + [[1]] * 2


@pytest.mark.parametrize(
    ("forward", "text"),
    [
        (lambda m, x: (x, 3), "the model returns a `int`\n\nhint: return tensors: one, or a tuple, list, dict or named "
         "tuple of them"),
        (lambda m, x: None, "the model returns no tensor\n\nhint: return at least one"),
    ],
)  # fmt: skip
def test_outputs_that_are_no_tensors(forward: Forward, text: str):
    lines, first = inspect.getsourcelines(Net.forward)
    with pytest.raises(InputError) as caught:
        observe(Net(forward), SAMPLES)
    assert str(caught.value) == f"{__file__}:{first + len(lines) - 1}: {text}"


class WrongWidth(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


class TakesTwo(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x + y


def test_a_model_that_fails_on_its_example_inputs():
    first = inspect.getsourcelines(WrongWidth.forward)[1]
    with pytest.raises(InputError) as caught:
        observe(WrongWidth(), [(torch.ones(1, 1, 4, 4),)])
    assert str(caught.value) == (
        f"{__file__}:{first + 1}: the model fails on its example inputs: "
        "RuntimeError: Given groups=1, weight of size [4, 3, 3, 3], "
        "expected input[1, 1, 4, 4] to have 3 channels, but got 1 channels instead\n\n"
        "hint: it was called with torch.float32 [1, 1, 4, 4]"
    )


def test_too_few_example_inputs():
    with pytest.raises(InputError) as caught:
        observe(TakesTwo(), [(torch.ones(1, 1, 4, 4),)])
    assert str(caught.value) == (
        "the model fails on its example inputs: TypeError: TakesTwo.forward() missing 1 required positional argument: "
        "'y'\n\nhint: it was called with torch.float32 [1, 1, 4, 4]"
    )


@pytest.mark.parametrize("count", full.first([10_000, 210_000], 1))
def test_state_beyond_many_values_is_found(count: int):
    others = [[object()] for _ in range(count)]
    observed = observe(Net(toggled, a_others=others, kept=False), SAMPLES[:1])
    assert "changes the attribute `kept`" in str(observed.refusal)


@pytest.mark.parametrize("values", [[3, 1, 2], [0, 0], [5, 5], [True, False], [True, True]])
def test_integers_get_another_sample_of_the_same_range(values: list[int]):
    (x,), (other,) = distinct([(torch.tensor(values),)])
    assert not torch.equal(x, other)
    assert 0 <= int(other.min())
    assert int(other.max()) <= max(1, *values)


def test_one_sample_gets_another_beside_it():
    (x,) = SAMPLES[0]
    assert len(distinct([(x,), (x.clone(),)])) == 2
    assert len(distinct(SAMPLES)) == 3
