"""Where the float32 reference may round to the other side: the bounds of `spec/rounding.md`, section 5."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from deuteron import numerics
from deuteron.ir import ops
from deuteron.ir.graph import Graph
from deuteron.ir.interpret import run_op
from deuteron.ir.sums import Weighted, pool_counts, pool_taps, weighted_sums

Array = npt.NDArray[np.generic]
F64 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]

UNIT = 2.0**-24
"""Largest relative error of one float32 rounding."""

LAMBDA = 8.0
"""Standard deviations of accumulated rounding that the bound allows for."""

_Rounding = (
    Weighted | ops.Add | ops.Mul | ops.AveragePool2D | ops.Mean | ops.Softmax | ops.Quantize | ops.Unary
)  # fmt: skip
_NO_CLAMP = ops.Clamp()


@dataclass(frozen=True, slots=True)
class _Exact:
    """An unrounded result in steps of the output, zero point left out, and how far the reference may be from it."""

    value: F64
    bound: F64


def allowed_range(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> tuple[I8, I8]:
    """(lowest, highest) result that a correct float32 evaluation of the op may give, element by element.

    They are equal but at ties, where they differ by 1. `values` holds the op's stored inputs by name.
    """
    result = run_op(op, graph, values).astype(np.int8)
    if not isinstance(op, _Rounding):
        return result, result
    exact = _exact(op, graph, values)
    clamp = _NO_CLAMP if isinstance(op, (ops.Mean, ops.Softmax, ops.Quantize, ops.Unary)) else op.clamp
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
        case ops.Add():
            a, b = real[0] / step, real[1] / step
            exact = _summed(a + b, np.abs(a) + np.abs(b), 2)
            return _Exact(exact.value, exact.bound + _shared_shift_error(op, graph, values))
        case ops.Mul():
            product = real[0] * real[1] / step
            return _summed(product, np.abs(product), 1)
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
        case ops.Softmax():
            return _softmax(real[0] * op.beta, step)
        case ops.Quantize():
            return _summed(real[0] / step, np.abs(real[0] / step), 1)
        case ops.Unary():
            value = numerics.REAL_FUNCTIONS[op.function.value](real[0]) / step
            return _summed(value, np.abs(value), 1)
        case _:
            assert_never(op)


def _summed(value: F64, magnitude: F64, terms: int | I64) -> _Exact:
    """The bound for a sum of `terms` products of total size `magnitude`."""
    return _Exact(value, LAMBDA * np.sqrt(np.asarray(terms) + 3) * UNIT * (magnitude + np.abs(value)))


def _weighted(op: Weighted, graph: Graph, values: Mapping[str, Array]) -> _Exact:
    x, weights = (_centred(graph, name, values) for name in op.inputs[:2])
    bias = values[op.inputs[2]].astype(np.int64)
    target = graph.type(op.outputs[0])
    factors = np.array(graph.type(op.inputs[1]).q.scales) * graph.type(op.inputs[0]).q.scale / target.q.scale
    sums = weighted_sums(op, x, weights, target.shape) + bias
    sizes = weighted_sums(op, np.abs(x), np.abs(weights), target.shape) + np.abs(bias)
    return _summed(sums * factors, sizes * factors, weights.size // len(bias) + 1)


def _shared_shift_error(op: ops.Add, graph: Graph, values: Mapping[str, Array]) -> F64:
    """What the kernel's smaller factor loses because it shares the shift of the larger."""
    largest = max(graph.type(name).q.scale for name in op.inputs) / graph.type(op.outputs[0]).q.scale
    a, b = (np.abs(_centred(graph, name, values)) for name in op.inputs)
    return np.asarray((a + b) * (largest * 2.0**-31), np.float64)


def _softmax(x: F64, step: float) -> _Exact:
    """Rounding of x grows by its size in the exponential; the kernel's own factor and table add the last two terms."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    share = weights / weights.sum(axis=-1, keepdims=True)
    depth = x.shape[-1]
    largest = np.abs(x).max(axis=-1, keepdims=True)
    relative = LAMBDA * UNIT * (math.sqrt(depth + 3) + largest)
    return _Exact(share / step, relative * share / step + share * 2.0**-17 + (1 + share * depth) * 2.0**-31 / step)


def _centred(graph: Graph, name: str, values: Mapping[str, Array]) -> I64:
    """Stored values less their zero point; weights have none."""
    return values[name].astype(np.int64) - graph.type(name).q.zero_points[0]


def _real(graph: Graph, name: str, values: Mapping[str, Array]) -> F64:
    kind = graph.type(name)
    return _centred(graph, name, values).astype(np.float64) * kind.q.scale
