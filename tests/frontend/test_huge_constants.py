"""Constants that stand for infinity leave no operator that would set a scale."""

from collections.abc import Callable

import pytest
import torch
from tests.frontend.float_rewrites import left
from torch import Tensor

from deuteron.frontend.quantize import decompositions, huge_constants

aten = torch.ops.aten
SHAPE = (2, 6)


def _full(number: float, *shape: int) -> Tensor:
    return torch.full(shape or SHAPE, number)


@pytest.mark.parametrize("number", [-1e38, -torch.inf])
def test_a_softmax_over_steps_has_no_step_of_infinity(number: float) -> None:
    def steps(x: Tensor) -> Tensor:
        total, weight, largest = torch.zeros(2, 3), torch.zeros(2, 3), _full(number, 2, 3)
        for part in x.chunk(2, 1):
            new = torch.maximum(largest, part)
            before, now = torch.exp(largest - new), torch.exp(part - new)
            total, weight, largest = before * total + now * part, before * weight + now, new
        return total / weight

    targets = left(lambda model: (huge_constants.write(model), decompositions.fold(model))[0], steps, SHAPE)
    assert targets.count(aten.maximum.default) == 1
    assert targets.count(aten.add.Tensor) == 2
    assert targets.count(aten.exp.default) == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.maximum(x, _full(-1e38)),
        lambda x: torch.minimum(_full(torch.inf), x),
        lambda x: torch.exp(_full(-1e35) - x) + x.abs(),
        lambda x: torch.exp(x - _full(1e35)) + x.abs(),
        lambda x: torch.exp(torch.sub(x, _full(-1e35, 1), alpha=-3)) + x.abs(),
        lambda x: x + torch.zeros(6),
        lambda x: x - torch.zeros(1),
    ],
)
def test_nothing_is_left_of_them(function: Callable[[Tensor], Tensor]) -> None:
    targets = left(lambda model: (huge_constants.write(model), decompositions.fold(model))[0], function, SHAPE)
    assert not {aten.sub.Tensor, aten.maximum.default, aten.minimum.default, aten.exp.default} & {*targets}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.maximum(x, _full(1e38)),
        lambda x: torch.maximum(x, torch.tensor([-1e38, 0.0, 0, 0, 0, 0])),
        lambda x: torch.zeros(SHAPE) - x,
        lambda x: x[:1] + torch.zeros(SHAPE),
        lambda x: x + torch.tensor([0.0, 0, 0, 1, 0, 0]),
        lambda x: x.long() + torch.zeros(SHAPE),
        lambda x: torch.maximum(x.masked_fill(x > 0, -torch.inf).amax(1, keepdim=True), _full(-1e30, 2, 1)),
        lambda x: torch.maximum(torch.where(x > 0, x, -1e38), _full(-1e30)),
        lambda x: torch.maximum(x + torch.tensor([0.0, 0, 0, 0, 0, -1e38]), _full(-1e30)),
        lambda x: torch.exp(_full(-1e30) - (x + torch.tensor([0.0, 0, 0, 0, 0, 1e25]))),
    ],
)
def test_others_stay(function: Callable[[Tensor], Tensor]) -> None:
    once, twice = left(lambda _: None, function, SHAPE), left(huge_constants.write, function, SHAPE)
    assert once == twice
