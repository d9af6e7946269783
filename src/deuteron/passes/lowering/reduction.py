"""Pooling and means."""

from fractions import Fraction
from math import prod

from deuteron.ir.ops import AveragePool2D, MaxPool2D, Mean
from deuteron.kernels import params as p
from deuteron.kernels.catalogue import AVERAGE_POOL, MAX_POOL, MEAN
from deuteron.kernels.limits import MAX_REDUCTION
from deuteron.kernels.program import Ref
from deuteron.numerics import requant
from deuteron.passes.lowering.builder import Builder
from deuteron.passes.lowering.movement import move_box
from deuteron.passes.lowering.rows import rows
from deuteron.passes.lowering.strides import Ints, contiguous_strides


def average_pool(build: Builder, op: AveragePool2D) -> None:
    """Lowers an average pool; where windows leave the map it has one requantisation row per number of elements."""
    (x,), (y,) = op.inputs, op.outputs
    batches, in_h, in_w, channels = build.type(x).shape
    _, out_h, out_w, _ = build.type(y).shape
    area = prod(op.window)
    if area > MAX_REDUCTION:
        raise build.unsupported(op, f"the window covers {area} elements, at most {MAX_REDUCTION} are allowed")
    factor = Fraction(build.type(x).q.scale) / Fraction(build.type(y).q.scale)
    counts = (area,) if _windows_stay_inside(op, (in_h, in_w), (out_h, out_w)) else range(1, area + 1)
    table = rows([factor / count for count in counts])
    params = p.AveragePoolParams(
        batches=batches, in_h=in_h, in_w=in_w, channels=channels, out_h=out_h, out_w=out_w,
        kernel_h=op.window[0], kernel_w=op.window[1], stride_h=op.stride[0], stride_w=op.stride[1],
        pad_top=op.pads.top, pad_left=op.pads.left, requant_count=len(table),
        in_zp=build.type(x).q.zero_point, out_zp=build.type(y).q.zero_point, act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    build.call(op, AVERAGE_POOL, (build.tensor(x), build.array(f"{y}/requant", table), build.tensor(y)), params)


def max_pool(build: Builder, op: MaxPool2D) -> None:
    """Lowers a max pool."""
    (x,), (y,) = op.inputs, op.outputs
    batches, in_h, in_w, channels = build.type(x).shape
    _, out_h, out_w, _ = build.type(y).shape
    params = p.MaxPoolParams(
        batches=batches, in_h=in_h, in_w=in_w, channels=channels, out_h=out_h, out_w=out_w,
        kernel_h=op.window[0], kernel_w=op.window[1], stride_h=op.stride[0], stride_w=op.stride[1],
        pad_top=op.pads.top, pad_left=op.pads.left, act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    build.call(op, MAX_POOL, (build.tensor(x), build.tensor(y)), params)


def mean(build: Builder, op: Mean) -> None:
    """Lowers a mean over neighbouring dimensions; others are brought together by a copy first."""
    (x,), (y,) = op.inputs, op.outputs
    shape = build.type(x).shape
    reduced = [axis for axis in op.axes if shape[axis] > 1]
    kept = [axis for axis in range(len(shape)) if axis not in op.axes and shape[axis] > 1]
    source = build.tensor(x)
    first, last = (reduced[0], reduced[-1]) if reduced else (0, -1)
    if any(first < axis < last for axis in kept):
        source = _permuted(build, op, (*kept, *reduced))
        outer, inner = prod(shape[axis] for axis in kept), 1
    else:
        outer = prod(shape[axis] for axis in kept if axis < first)
        inner = prod(shape[axis] for axis in kept if axis > last) if reduced else prod(shape)
    count = prod(shape[axis] for axis in reduced)
    factor = requant(Fraction(build.type(x).q.scale) / (count * Fraction(build.type(y).q.scale)))
    params = p.MeanParams(
        outer=outer if reduced else 1, reduced=count, inner=inner, in_zp=build.type(x).q.zero_point,
        mult=factor.multiplier, shift=factor.shift, out_zp=build.type(y).q.zero_point,
    )  # fmt: skip
    build.call(op, MEAN, (source, build.tensor(y)), params)


def _permuted(build: Builder, op: Mean, order: Ints) -> Ref:
    """A copy of the input with its dimensions in this order; those left out are 1."""
    shape = build.type(op.inputs[0]).shape
    strides = contiguous_strides(shape)
    dims = tuple(shape[axis] for axis in order)
    walk = tuple(strides[axis] for axis in order)
    target = build.scratch(f"{op.outputs[0]}/permuted", prod(shape))
    move_box(build, op, dims, (build.tensor(op.inputs[0]), 0, walk), (target, 0, contiguous_strides(dims)))
    return target


def _windows_stay_inside(op: AveragePool2D, size: tuple[int, int], count: tuple[int, int]) -> bool:
    if op.pads.top or op.pads.left:
        return False
    ends = [(n - 1) * stride + window for n, stride, window in zip(count, op.stride, op.window, strict=True)]
    return ends[0] <= size[0] and ends[1] <= size[1]
