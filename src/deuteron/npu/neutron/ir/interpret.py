"""Reference interpreter: exact integer arithmetic for every operator, which kernels must reproduce.

Only the fixed-point steps come from `deuteron.numerics`; `spec/rounding.md` states each formula.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from deuteron import numerics
from deuteron.errors import InputError, InternalError, counted
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.shapes import resize_positions
from deuteron.npu.neutron.ir.sums import Weighted, pool_counts, pool_taps, products, weighted_sums
from deuteron.npu.neutron.ir.tables import function_table
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.tflite.quantization import Quant

Array = npt.NDArray[np.generic]
I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]

_ALL = ops.Clamp()


def run(graph: Graph, inputs: Sequence[npt.NDArray[np.generic]]) -> dict[str, Array]:
    """Return every tensor of a verified graph by name: `inputs` (in the graph's order), constants and results.

    Raises:
        InputError: the number, shape or element type of the inputs is not the graph's.
        UnsupportedError: an accumulator may overflow or a factor is out of range.
    """
    _check_inputs(graph, inputs)
    values: dict[str, Array] = {tensor.name: tensor.array() for tensor in graph.tensors if tensor.is_const}
    values |= zip(graph.inputs, inputs, strict=True)
    for op in graph.ops:
        (output,) = op.outputs
        values[output] = run_op(op, graph, values)
    return values


def run_op(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> Array:
    """Return the output of one op, whose inputs are in `values` by name."""
    x = values[op.inputs[0]]
    sources = tuple(graph.type(name) for name in op.inputs)
    target = graph.type(op.outputs[0])
    match op:
        case ops.Conv2D() | ops.DepthwiseConv2D() | ops.TransposeConv() | ops.FullyConnected():
            return _weighted(op, tuple(values[name] for name in op.inputs), sources, target)
        case ops.BatchMatMul():
            return _batch_matmul(op, x, values[op.inputs[1]], sources, target)
        case ops.Add() | ops.Sub():
            return _add(op, x, values[op.inputs[1]], sources, target)
        case ops.Mul():
            return _mul(op, x, values[op.inputs[1]], sources, target)
        case ops.Maximum() | ops.Minimum():
            return _extremum(op, x, values[op.inputs[1]], sources, target)
        case ops.Prelu():
            return _prelu(x, values[op.inputs[1]], sources, target)
        case ops.AveragePool2D():
            return _average_pool(op, x, sources[0].q, target)
        case ops.MaxPool2D():
            return _max_pool(op, x, target)
        case ops.Mean() | ops.Sum():
            return _reduce_sum(op, x, sources[0].q, target)
        case ops.ReduceMax():
            return x.max(axis=op.axes).reshape(target.shape)
        case ops.ReduceMin():
            return x.min(axis=op.axes).reshape(target.shape)
        case ops.ResizeBilinear():
            return _resize_bilinear(op, x, target)
        case ops.Softmax():
            return _softmax(op, x, sources[0].q, target.q)
        case ops.Quantize() | ops.Unary() | ops.LeakyRelu() | ops.Lookup():
            return _lookup(x, function_table(op, graph))
        case _:
            return _moved(op, [values[name] for name in op.inputs], target)


def _moved(op: ops.Op, operands: list[Array], target: TensorType) -> Array:
    """Return the output of an op that only moves stored values."""
    x = operands[0]
    match op:
        case ops.ResizeNearest():
            rows, columns = (_nearest(size, out) for size, out in zip(x.shape[1:3], target.shape[1:3], strict=True))
            return x[:, rows][:, :, columns]
        case ops.Pad():
            return np.pad(x, op.paddings, constant_values=op.value)
        case ops.MirrorPad():
            return np.pad(x, op.paddings, mode="reflect")
        case ops.Reshape():
            return x.reshape(target.shape)
        case ops.Transpose():
            return x.transpose(op.perm)
        case ops.Concat():
            return np.concatenate(operands, axis=op.axis)
        case ops.Slice():
            return x[tuple(slice(b, b + size) for b, size in zip(op.begin, target.shape, strict=True))]
        case _:
            raise InternalError(f"operator {type(op).__name__} has no meaning in the interpreter")


def _check_inputs(graph: Graph, inputs: Sequence[npt.NDArray[np.generic]]) -> None:
    if len(inputs) != len(graph.inputs):
        raise InputError(f"graph `{graph.name}` takes {counted(len(graph.inputs), 'input')}, found {len(inputs)}")
    for name, value in zip(graph.inputs, inputs, strict=True):
        kind = graph.type(name)
        if value.shape != kind.shape or value.dtype != kind.dtype.numpy:
            raise InputError(
                f"input `{name}` has shape {list(value.shape)} and type {value.dtype}; "
                f"{list(kind.shape)} and {kind.dtype.numpy} are required"
            )


# Sums: convolutions, fully connected layers, pools, means.


def _weighted(op: Weighted, operands: tuple[Array, ...], sources: tuple[TensorType, ...], target: TensorType) -> I8:
    x, weights, bias = operands
    x_quant, w_quant = sources[0].q, sources[1].q
    channel_axis = -1 if isinstance(op, ops.DepthwiseConv2D) else 0
    numerics.check_accumulators(np.moveaxis(weights, channel_axis, 0).reshape(len(bias), -1), bias)
    acc = weighted_sums(op, _stored(x) - x_quant.zero_point, _stored(weights), target.shape) + _stored(bias)
    return _saturate(_rescale(acc, _factors(x_quant, w_quant, target.q)) + target.q.zero_point, op.clamp)


def _factors(x: Quant, weights: Quant, out: Quant) -> tuple[Fraction, ...]:
    """Return x * w / out, one factor per weight scale."""
    return tuple(Fraction(x.scale) * Fraction(scale) / Fraction(out.scale) for scale in weights.scales)


@lru_cache(maxsize=256)
def _rows(factors: tuple[Fraction, ...]) -> tuple[I64, I64]:
    """Return multipliers and shifts of the factors; cached, because a comparison runs the same layers repeatedly."""
    rows = [numerics.requant(factor) for factor in factors]
    return np.array([row.multiplier for row in rows], np.int64), np.array([row.shift for row in rows], np.int64)


def _rescale(acc: I64, factors: tuple[Fraction, ...]) -> I64:
    """Return acc times its channel's factor (channels innermost) or the only factor, rounded once."""
    multipliers, shifts = _rows(factors)
    return numerics.rne_shift(acc * multipliers, shifts)


def _batch_matmul(op: ops.BatchMatMul, x: Array, y: Array, sources: tuple[TensorType, ...], target: TensorType) -> I8:
    x_quant, y_quant, out = sources[0].q, sources[1].q, target.q
    acc = products(op, _stored(x) - x_quant.zero_point, _stored(y) - y_quant.zero_point)
    return _saturate(_rescale(acc, _factors(x_quant, y_quant, out)) + out.zero_point, op.clamp)


def _average_pool(op: ops.AveragePool2D, x: Array, quant: Quant, target: TensorType) -> I8:
    sums = np.sum([*pool_taps(op, _stored(x) - quant.zero_point, 0, target.shape)], axis=0)
    factor = numerics.mean_requant(_ratio(quant, target.q), math.prod(op.window))
    means = numerics.rne_divide(sums * factor.multiplier, pool_counts(op, x.shape, target.shape) << factor.shift)
    return _saturate(means + target.q.zero_point, op.clamp)


def _max_pool(op: ops.MaxPool2D, x: Array, target: TensorType) -> I8:
    return _saturate(np.max([*pool_taps(op, _stored(x), -128, target.shape)], axis=0), op.clamp)


def _reduce_sum(op: ops.Mean | ops.Sum, x: Array, quant: Quant, target: TensorType) -> I8:
    sums = (_stored(x) - quant.zero_point).sum(axis=op.axes).reshape(target.shape)
    count = x.size // target.numel if isinstance(op, ops.Mean) else 1
    factor = numerics.mean_requant(_ratio(quant, target.q), count)
    means = numerics.rne_divide(sums * factor.multiplier, np.asarray(count << factor.shift, np.int64))
    return _saturate(means + target.q.zero_point)


def _ratio(quant: Quant, out: Quant) -> Fraction:
    return Fraction(quant.scale) / Fraction(out.scale)


# Maps.


def _resize_bilinear(op: ops.ResizeBilinear, x: Array, target: TensorType) -> I8:
    values, unit = _stored(x) - target.q.zero_point, 1
    for axis in (1, 2):
        size, out = x.shape[axis], target.shape[axis]
        start, step, parts = resize_positions(
            size, out, align_corners=op.align_corners, half_pixel_centers=op.half_pixel_centers
        )
        at = np.clip(start + np.arange(out) * step, 0, (size - 1) * parts)
        low, share = at // parts, (at % parts).reshape([-1 if i == axis else 1 for i in range(4)])
        high = np.minimum(low + 1, size - 1)
        values = values.take(low, axis) * (parts - share) + values.take(high, axis) * share
        unit *= parts
    return _saturate(numerics.rne_divide(values, np.asarray(unit, np.int64)) + target.q.zero_point)


def _nearest(size: int, out: int) -> I64:
    return np.arange(out, dtype=np.int64) * size // out


# Element by element, and rows.


def _add(op: ops.Add | ops.Sub, a: Array, b: Array, sources: tuple[TensorType, ...], target: TensorType) -> I8:
    a_quant, b_quant, out = sources[0].q, sources[1].q, target.q
    (a_mult, b_mult), shift = numerics.requants([_ratio(q, out) for q in (a_quant, b_quant)])
    sign = -1 if isinstance(op, ops.Sub) else 1
    total = (_stored(a) - a_quant.zero_point) * a_mult + sign * (_stored(b) - b_quant.zero_point) * b_mult
    return _saturate(numerics.rne_shift(total, shift) + out.zero_point, op.clamp)


def _mul(op: ops.Mul, a: Array, b: Array, sources: tuple[TensorType, ...], target: TensorType) -> I8:
    a_quant, b_quant, out = sources[0].q, sources[1].q, target.q
    product = (_stored(a) - a_quant.zero_point) * (_stored(b) - b_quant.zero_point)
    return _saturate(_rescale(product, _factors(a_quant, b_quant, out)) + out.zero_point, op.clamp)


def _extremum(
    op: ops.Maximum | ops.Minimum, a: Array, b: Array, sources: tuple[TensorType, ...], target: TensorType
) -> I8:
    """Rounding is monotonic, so both inputs may be requantized first."""
    pick = np.maximum if isinstance(op, ops.Maximum) else np.minimum
    a, b = (_lookup(v, numerics.unary_table(None, s.q, target.q)) for v, s in zip((a, b), sources, strict=True))
    return pick(a, b)


def _prelu(x: Array, alpha: Array, sources: tuple[TensorType, ...], target: TensorType) -> I8:
    x_quant, alpha_quant, out = sources[0].q, sources[1].q, target.q
    centred = _stored(x) - x_quant.zero_point
    above = _rescale(centred, (_ratio(x_quant, out),))
    below = _rescale(centred * (_stored(alpha) - alpha_quant.zero_point), _factors(x_quant, alpha_quant, out))
    return _saturate(np.where(centred >= 0, above, below) + out.zero_point)


def _softmax(op: ops.Softmax, x: Array, quant: Quant, out: Quant) -> I8:
    table = numerics.softmax_table(quant.scale, op.beta).astype(np.int64)
    mult, shift = numerics.softmax_multiplier(out.scale)
    stored = _stored(x)
    weights = table[stored.max(axis=-1, keepdims=True) - stored]
    sums = weights.sum(axis=-1, keepdims=True)
    return _saturate(numerics.rne_divide(weights * mult, sums << shift) + out.zero_point)


def _lookup(x: Array, table: I8) -> I8:
    return table[_stored(x) + 128]


def _stored(x: Array) -> I64:
    return x.astype(np.int64)


def _saturate(values: I64, clamp: ops.Clamp = _ALL) -> I8:
    return np.clip(values, clamp.lo, clamp.hi).astype(np.int8)
