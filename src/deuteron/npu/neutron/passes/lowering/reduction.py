"""Pooling, and reductions of whole dimensions."""

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from deuteron.npu.neutron.ir.ops import AveragePool2D, MaxPool2D, Mean, ReduceMax, ReduceMin, ReductionOp, Sum
from deuteron.npu.neutron.kernels.catalogue import AVERAGE_POOL, MAX_POOL, REDUCE_EXTREMUM, REDUCE_SUM
from deuteron.npu.neutron.passes.lowering.builder import Builder
from deuteron.npu.neutron.passes.lowering.movement import move_box
from deuteron.npu.neutron.passes.lowering.strides import Ints, contiguous_strides
from deuteron.numerics import Requant, mean_requant
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Ref


def average_pool(build: Builder, op: AveragePool2D) -> None:
    """Lowers an average pool; each window divides by the number of its elements inside the map."""
    (x,), (y,) = op.inputs, op.outputs
    batches, in_h, in_w, channels = build.type(x).shape
    _, out_h, out_w, _ = build.type(y).shape
    factor = _mean_factor(build, op, prod(op.window))
    params = p.AveragePoolParams(
        batches=batches, in_h=in_h, in_w=in_w, channels=channels, out_h=out_h, out_w=out_w,
        kernel_h=op.window[0], kernel_w=op.window[1], stride_h=op.stride[0], stride_w=op.stride[1],
        pad_top=op.pads.top, pad_left=op.pads.left, in_zp=build.type(x).q.zero_point, mult=factor.multiplier,
        shift=factor.shift, out_zp=build.type(y).q.zero_point, act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    build.call(op, AVERAGE_POOL, (build.tensor(x), build.tensor(y)), params)


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


def mean(build: Builder, op: Mean | Sum) -> None:
    """Lowers a mean or a sum to one call, after a copy if `_reduction` needs one."""
    (x,), (y,) = op.inputs, op.outputs
    sizes = _reduction(build, op)
    divisor = sizes.reduced if isinstance(op, Mean) else 1
    factor = _mean_factor(build, op, divisor)
    params = p.ReduceSumParams(
        outer=sizes.outer, reduced=sizes.reduced, inner=sizes.inner, divisor=divisor,
        in_zp=build.type(x).q.zero_point, mult=factor.multiplier, shift=factor.shift,
        out_zp=build.type(y).q.zero_point,
    )  # fmt: skip
    build.call(op, REDUCE_SUM, (sizes.source, build.tensor(y)), params)


def extremum(build: Builder, op: ReduceMax | ReduceMin) -> None:
    """Lowers a maximum or minimum over whole dimensions to one call, as `mean`."""
    sizes = _reduction(build, op)
    params = p.ReduceExtremumParams(sizes.outer, sizes.reduced, sizes.inner, maximum=int(isinstance(op, ReduceMax)))
    build.call(op, REDUCE_EXTREMUM, (sizes.source, build.tensor(op.outputs[0])), params)


@dataclass(frozen=True, slots=True)
class _Reduction:
    """An operand as [outer, reduced, inner]."""

    source: Ref
    outer: int
    reduced: int
    inner: int


def _reduction(build: Builder, op: ReductionOp) -> _Reduction:
    """Return the operand with contiguous reduced dimensions, by a copy if necessary."""
    shape = build.type(op.inputs[0]).shape
    source = build.tensor(op.inputs[0])
    reduced = [axis for axis in op.axes if shape[axis] > 1]
    kept = [axis for axis in range(len(shape)) if axis not in op.axes and shape[axis] > 1]
    count = prod(shape[axis] for axis in reduced)
    if not reduced:
        return _Reduction(source, 1, 1, prod(shape))
    first, last = reduced[0], reduced[-1]
    if any(first < axis < last for axis in kept):
        permuted = _permuted(build, op, (*kept, *reduced))
        return _Reduction(permuted, prod(shape[axis] for axis in kept), count, 1)
    outer = prod(shape[axis] for axis in kept if axis < first)
    inner = prod(shape[axis] for axis in kept if axis > last)
    return _Reduction(source, outer, count, inner)


def _permuted(build: Builder, op: ReductionOp, order: Ints) -> Ref:
    """Return a copy of the input with its dimensions in this order; omitted ones are 1."""
    shape = build.type(op.inputs[0]).shape
    strides = contiguous_strides(shape)
    dims = tuple(shape[axis] for axis in order)
    walk = tuple(strides[axis] for axis in order)
    target = build.scratch(f"{op.outputs[0]}/permuted", prod(shape))
    move_box(build, op, dims, (build.tensor(op.inputs[0]), 0, walk), (target, 0, contiguous_strides(dims)))
    return target


def _mean_factor(build: Builder, op: AveragePool2D | Mean | Sum, count: int) -> Requant:
    """Return the factor from input to output steps; the product is divided by up to `count`."""
    scales = (build.type(name).q.scale for name in (op.inputs[0], op.outputs[0]))
    source, target = map(Fraction, scales)
    return mean_requant(source / target, count)
