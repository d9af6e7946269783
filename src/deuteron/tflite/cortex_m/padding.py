"""PAD, PADV2 and MIRROR_PAD, FILL and ZEROS_LIKE."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from deuteron.operators.portable import BY_ATEN_OPERATOR, FullParams
from deuteron.tflite.cortex_m.call import CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import NUMPY, Site
from deuteron.tflite.cortex_m.regions import Region, contiguous, copies, whole

ANY = tuple(NUMPY)
"""Types of operators that only move values."""


def fill(target: Operand, value: float, dtype: str = "int16") -> CpuCall:
    """Return a call that puts one value into each element."""
    raw = np.array(value, dtype).tobytes()
    low = int.from_bytes(raw[:4], "little", signed=True)
    high = int.from_bytes(raw[4:8] or b"\0", "little", signed=True)
    return CpuCall(BY_ATEN_OPERATOR["full"], (), (target,), FullParams(low, high))


def _inside(before: Sequence[int], shape: Sequence[int]) -> Region:
    """The part of a padded tensor that the input fills."""
    strides = contiguous(shape)
    return Region(sum(pad * stride for pad, stride in zip(before, strides, strict=True)), strides)


def _pads(site: Site) -> list[tuple[int, int]]:
    values = site.integers(1)
    return list(zip(values[::2], values[1::2], strict=True))


def pad(site: Site) -> tuple[CpuCall, ...]:
    """Lower PAD and PADV2: the output filled, and the input copied into it."""
    x, out = site.input(), site.output()
    site.same_quant(x, out)
    dtype = site.dtype(x)
    value: float = 0
    if site.has_input(2):
        value = site.constant(2).ravel()[0].item()
    elif x.dtype in ("INT8", "UINT8") or (x.dtype == "INT16" and out.quant is not None):
        value = site.zero_point(out)
    before = [first for first, _ in _pads(site)]
    if x.shape == out.shape:
        return copies(dtype, site.ref(), site.out(), x.shape, whole(x.shape), whole(x.shape))
    return (
        fill(site.out(), value, dtype),
        *copies(dtype, site.ref(), site.out(), x.shape, whole(x.shape), _inside(before, out.shape)),
    )


def mirror(site: Site) -> tuple[CpuCall, ...]:
    """Lower MIRROR_PAD: dimension by dimension, each border copied backwards."""
    dtype, offset = site.dtype(site.input()), site.option("Mode")  # 0 reflects, 1 repeats the border
    site.same_quant(site.input(), site.output())
    calls: list[CpuCall] = []
    source: Operand = site.ref()
    shape = list(site.input().shape)
    axes = [(axis, pads) for axis, pads in enumerate(_pads(site)) if pads != (0, 0)]
    if not axes:
        return copies(dtype, source, site.out(), shape, whole(shape), whole(shape))
    for n, (axis, (before, after)) in enumerate(axes):
        result = [*shape]
        result[axis] += before + after
        target = site.out() if n == len(axes) - 1 else Temporary(tuple(result), dtype)
        calls += _mirrored(dtype, (source, target), (shape, result), axis, (before, after, offset))
        source, shape = target, result
    return tuple(calls)


def _mirrored(
    dtype: str,
    operands: tuple[Operand, Operand],
    shapes: tuple[list[int], list[int]],
    axis: int,
    pads: tuple[int, int, int],
) -> tuple[CpuCall, ...]:
    """The copies of one dimension: the middle, what stands before it, and what stands behind it."""
    (source, target), (shape, result), (before, after, repeats) = operands, shapes, pads
    read, written, size = contiguous(shape), contiguous(result), shape[axis]
    backwards = tuple(-step if i == axis else step for i, step in enumerate(read))
    step, place = read[axis], written[axis]

    def part(count: int, first: int, steps: tuple[int, ...], at: int) -> tuple[CpuCall, ...]:
        dims = [count if i == axis else dim for i, dim in enumerate(shape)]
        return copies(dtype, source, target, dims, Region(first * step, steps), Region(at * place, written))

    away = 1 - repeats
    return (
        *part(size, 0, read, before),
        *part(before, before - 1 + away, backwards, 0),
        *part(after, size - 1 - away, backwards, before + size),
    )


def filled(site: Site) -> tuple[CpuCall, ...]:
    """Lower FILL."""
    shape = site.output().shape
    if not site.is_constant(1):
        site.same_quant(site.input(1), site.output())
        repeated = Region(0, (0,) * len(shape))
        return copies(site.dtype(site.output()), site.ref(1), site.out(), shape, repeated, whole(shape))
    return (fill(site.out(), site.constant(1).ravel()[0].item(), site.dtype(site.output())),)


def zeros(site: Site) -> tuple[CpuCall, ...]:
    """Lower ZEROS_LIKE: all bytes are 0."""
    return (fill(site.out(), 0, site.dtype(site.output())),)


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "PAD": Lowering(pad, ANY),
        "PADV2": Lowering(pad, ANY),
        "MIRROR_PAD": Lowering(mirror, ANY),
        "FILL": Lowering(filled, ANY, operand=1),
        "ZEROS_LIKE": Lowering(zeros, ANY),
    }
)
