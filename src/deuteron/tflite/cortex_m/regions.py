"""Strided copies of tensors of any type: the one C operator that moves data, with as few dimensions as it needs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.npu.neutron.kernels.limits import MAX_DIMENSION
from deuteron.npu.neutron.kernels.params import RANK, Dims6
from deuteron.operators.cortex_m import BY_OPERATOR, RegionCopyParams
from deuteron.tflite.cortex_m.call import CpuCall, Operand

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Elements of a tensor of `shape`: from `start` on, along dimensions with strides, all in elements."""

    start: int
    strides: Shape


def contiguous(shape: Sequence[int]) -> Shape:
    """Return the strides, in elements, of a tensor whose last dimension lies side by side."""
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
    axes = _split(_merged([*axes, (size, 1, 1)]))
    starts = [(read.start * size, written.start * size)]
    while len(axes) > RANK:
        count, a, b = axes.pop(0)
        starts = [(x + i * a, y + i * b) for x, y in starts for i in range(count)]
    axes = [(1, 0, 0)] * (RANK - len(axes)) + axes
    # The operator wants strides that do not repeat an output even where a dimension is 1.
    dims6, reads, writes = (tuple(column) for column in zip(*axes, strict=True))
    return tuple(
        CpuCall(
            BY_OPERATOR["copy"], (source,), (target,), RegionCopyParams(y, x, _six(dims6), _six(reads), _six(writes))
        )
        for x, y in starts
    )


def merged_pair(dims: Sequence[int], a: Sequence[int], b: Sequence[int]) -> tuple[Shape, Shape, Shape]:
    """Return dimensions and two sets of strides with neighbours joined that are walked along as one."""
    axes = _merged(list(zip(dims, a, b, strict=True)))
    return tuple(x[0] for x in axes), tuple(x[1] for x in axes), tuple(x[2] for x in axes)


def _merged(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes (count, stride, stride) with those of one element left out and neighbours joined."""
    result: list[tuple[int, int, int]] = []
    for count, a, b in axes:
        if count == 1:
            continue
        if result and result[-1][1:] == (count * a, count * b) and result[-1][0] * count <= MAX_DIMENSION:
            result[-1] = (result[-1][0] * count, a, b)
        else:
            result.append((count, a, b))
    return result


def _split(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes with those that are longer than the operator takes as two."""
    result: list[tuple[int, int, int]] = []
    for count, a, b in axes:
        part = next((n for n in range(min(count, MAX_DIMENSION), 0, -1) if count % n == 0), 1)
        if part < count:
            result.append((count // part, part * a, part * b))
        result.append((part, a, b))
    return result


def _six(values: tuple[int, ...]) -> Dims6:
    a, b, c, d, e, f = values
    return a, b, c, d, e, f
