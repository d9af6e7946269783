"""Constant masks of parts of the scores of a softmax become one mask of all scores."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, fx

from deuteron.frontend.operators import base_name
from deuteron.frontend.quantize import constant_masks, inplace
from deuteron.frontend.quantize.decompositions import apply

aten: Any = torch.ops.aten
LATER = torch.ones(4, 4, dtype=torch.bool).triu(1)
INFINITE = torch.zeros(4, 4).masked_fill(LATER, -torch.inf)


def gather(model: fx.GraphModule) -> None:
    inplace.write(model)
    apply(model, {aten.softmax.int: constant_masks.gather})


def windows(x: Tensor) -> Tensor:
    x = x * 2
    x[:, -1:] += INFINITE
    x[:, 1::2] += INFINITE * 2
    return x.softmax(-1)


def flattened(x: Tensor) -> Tensor:
    return (x * 2).reshape(12, 4).reshape(1, 3, 4, 4).add(INFINITE)[:, :2].softmax(-1)


@pytest.mark.parametrize(
    ("shares", "before"),
    [
        (windows, ["mul"]),
        (flattened, ["mul", "reshape", "reshape", "slice"]),
        (lambda x: (x * 2).masked_fill(LATER, -1e9).permute(0, 2, 3, 1).softmax(-2), ["mul", "permute"]),
        (lambda x: ((x * 2 + INFINITE) + INFINITE.mT.mT).softmax(-1), ["mul"]),
        (lambda x: (x + INFINITE.clamp(min=-1e5) + torch.ones(4)).softmax(-1), ["add"]),
        (lambda x: (x + INFINITE.clamp(min=-100.0) + 0.5 * torch.ones(4)).softmax(-1), ["add"]),
        (lambda x: torch.stack([x, x + (INFINITE.clamp(min=-1e5) + 0.25)]).softmax(-1), ["add", "stack"]),
    ],
)
def test_masks_of_parts_become_one(shares: Callable[[Tensor], Tensor], before: list[str]) -> None:
    found = [base_name(target) for target in rewritten(Call(shares), (1, 3, 4, 4), gather, rtol=1e-5)]
    assert found[-len(before) - 2 :] == [*before, "add", "softmax"]


@pytest.mark.parametrize(
    "shares",
    [
        lambda x: (x + INFINITE).softmax(-1),  # has it before the softmax already
        lambda x: (x + torch.full((4, 4), -1e5)).transpose(-1, -2).softmax(-1),  # leaves whole rows out
        lambda x: (x + INFINITE).masked_fill(LATER.roll(1), 0.5).softmax(-1),
    ],
)
def test_other_masks_stay(shares: Callable[[Tensor], Tensor]) -> None:
    targets: list[list[object]] = []

    def compared(model: fx.GraphModule) -> None:
        targets.append([node.target for node in model.graph.nodes])
        gather(model)
        targets.append([node.target for node in model.graph.nodes])

    rewritten(Call(shares), (1, 3, 4, 4), compared, rtol=1e-5)
    assert targets[0] == targets[1]
