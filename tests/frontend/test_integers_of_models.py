"""Operators on integers of the user compute the model's integers exactly, in PyTorch and as programs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests import full
from tests.frontend.float_rewrites import Call
from torch import Tensor

from deuteron import api
from deuteron.frontend.quantize import integers

FUNCTIONS: list[Callable[[Tensor], Any]] = [
    lambda x: (x + x, x * 3 - 1, -x, x.abs(), x * x, x**3),
    lambda x: (x >> 2, x // 7, x % 7, torch.div(x, 7, rounding_mode="trunc"), (x & 15) | 1, x ^ 3),
    lambda x: (x > 3, x.any(1), x.all(1), torch.where(x > 0, x, torch.zeros_like(x)), x.clamp(-5, 90)),
    lambda x: (x.sum(), x.sum(1, keepdim=True), x.sum((0, 1)), x.cumsum(1), *x.sort(1), x.topk(2).values),
    lambda x: ((x > 0).sum(1), (x > 0).sum(), x.long().sum(0)),
]
DTYPES = (torch.int8, torch.int16, torch.int32, torch.int64)


def drawn(dtype: torch.dtype) -> Tensor:
    ends = torch.iinfo(dtype)
    low, high = max(ends.min, -(2**40)), min(ends.max, 2**40)
    return torch.randint(low, high, (4, 6), generator=torch.Generator().manual_seed(0)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_rewritten_operators_compute_the_same(function: Callable[[Tensor], Any], dtype: torch.dtype) -> None:
    x = drawn(dtype)
    model: Any = torch.export.export(Call(function), (x,)).module(check_guards=False)
    integers.write(model)
    torch.testing.assert_close(model(x), function(x), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", full.first(DTYPES, 1))
def test_programs_compute_the_same(dtype: torch.dtype, tmp_path: Path) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(one for part in FUNCTIONS for one in part(x))

    x = drawn(dtype)
    api.build(Call(function), (x,), target="cortex-m55", calibration=[(x,)], output=tmp_path / "build")
    (ours,) = api.subject(tmp_path / "build").run_each([[x.flip(0).contiguous().numpy()]])
    for one, wanted in zip(ours, function(x.flip(0)), strict=True):
        np.testing.assert_array_equal(one, wanted.numpy())
        assert one.dtype == wanted.numpy().dtype
