"""Strided copies of tensors of any type: the one C operator that moves data, with as few dimensions as it needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, RegionCopyParams
from deuteron.operators.kernel_params import RANK, Dims6
from deuteron.operators.limits import MAX_DIMENSION
from deuteron.tflite.cortex_m.call import CpuCall, Operand

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Elements of a tensor of `shape`: from `start` on, along dimensions with strides, all in elements."""

    start: int
    strides: Shape


def contiguous(shape: Sequence[int]) -> Shape:
    """Return the strides, in elements, of a row-major tensor."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def whole(shape: Sequence[int]) -> Region:
    """Return all of a tensor."""
    return Region(0, contiguous(shape))


def broadcast_strides(shape: Sequence[int], to: Sequence[int]) -> Shape:
    """Return the strides with which a tensor repeats along a shape that it broadcasts to."""
    padded = (1,) * (len(to) - len(shape)) + tuple(shape)
    return tuple(0 if size == 1 else stride for size, stride in zip(padded, contiguous(padded), strict=True))


def copies(
    dtype: str, source: Operand, target: Operand, dims: Sequence[int], read: Region, written: Region
) -> tuple[CpuCall, ...]:
    """Return the calls that copy elements along `dims`; nearly always one."""
    size = np.dtype(dtype).itemsize
    if math.prod(dims) == 0:
        return ()
    axes = [(dim, a * size, b * size) for dim, a, b in zip(dims, read.strides, written.strides, strict=True)]
    axes = merged([*axes, (size, 1, 1)])
    starts = [(read.start * size, written.start * size)]
    while len(axes) > RANK:
        count, a, b = axes.pop(0)  # one call for each place along the outermost
        starts = [(x + i * a, y + i * b) for x, y in starts for i in range(count)]
    axes = [(1, 0, 0)] * (RANK - len(axes)) + axes
    dims6, reads, writes = (tuple(column) for column in zip(*axes, strict=True))
    return tuple(
        CpuCall(BY_OPERATOR["copy"], (source,), (target,), RegionCopyParams(y, x, six(dims6), six(reads), six(writes)))
        for x, y in starts
    )


def merged(axes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return axes (count, strides), as few as need be: none has one element, or more than operators take."""
    joined: list[tuple[int, ...]] = []
    for count, *strides in axes:
        if count == 1:
            continue
        if joined and list(joined[-1][1:]) == [count * stride for stride in strides]:
            joined[-1] = (joined[-1][0] * count, *strides)
        else:
            joined.append((count, *strides))
    return [part for axis in joined for part in _parts(axis)]


def _parts(axis: tuple[int, ...]) -> list[tuple[int, ...]]:
    """An axis, or two where it is longer than operators take."""
    count, *strides = axis
    if count <= MAX_DIMENSION:
        return [axis]
    part = next(n for n in range(MAX_DIMENSION, 0, -1) if count % n == 0)
    return [(count // part, *(part * stride for stride in strides)), (part, *strides)]


def six(values: tuple[int, ...]) -> Dims6:
    """Return six numbers as the tuple that records have."""
    a, b, c, d, e, f = values
    return a, b, c, d, e, f
