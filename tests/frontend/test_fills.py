"""Numbers that stand for infinity before a maximum or a function: they come near the others, or go behind."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import left
from torch import Tensor, fx, nn

from deuteron import api
from deuteron.frontend.quantize import fills, indexing, masks

aten = torch.ops.aten
SHAPE = (4, 8)
MASK = torch.arange(8) % 3 == 0
INPUTS = [(torch.arange(32.0).view(SHAPE) / 8 - 2,)]


def _numbers(function: Callable[[Tensor], Tensor]) -> list[float]:
    """The numbers of a function's fills after the rewrite, which must not change its result."""
    found: list[float] = []

    def write(model: fx.GraphModule) -> None:
        fills.write(model, lambda: INPUTS)
        args: list[Any] = [node.args for node in model.graph.nodes if node.target is aten.masked_fill.Scalar]
        args += [node.args for node in model.graph.nodes if node.target is aten.where.ScalarOther]
        found.extend(one for arg in args for one in arg if isinstance(one, int | float))

    left(write, function, SHAPE)
    return found


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.masked_fill(MASK, -torch.inf).amax(1),
        lambda x: x.masked_fill(MASK, -1e9).max(1).values,
        lambda x: x.masked_fill(MASK, -1e9).argmax(1),
        lambda x: x.masked_fill(MASK, torch.tensor(-1e9)).view(2, 2, 8).topk(2, -1).values,
        lambda x: torch.where(MASK, x, -1e4).unsqueeze(1).amax(-1),
        lambda x: x.masked_fill(MASK, torch.inf).amin(1),
        lambda x: torch.where(MASK, x, torch.tensor(1e5)).argmin(),
        lambda x: x.masked_fill(MASK, 1e9).topk(2, largest=False).values,
        lambda x: nn.functional.max_pool1d(x.masked_fill(MASK, -1e9), 3),
    ],
)
def test_a_number_that_loses_comes_near_the_others(function: Callable[[Tensor], Tensor]) -> None:
    (number,) = _numbers(function)
    assert 2 < abs(number) < 3


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: torch.sigmoid(x.masked_fill(MASK, -1e9)), [0.0]),
        (lambda x: torch.relu(x.masked_fill(MASK, -torch.inf) * 2), [0.0]),
        (lambda x: (x.masked_fill(MASK, -1e4) / 2).clamp(min=-1), [-1.0]),
        (lambda x: x.masked_fill(MASK, -1e4) * 2, [-2e4]),
    ],
)
def test_functions_are_computed_before_the_fill(function: Callable[[Tensor], Tensor], wanted: list[float]) -> None:
    assert _numbers(function) == wanted


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.masked_fill(MASK, -1e9),
        lambda x: x.masked_fill(MASK, -1e9).amin(1),
        lambda x: x.masked_fill(MASK, -1e9).exp(),
        lambda x: x.masked_fill(torch.tensor([[True], [False], [False], [False]]), -1e9).amax(1),
        lambda x: (y := x.masked_fill(MASK, -1e9)).amax(1, keepdim=True) + y,
        lambda x: x.masked_fill(MASK, -1e9).view(8, 4).sum(1),
    ],
)
def test_a_number_that_shows_stays(function: Callable[[Tensor], Tensor]) -> None:
    assert _numbers(function) == [-1e9]


FAR = torch.zeros(8).masked_fill(MASK, -torch.inf)
ROW = torch.tensor([[True], [False], [False], [False]])


@pytest.mark.parametrize(
    ("function", "is_near"),
    [
        (lambda x: (x + FAR).argmax(1), True),
        (lambda x: (FAR + x).unsqueeze(1).amax(-1), True),
        (lambda x: torch.stack((x + FAR.clamp(min=-1e9)).max(1)[::-1]), True),
        (lambda x: (x + torch.zeros(SHAPE).masked_fill(x < 0, -1e9)).argmax(1), True),
        (lambda x: (x + torch.full(SHAPE, -1e9)).amax(1), False),
        (lambda x: (x + FAR).argmax(1) + (x + FAR).isfinite().sum(), False),
        (lambda x: (y := x + FAR.clamp(min=-1e9)).argmax(1) + y[0, 0], False),
    ],
)
def test_a_mask_that_is_added_before_a_maximum_comes_near(function: Callable[[Tensor], Tensor], is_near: bool) -> None:
    sums: list[Tensor] = []

    class Sums(fx.Interpreter):
        def run_node(self, n: fx.Node) -> object:
            value = super().run_node(n)
            sums.extend([value] if n.target is aten.add.Tensor and isinstance(value, Tensor) else [])
            return value

    def write(model: fx.GraphModule) -> None:
        indexing.write(model)
        masks.write(model, lambda: INPUTS)
        Sums(model).run(*INPUTS[0])

    left(write, function, SHAPE)
    assert is_near == all(value.abs().max() < 20 for value in sums)


BIASED = torch.where(MASK, -1e9, -8 * torch.arange(8.0))
"""A mask with values for the scores that are kept, as of linear biases."""


def _shared(x: Tensor) -> Tensor:
    mask = torch.zeros(SHAPE).masked_fill(MASK & (x < 9), -1e9)
    return (x + mask).argmax(1) + (40 * x + mask).softmax(1).amax(1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + BIASED).argmax(1),
        lambda x: (x + BIASED).softmax(1),
        lambda x: (y := x + FAR.clamp(min=-1e9)).amax(1, keepdim=True) + y.softmax(1),
        lambda x: (x + torch.where(ROW, -1000.0, FAR.clamp(min=-1000))).amax(1).gt(-500).float(),
        _shared,
    ],
)
def test_readers_of_one_mask_all_leave_out_what_it_masks(function: Callable[[Tensor], Tensor]) -> None:
    left(lambda model: masks.write(model, lambda: [(torch.randn(SHAPE),) for _ in range(9)]), function, SHAPE)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.masked_fill(ROW, -torch.inf).softmax(-1).nan_to_num(0.5),
        lambda x: torch.where(x > 0, x, -torch.inf).softmax(1).nan_to_num(),
        lambda x: (x + torch.zeros(8).masked_fill(x[0] < 9, -torch.inf)).softmax(-1).nan_to_num(),
        lambda x: x.masked_fill(ROW, -torch.inf).masked_fill(x < 0.5, -torch.inf).softmax(-1).nan_to_num(),
        lambda x: torch.where(x > 0, x.masked_fill(x > 1, -torch.inf), -torch.inf).softmax(-1).nan_to_num(),
        lambda x: (p := x.masked_fill(x.amax(0) < 2, -torch.inf).softmax(0)).masked_fill(p.isnan(), 0.0),
    ],
)
def test_scores_that_are_all_left_out_have_no_nan(function: Callable[[Tensor], Tensor]) -> None:
    found = left(lambda model: fills.write(model, lambda: INPUTS), function, SHAPE)
    assert not {aten.nan_to_num.default, aten.isnan.default} & {*found}


class Best(nn.Module):
    """The best of the scores that a second input keeps, and its place."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(8, 8)

    def forward(self, x: Tensor, left_out: Tensor) -> tuple[Tensor, Tensor]:
        return tuple(self.scores(x).masked_fill(left_out, -1e9).max(1))


@pytest.mark.parametrize("target", full.only(["cortex-m55", "ethos-u55-128cm"], "ethos-u55-128cm"))
def test_the_best_of_masked_scores(target: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    batches = [(torch.randn(SHAPE), torch.rand(SHAPE) > torch.linspace(0.2, 1, 8)) for _ in range(16)]
    build = partial(api.build, Best().eval(), batches[0], target=target, calibration=batches)
    values, places = build(output=tmp_path / "build").manifest.quality.outputs
    assert values.sqnr > 30
    assert places.equal > 0.9
