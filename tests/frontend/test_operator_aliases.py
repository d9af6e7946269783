"""Operators with several names get the one that backends know."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor

from deuteron.frontend.quantize import operator_aliases

aten = torch.ops.aten

CALLS: list[tuple[Callable[[Tensor], Tensor], list[Any]]] = [
    (lambda x: torch.multiply(x, 2), [aten.mul.Tensor]),
    (lambda x: torch.subtract(x, x, alpha=2), [aten.sub.Tensor]),
    (lambda x: torch.divide(x, 3.0), [aten.div.Tensor]),
    (lambda x: torch.divide(x, 3.0, rounding_mode="floor"), [aten.div.Tensor_mode]),
    (lambda x: torch.clip(x, -1, 1), [aten.clamp.default]),
    (lambda x: torch.concat([x, x.absolute()], 1), [aten.abs.default, aten.cat.default]),
    (lambda x: x.swapaxes(0, 1).negative(), [aten.transpose.int, aten.neg.default]),
    (lambda x: torch.greater(x, 0.5), [aten.gt.Scalar]),
    (lambda x: x.exp().multiply_(x), [aten.exp.default, aten.mul_.Tensor]),
    (torch.special.expit, [aten.sigmoid.default]),
    (lambda x: torch.constant_pad_nd(x, [1, 0]), [aten.pad.default]),
    (lambda x: torch.constant_pad_nd(x, [1, -1], 2), [aten.pad.default]),
]


@pytest.mark.parametrize(("function", "wanted"), CALLS)
def test_the_operator_has_its_usual_name(function: Callable[[Tensor], Tensor], wanted: list[Any]):
    found = rewritten(Call(function), (2, 4), operator_aliases.write)
    assert found == wanted
