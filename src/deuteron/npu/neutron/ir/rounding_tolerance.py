"""Tolerance of comparisons with the float32 reference near ties: the bounds of `spec/rounding.md`, section 5."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.interpret import run_op
from deuteron.npu.neutron.ir.shapes import resize_positions
from deuteron.npu.neutron.ir.sums import Weighted, pool_counts, pool_taps, products, weighted_sums
from deuteron.npu.neutron.ir.tables import Computed, real_function
from deuteron.tflite.quantization import Quant

Array = npt.NDArray[np.generic]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]

UNIT = 2.0**-24
"""Largest relative error of one float32 rounding."""

_NEAR = 2.0**-20
"""Relative step of the difference quotient for error propagation through a function."""

LAMBDA = 8.0
"""Standard deviations of accumulated rounding that the bound allows for."""

_Rounding = (
    Weighted | ops.BatchMatMul | ops.Add | ops.Sub | ops.Mul | ops.Maximum | ops.Minimum | ops.Prelu | ops.AveragePool2D
    | ops.Mean | ops.Sum | ops.ResizeBilinear | ops.Softmax | Computed
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Exact:
    """An unrounded result in steps of the output, without zero point, and the error bound of the reference."""

    value: F64
    bound: F64


def allowed_range(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> tuple[I8, I8]:
    """Return the lowest and highest result that a correct float32 evaluation of the op may give, element by element.

    They are equal except at ties, where they differ by 1. `values` has the op's stored inputs by name.
    """
    result = run_op(op, graph, values).astype(np.int8)
    if not isinstance(op, _Rounding):
        return result, result
    exact = _exact(op, graph, values)
    clamp = ops.clamp_of(op)
    zero_point = graph.type(op.outputs[0]).q.zero_point
    low, high = (
        np.clip(np.rint(edge) + zero_point, clamp.lo, clamp.hi)
        for edge in (exact.value - exact.bound, exact.value + exact.bound)
    )
    stored = result.astype(np.int64)
    return np.maximum(low, stored - 1).astype(np.int8), np.minimum(high, stored + 1).astype(np.int8)


def _exact(op: _Rounding, graph: Graph, values: Mapping[str, Array]) -> _Exact:
    if isinstance(op, Weighted):
        return _weighted(op, graph, values)
    real = [_real(graph, name, values) for name in op.inputs]
    step = graph.type(op.outputs[0]).q.scale
    shape = graph.type(op.outputs[0]).shape
    match op:
        case ops.BatchMatMul():
            x, y = (_centred(graph, name, values) for name in op.inputs)
            scale = graph.type(op.inputs[0]).q.scale * graph.type(op.inputs[1]).q.scale / step
            sums, sizes = products(op, x, y), products(op, np.abs(x), np.abs(y))
            return _summed(
                np.multiply(sums, scale, dtype=np.float64),
                np.multiply(sizes, scale, dtype=np.float64),
                x.shape[-2 if op.adj_x else -1],
            )
        case ops.Add() | ops.Sub():
            a, b = real[0] / step, real[1] / step
            exact = _summed(a - b if isinstance(op, ops.Sub) else a + b, np.abs(a) + np.abs(b), 2)
            return _Exact(exact.value, exact.bound + _shared_shift_error(op, graph, values))
        case ops.Mul():
            product = real[0] * real[1] / step
            return _summed(product, np.abs(product), 1)
        case ops.Maximum() | ops.Minimum():
            value = (np.maximum if isinstance(op, ops.Maximum) else np.minimum)(real[0], real[1]) / step
            return _summed(value, np.abs(value), 1)
        case ops.Prelu():
            value = np.where(real[0] >= 0, real[0], real[0] * real[1]) / step
            return _summed(value, np.abs(value), 1)
        case ops.AveragePool2D():
            (x,) = (_centred(graph, name, values) for name in op.inputs)
            counts = pool_counts(op, x.shape, shape)
            scale = graph.type(op.inputs[0]).q.scale / (counts * step)
            sums, sizes = (np.sum([*pool_taps(op, terms, 0, shape)], axis=0) for terms in (x, np.abs(x)))
            return _summed(sums * scale, sizes * scale, counts)
        case ops.Mean():
            count = real[0].size // math.prod(shape)
            sums, sizes = (terms.sum(axis=op.axes).reshape(shape) for terms in (real[0], np.abs(real[0])))
            return _summed(sums / (count * step), sizes / (count * step), count)
        case ops.Sum():
            count = real[0].size // math.prod(shape)
            sums, sizes = (terms.sum(axis=op.axes).reshape(shape) for terms in (real[0], np.abs(real[0])))
            return _summed(sums / step, sizes / step, count)
        case ops.ResizeBilinear():
            return _resize(op, real[0] / step, shape)
        case ops.Softmax():
            return _softmax(real[0] * op.beta, step)
        case ops.Quantize() | ops.Unary() | ops.LeakyRelu():
            return _tabled(op, real[0], graph.type(op.outputs[0]).q)
        case _:
            assert_never(op)


def _summed(value: F64, magnitude: F64, terms: int | I64) -> _Exact:
    """Return the bound for a sum of `terms` products with total magnitude `magnitude`."""
    return _Exact(value, LAMBDA * np.sqrt(np.asarray(terms) + 3) * UNIT * (magnitude + np.abs(value)))


def _weighted(op: Weighted, graph: Graph, values: Mapping[str, Array]) -> _Exact:
    x, weights = (_centred(graph, name, values) for name in op.inputs[:2])
    bias = values[op.inputs[2]].astype(np.int64)
    target = graph.type(op.outputs[0])
    factors = np.array(graph.type(op.inputs[1]).q.scales) * graph.type(op.inputs[0]).q.scale / target.q.scale
    sums = weighted_sums(op, x, weights, target.shape) + bias
    sizes = weighted_sums(op, np.abs(x), np.abs(weights), target.shape) + np.abs(bias)
    return _summed(sums * factors, sizes * factors, weights.size // len(bias) + 1)


def _tabled(op: Computed, x: F64, out: Quant) -> _Exact:
    """Return the bound of a function: its rounding, and the propagated error of x; NaN is stored 0."""
    step = out.scale
    function = real_function(op) or np.positive
    with np.errstate(all="ignore"):
        value = function(x) / step
        carried = np.abs(function(x * (1 + _NEAR)) - function(x * (1 - _NEAR))) / (2 * _NEAR * step)
    exact = _summed(value, np.abs(value) + carried, 1)
    return _Exact(np.where(np.isnan(value), -out.zero_point, value), np.where(np.isfinite(value), exact.bound, 0))


def _resize(op: ops.ResizeBilinear, x: F64, shape: tuple[int, ...]) -> _Exact:
    """Return the bound of a resize: float32 interpolation also rounds its weights, relative to the position."""
    value, size, largest = x, np.abs(x), 1
    for axis in (1, 2):
        start, step, unit = resize_positions(
            x.shape[axis], shape[axis], align_corners=op.align_corners, half_pixel_centers=op.half_pixel_centers
        )
        at = np.clip(start + np.arange(shape[axis]) * step, 0, (x.shape[axis] - 1) * unit)
        low = at // unit
        high = np.minimum(low + 1, x.shape[axis] - 1)
        share = ((at % unit) / unit).reshape([-1 if i == axis else 1 for i in range(4)])
        value = value.take(low, axis) * (1 - share) + value.take(high, axis) * share
        size = np.maximum(size.take(low, axis), size.take(high, axis))
        largest = max(largest, x.shape[axis])
    return _summed(value, size * largest, 4)


def _shared_shift_error(op: ops.Add | ops.Sub, graph: Graph, values: Mapping[str, Array]) -> F64:
    """Return the error of the kernel's smaller factor, which shares the shift of the larger."""
    largest = max(graph.type(name).q.scale for name in op.inputs) / graph.type(op.outputs[0]).q.scale
    a, b = (np.abs(_centred(graph, name, values)) for name in op.inputs)
    return np.asarray((a + b) * (largest * 2.0**-31), np.float64)


def _softmax(x: F64, step: float) -> _Exact:
    """Return the bound of a softmax: the error of x in the exponential, and those of the kernel's factor and table."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    share = weights / weights.sum(axis=-1, keepdims=True)
    depth = x.shape[-1]
    largest = np.abs(x).max(axis=-1, keepdims=True)
    relative = LAMBDA * UNIT * (math.sqrt(depth + 3) + largest)
    return _Exact(share / step, relative * share / step + share * 2.0**-17 + (1 + share * depth) * 2.0**-31 / step)


def _centred(graph: Graph, name: str, values: Mapping[str, Array]) -> I64:
    """Return stored values minus their zero point; weights have none."""
    return values[name].astype(np.int64) - graph.type(name).q.zero_points[0]


def _real(graph: Graph, name: str, values: Mapping[str, Array]) -> F64:
    kind = graph.type(name)
    return _centred(graph, name, values).astype(np.float64) * kind.q.scale
