"""Selections by masks: which elements a mask selects, and when it is read."""

from collections.abc import Callable

import pytest
import torch
from tests.frontend.float_rewrites import Call, rewritten
from torch import Tensor, fx

from deuteron.errors import UnsupportedError
from deuteron.frontend.export import check_exported
from deuteron.frontend.quantize import boolean_indices, inplace


def _write(model: fx.GraphModule) -> None:
    boolean_indices.write(model)
    check_exported(model, takes_complex=False)
    inplace.write(model)


def _mask_is_changed_later(x: Tensor) -> Tensor:
    mask = x > 0
    chosen = x[mask]
    mask.view(-1).logical_and_((x < 0.5).view(-1))
    return chosen.sum() * x + mask


def _mask_is_changed_before(x: Tensor) -> Tensor:
    y, mask = x * 2, x > 0
    mask &= x < 1
    y[mask] = y[mask] + 1
    return y


def _mask_of_one_dimension(x: Tensor) -> Tensor:
    return torch.masked_select(x, x[0] > 0).sum() * x


@pytest.mark.parametrize("function", [_mask_is_changed_later, _mask_is_changed_before, _mask_of_one_dimension])
def test_masks_select_what_pytorch_selects(function: Callable[[Tensor], Tensor]) -> None:
    rewritten(Call(function), (4, 4), _write, rtol=1e-6)


def _mask_is_changed_between(x: Tensor) -> Tensor:
    y, mask = x * 2, x > 0
    chosen = y[mask]
    mask.copy_(mask.flip(0))
    y[mask] = chosen * 2
    return y


def _selection_is_written(x: Tensor) -> Tensor:
    y, mask = x * 2, x > 0
    chosen = y[mask]
    chosen[chosen > 0.5] = 0
    y[mask] = chosen
    return y


def _softmax(x: Tensor) -> Tensor:
    y, mask = x * 2, x > 0
    y[mask] = y[mask].softmax(0)
    return y


@pytest.mark.parametrize(
    "function",
    [_mask_is_changed_between, _selection_is_written, _softmax, lambda x: x * x[x > 0].std() + x[x > 0].max()],
)
def test_other_uses_of_selections_are_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(UnsupportedError, match=r"dynamic shape \[\?\], at `"):
        rewritten(Call(function), (4, 4), _write)
