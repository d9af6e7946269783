"""Strides of tensors, as parameter records have them."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from deuteron.operators.kernel_params import Dims5

_RANK = 5
_MOST = 65536
"""The largest dimension of a record."""

_CHANNELS_LAST = (0, 2, 3, 1)


def is_last(x: Tensor) -> bool:
    """True for an image that is in channels-last memory only."""
    return x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)


def strides_of(x: Tensor) -> tuple[int, ...] | None:
    """The stride of each dimension in elements; None for a memory format that our operators do not support."""
    if not (x.is_contiguous() or is_last(x)):
        return None
    order = _CHANNELS_LAST if is_last(x) else range(x.dim())
    strides, step = [0] * x.dim(), 1
    for dim in reversed(order):
        strides[dim], step = step, step * x.shape[dim]
    return tuple(strides)


def broadcast(shape: Sequence[int], values: Sequence[Tensor], *, last: bool) -> tuple[Dims5, ...] | None:
    """Merge the dimensions of a result, and compute the strides of each value along them; None if there are too many.

    Args:
        shape: the shape of the result.
        values: the tensors that are broadcast to it.
        last: whether the result is an image in channels-last memory.
    """
    columns: list[tuple[int, ...]] = []
    for value in values:
        if (strides := strides_of(value)) is None:
            return None
        missing = len(shape) - value.dim()
        used = [0 if size == 1 else stride for size, stride in zip(value.shape, strides, strict=True)]
        columns.append((*(0,) * missing, *used))
    rows: list[tuple[int, ...]] = []
    for dim in _CHANNELS_LAST if last else range(len(shape)):
        row = (shape[dim], *(column[dim] for column in columns))
        if row[0] == 1:
            continue
        if (
            rows
            and rows[-1][0] * row[0] <= _MOST
            and all(a == b * row[0] for a, b in zip(rows[-1][1:], row[1:], strict=True))
        ):
            row = (rows.pop()[0] * row[0], *row[1:])
        rows.append(row)
    if len(rows) > _RANK or any(row[0] > _MOST for row in rows):
        return None
    padded = [(1, *(0,) * len(values))] * (_RANK - len(rows)) + rows
    return tuple(cast(Dims5, column) for column in zip(*padded, strict=True))
