"""The operators once more, element by element in rational numbers: shares nothing with the interpreter.

`spec/rounding.md` is what both are written from.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from deuteron.ir import ops
from deuteron.ir.graph import Graph

Array = npt.NDArray[np.generic]
Index = tuple[int, ...]


def factor_of(exact: Fraction, shared_with: Fraction = Fraction(0)) -> Fraction:
    """The fixed-point factor: the largest shift up to 62 that keeps multipliers below 2^31, rounded half to even."""
    largest = max(exact, shared_with)
    shift = next(s for s in range(62, 0, -1) if round(largest * 2**s) < 2**31)
    return Fraction(round(exact * 2**shift), 2**shift)


def evaluate(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> npt.NDArray[np.int64]:
    """The stored output."""
    shape = graph.type(op.outputs[0]).shape
    element = _element(op, graph, {name: array.astype(object) for name, array in values.items()})
    out = np.zeros(shape, np.int64)
    for index in np.ndindex(*shape):
        out[index] = element(index)
    return out


def _element(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> Callable[[Index], int]:
    x = values[op.inputs[0]]
    source, target = graph.type(op.inputs[0]), graph.type(op.outputs[0])
    in_scale, in_zero = Fraction(source.q.scales[0]), source.q.zero_points[0]
    out_scale, out_zero = Fraction(target.q.scale), target.q.zero_point
    clamp = getattr(op, "clamp", ops.Clamp())

    def stored(value: Fraction) -> int:
        return min(max(round(value) + out_zero, clamp.lo), clamp.hi)

    def weight_scale(channel: int) -> Fraction:
        scales = graph.type(op.inputs[1]).q.scales
        return Fraction(scales[channel] if len(scales) > 1 else scales[0])

    def window(at: Index, kernel: ops.Pair, dilation: ops.Pair = (1, 1)) -> Iterator[tuple[Index, Index]]:
        for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
            row = at[1] * op.stride[0] - op.pads.top + i * dilation[0]
            column = at[2] * op.stride[1] - op.pads.left + j * dilation[1]
            if 0 <= row < source.shape[1] and 0 <= column < source.shape[2]:
                yield (i, j), (row, column)

    def broadcast(name: str, at: Index) -> int:
        shape = graph.type(name).shape
        tail = at[len(at) - len(shape) :]
        index = tuple(0 if dim == 1 else i for i, dim in zip(tail, shape, strict=True))
        return int(values[name][index]) - graph.type(name).q.zero_point

    def conv2d(at: Index) -> int:
        w, b = values[op.inputs[1]], values[op.inputs[2]]
        acc = int(b[at[3]])
        for (i, j), (row, column) in window(at, w.shape[1:3], op.dilation):
            acc += sum((x[at[0], row, column, c] - in_zero) * w[at[3], i, j, c] for c in range(source.shape[3]))
        return stored(acc * factor_of(in_scale * weight_scale(at[3]) / out_scale))

    def depthwise(at: Index) -> int:
        w, b = values[op.inputs[1]], values[op.inputs[2]]
        acc = int(b[at[3]])
        for (i, j), (row, column) in window(at, w.shape[1:3], op.dilation):
            acc += (x[at[0], row, column, at[3] // op.multiplier] - in_zero) * w[0, i, j, at[3]]
        return stored(acc * factor_of(in_scale * weight_scale(at[3]) / out_scale))

    def fully_connected(at: Index) -> int:
        w, b = values[op.inputs[1]], values[op.inputs[2]]
        row = x.ravel()[at[0] * w.shape[1] : (at[0] + 1) * w.shape[1]]
        acc = int(b[at[1]]) + sum((v - in_zero) * u for v, u in zip(row, w[at[1]], strict=True))
        return stored(acc * factor_of(in_scale * weight_scale(at[1]) / out_scale))

    def add(at: Index) -> int:
        scales = [Fraction(graph.type(name).q.scale) / out_scale for name in op.inputs]
        a_factor, b_factor = (factor_of(scale, max(scales)) for scale in scales)
        return stored(broadcast(op.inputs[0], at) * a_factor + broadcast(op.inputs[1], at) * b_factor)

    def mul(at: Index) -> int:
        factor = factor_of(in_scale * Fraction(graph.type(op.inputs[1]).q.scale) / out_scale)
        return stored(broadcast(op.inputs[0], at) * broadcast(op.inputs[1], at) * factor)

    def average_pool(at: Index) -> int:
        inside = [int(x[at[0], row, column, at[3]]) - in_zero for _, (row, column) in window(at, op.window)]
        return stored(sum(inside) * factor_of(in_scale / (out_scale * len(inside))))

    def max_pool(at: Index) -> int:
        highest = max(int(x[at[0], row, column, at[3]]) for _, (row, column) in window(at, op.window))
        return min(max(highest, clamp.lo), clamp.hi)

    def mean(at: Index) -> int:
        rest = iter(at)
        kept = len(target.shape) == len(source.shape)
        free = [next(rest) if kept or i not in op.axes else 0 for i in range(len(source.shape))]
        ranges = [range(d) if i in op.axes else (free[i],) for i, d in enumerate(source.shape)]
        items = [int(x[index]) - in_zero for index in itertools.product(*ranges)]
        return stored(sum(items) * factor_of(in_scale / (out_scale * len(items))))

    def pad(at: Index) -> int:
        index = tuple(i - before for i, (before, _) in zip(at, op.paddings, strict=True))
        inside = all(0 <= i < d for i, d in zip(index, source.shape, strict=True))
        return int(x[index]) if inside else op.value

    def reshape(at: Index) -> int:
        return int(x.ravel()[np.ravel_multi_index(at, target.shape)])

    def softmax(at: Index) -> int:
        def weight(value: int) -> int:
            steps = int(x[at[:-1]].max()) - int(value)
            return round(2**30 * math.exp(-steps * op.beta * source.q.scale))

        shift = next(s for s in range(16, -1, -1) if round(2**s / out_scale) < 2**31)
        total = sum(weight(value) for value in x[at[:-1]])
        return stored(Fraction(weight(x[at]) * round(2**shift / out_scale), total * 2**shift))

    def transpose(at: Index) -> int:
        return int(x[tuple(at[op.perm.index(i)] for i in range(len(at)))])

    def concat(at: Index) -> int:
        position = at[op.axis]
        for name in op.inputs:
            size = graph.type(name).shape[op.axis]
            if position < size:
                return int(values[name][(*at[: op.axis], position, *at[op.axis + 1 :])])
            position -= size
        raise AssertionError("outside all inputs")

    def slice_(at: Index) -> int:
        return int(x[tuple(i + b for i, b in zip(at, op.begin, strict=True))])

    def unary(at: Index) -> int:
        real = (int(x[at]) - in_zero) * in_scale
        if isinstance(op, ops.Unary):
            real = max(real, Fraction(0))
            real = min(real, Fraction(6)) if op.function is ops.Function.RELU6 else real
        return stored(real / out_scale)

    elements: dict[type[ops.Op], Callable[[Index], int]] = {
        ops.Conv2D: conv2d,
        ops.DepthwiseConv2D: depthwise,
        ops.FullyConnected: fully_connected,
        ops.Add: add,
        ops.Mul: mul,
        ops.AveragePool2D: average_pool,
        ops.MaxPool2D: max_pool,
        ops.Mean: mean,
        ops.Pad: pad,
        ops.Reshape: reshape,
        ops.Softmax: softmax,
        ops.Transpose: transpose,
        ops.Concat: concat,
        ops.Slice: slice_,
        ops.Quantize: unary,
        ops.Unary: unary,
    }
    return elements[type(op)]
