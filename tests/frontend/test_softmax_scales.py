"""Softmaxes of small results get a scale of their own, if the model does not return them."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor

from deuteron.frontend.cortex_m import softmax_scales

aten = torch.ops.aten

SHAPE = (2, 3, 120)


def operators(function: Callable[[Tensor], Tensor]) -> list[object]:
    torch.manual_seed(0)
    batches = [(torch.randn(SHAPE) * 0.3,) for _ in range(2)]
    return rewritten(Call(function), SHAPE, partial(softmax_scales.refine, batches=batches), rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(-1) * x,
        lambda x: x.reshape(2, 120, 3).softmax(1) * 2,
        lambda x: x.flatten().softmax(0) + 1,
        lambda x: x.transpose(1, 2).reshape(6, 120).t().softmax(0).sum(1),
    ],
)
def test_a_softmax_of_small_results_is_measured(function: Callable[[Tensor], Tensor]):
    found = operators(function)
    assert aten._masked_softmax.default in found
    assert aten.softmax.int not in found


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.softmax(-1),
        lambda x: x.softmax(-1).reshape(6, 120)[:, 3:].unsqueeze(0),
        lambda x: x.softmax(1) * x,
        lambda x: (x * 30).softmax(-1) * x,
    ],
)
def test_other_softmaxes_stay(function: Callable[[Tensor], Tensor]):
    assert aten._masked_softmax.default not in operators(function)
