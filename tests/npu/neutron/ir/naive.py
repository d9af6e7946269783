"""The operators once more, element by element in rational numbers: shares nothing with the interpreter.

`spec/rounding.md` is what both are written from.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.printer import op_name

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
    naive = _Naive(op, graph, {name: array.astype(object) for name, array in values.items()})
    element: Callable[[Index], int] = getattr(naive, op_name(type(op)))
    out = np.zeros(shape, np.int64)
    for index in np.ndindex(*shape):
        out[index] = element(index)
    return out


class _Naive:
    """One element of one op's output; a method per operator, by its spelling."""

    def __init__(self, op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> None:
        self.op, self.graph, self.values = op, graph, values
        self.x = values[op.inputs[0]]
        self.source, self.target = graph.type(op.inputs[0]), graph.type(op.outputs[0])
        self.in_scale, self.in_zero = Fraction(self.source.q.scales[0]), self.source.q.zero_points[0]
        self.out_scale, self.out_zero = Fraction(self.target.q.scale), self.target.q.zero_point
        self.clamp = getattr(op, "clamp", ops.Clamp())

    def stored(self, value: Fraction) -> int:
        return min(max(round(value) + self.out_zero, self.clamp.lo), self.clamp.hi)

    def weight_scale(self, channel: int) -> Fraction:
        scales = self.graph.type(self.op.inputs[1]).q.scales
        return Fraction(scales[channel] if len(scales) > 1 else scales[0])

    def window(self, at: Index, kernel: ops.Pair, dilation: ops.Pair = (1, 1)) -> Iterator[tuple[Index, Index]]:
        for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
            row = at[1] * self.op.stride[0] - self.op.pads.top + i * dilation[0]
            column = at[2] * self.op.stride[1] - self.op.pads.left + j * dilation[1]
            if 0 <= row < self.source.shape[1] and 0 <= column < self.source.shape[2]:
                yield (i, j), (row, column)

    def broadcast(self, name: str, at: Index) -> int:
        shape = self.graph.type(name).shape
        tail = at[len(at) - len(shape) :]
        index = tuple(0 if dim == 1 else i for i, dim in zip(tail, shape, strict=True))
        return int(self.values[name][index]) - self.graph.type(name).q.zero_point

    def conv2d(self, at: Index) -> int:
        w, b = self.values[self.op.inputs[1]], self.values[self.op.inputs[2]]
        acc = int(b[at[3]])
        for (i, j), (row, column) in self.window(at, w.shape[1:3], self.op.dilation):
            acc += sum(
                (self.x[at[0], row, column, c] - self.in_zero) * w[at[3], i, j, c] for c in range(self.source.shape[3])
            )
        return self.stored(acc * factor_of(self.in_scale * self.weight_scale(at[3]) / self.out_scale))

    def depthwise_conv2d(self, at: Index) -> int:
        w, b = self.values[self.op.inputs[1]], self.values[self.op.inputs[2]]
        acc = int(b[at[3]])
        for (i, j), (row, column) in self.window(at, w.shape[1:3], self.op.dilation):
            acc += (self.x[at[0], row, column, at[3] // self.op.multiplier] - self.in_zero) * w[0, i, j, at[3]]
        return self.stored(acc * factor_of(self.in_scale * self.weight_scale(at[3]) / self.out_scale))

    def fully_connected(self, at: Index) -> int:
        w, b = self.values[self.op.inputs[1]], self.values[self.op.inputs[2]]
        row = self.x.ravel()[at[0] * w.shape[1] : (at[0] + 1) * w.shape[1]]
        acc = int(b[at[1]]) + sum((v - self.in_zero) * u for v, u in zip(row, w[at[1]], strict=True))
        return self.stored(acc * factor_of(self.in_scale * self.weight_scale(at[1]) / self.out_scale))

    def transpose_conv(self, at: Index) -> int:
        w, b = self.values[self.op.inputs[1]], self.values[self.op.inputs[2]]
        acc = int(b[at[3]])
        rows, columns = range(self.source.shape[1]), range(self.source.shape[2])
        for row, column in itertools.product(rows, columns):
            i = at[1] + self.op.pads.top - row * self.op.stride[0]
            j = at[2] + self.op.pads.left - column * self.op.stride[1]
            if 0 <= i < w.shape[1] and 0 <= j < w.shape[2]:
                acc += sum(
                    (self.x[at[0], row, column, c] - self.in_zero) * w[at[3], i, j, c]
                    for c in range(self.source.shape[3])
                )
        return self.stored(acc * factor_of(self.in_scale * self.weight_scale(at[3]) / self.out_scale))

    def batch_mat_mul(self, at: Index) -> int:
        y_type = self.graph.type(self.op.inputs[1])
        y, acc = self.values[self.op.inputs[1]], 0
        depth = self.source.shape[-2 if self.op.adj_x else -1]
        for k in range(depth):
            a = (*at[:-2], k, at[-2]) if self.op.adj_x else (*at[:-1], k)
            b = (*at[:-2], at[-1], k) if self.op.adj_y else (*at[:-2], k, at[-1])
            acc += (int(self.x[a]) - self.in_zero) * (int(y[b]) - y_type.q.zero_point)
        return self.stored(acc * factor_of(self.in_scale * Fraction(y_type.q.scale) / self.out_scale))

    def add(self, at: Index, sign: int = 1) -> int:
        scales = [Fraction(self.graph.type(name).q.scale) / self.out_scale for name in self.op.inputs]
        a_factor, b_factor = (factor_of(scale, max(scales)) for scale in scales)
        return self.stored(
            self.broadcast(self.op.inputs[0], at) * a_factor + sign * self.broadcast(self.op.inputs[1], at) * b_factor
        )

    def sub(self, at: Index) -> int:
        return self.add(at, -1)

    def reals(self, at: Index) -> list[Fraction]:
        return [self.broadcast(name, at) * Fraction(self.graph.type(name).q.scale) for name in self.op.inputs]

    def maximum(self, at: Index) -> int:
        return self.stored(max(self.reals(at)) / self.out_scale)

    def minimum(self, at: Index) -> int:
        return self.stored(min(self.reals(at)) / self.out_scale)

    def prelu(self, at: Index) -> int:
        x, alpha = (self.broadcast(name, at) for name in self.op.inputs)
        if x >= 0:
            return self.stored(x * factor_of(self.in_scale / self.out_scale))
        alpha_scale = Fraction(self.graph.type(self.op.inputs[1]).q.scale)
        return self.stored(x * alpha * factor_of(self.in_scale * alpha_scale / self.out_scale))

    def mul(self, at: Index) -> int:
        factor = factor_of(self.in_scale * Fraction(self.graph.type(self.op.inputs[1]).q.scale) / self.out_scale)
        return self.stored(self.broadcast(self.op.inputs[0], at) * self.broadcast(self.op.inputs[1], at) * factor)

    def average_pool2d(self, at: Index) -> int:
        inside = [
            int(self.x[at[0], row, column, at[3]]) - self.in_zero
            for _, (row, column) in self.window(at, self.op.window)
        ]
        return self.stored(sum(inside) * self.mean_factor(math.prod(self.op.window)) / len(inside))

    def max_pool2d(self, at: Index) -> int:
        highest = max(int(self.x[at[0], row, column, at[3]]) for _, (row, column) in self.window(at, self.op.window))
        return min(max(highest, self.clamp.lo), self.clamp.hi)

    def mean_factor(self, count: int) -> Fraction:
        """in / out as a multiplier below 2^31 by a shift that leaves count * 2^shift at most 2^61."""
        exact = self.in_scale / self.out_scale
        shift = next(s for s in range(61, -1, -1) if round(exact * 2**s) < 2**31 and _power(count) * 2**s <= 2**61)
        return Fraction(round(exact * 2**shift), 2**shift)

    def reduced(self, at: Index) -> list[int]:
        rest = iter(at)
        kept = len(self.target.shape) == len(self.source.shape)
        free = [next(rest) if kept or i not in self.op.axes else 0 for i in range(len(self.source.shape))]
        ranges = [range(d) if i in self.op.axes else (free[i],) for i, d in enumerate(self.source.shape)]
        return [int(self.x[index]) for index in itertools.product(*ranges)]

    def mean(self, at: Index) -> int:
        items = [item - self.in_zero for item in self.reduced(at)]
        return self.stored(sum(items) * self.mean_factor(len(items)) / len(items))

    def sum(self, at: Index) -> int:
        return self.stored(sum(item - self.in_zero for item in self.reduced(at)) * self.mean_factor(1))

    def reduce_max(self, at: Index) -> int:
        return max(self.reduced(at))

    def reduce_min(self, at: Index) -> int:
        return min(self.reduced(at))

    def resize_nearest(self, at: Index) -> int:
        row, column = (at[i] * self.source.shape[i] // self.target.shape[i] for i in (1, 2))
        return int(self.x[at[0], row, column, at[3]])

    def resize_bilinear(self, at: Index) -> int:
        taps: list[list[tuple[int, Fraction]]] = []
        for axis in (1, 2):
            size, out, i = self.source.shape[axis], self.target.shape[axis], at[axis]
            if self.op.half_pixel_centers:
                position = (i + Fraction(1, 2)) * size / out - Fraction(1, 2)
            elif self.op.align_corners:
                position = Fraction(i * (size - 1), max(1, out - 1))
            else:
                position = Fraction(i * size, out)
            position = min(max(position, Fraction(0)), Fraction(size - 1))
            low = math.floor(position)
            taps.append([(low, 1 - (position - low)), (min(low + 1, size - 1), position - low)])
        return self.stored(
            sum(
                (
                    (int(self.x[at[0], row, column, at[3]]) - self.in_zero) * a * b
                    for (row, a), (column, b) in itertools.product(*taps)
                ),
                Fraction(0),
            )
        )

    def mirror_pad(self, at: Index) -> int:
        index: list[int] = []
        for i, (before, _), size in zip(at, self.op.paddings, self.source.shape, strict=True):
            place = abs(i - before)
            index.append(place if place < size else 2 * (size - 1) - place)
        return int(self.x[tuple(index)])

    def pad(self, at: Index) -> int:
        index = tuple(i - before for i, (before, _) in zip(at, self.op.paddings, strict=True))
        inside = all(0 <= i < d for i, d in zip(index, self.source.shape, strict=True))
        return int(self.x[index]) if inside else self.op.value

    def reshape(self, at: Index) -> int:
        return int(self.x.ravel()[np.ravel_multi_index(at, self.target.shape)])

    def softmax(self, at: Index) -> int:
        def weight(value: int) -> int:
            steps = int(self.x[at[:-1]].max()) - int(value)
            return round(2**30 * math.exp(-steps * self.op.beta * self.source.q.scale))

        shift = next(s for s in range(16, -1, -1) if round(2**s / self.out_scale) < 2**31)
        total = sum(weight(value) for value in self.x[at[:-1]])
        return self.stored(Fraction(weight(self.x[at]) * round(2**shift / self.out_scale), total * 2**shift))

    def transpose(self, at: Index) -> int:
        return int(self.x[tuple(at[self.op.perm.index(i)] for i in range(len(at)))])

    def concat(self, at: Index) -> int:
        position = at[self.op.axis]
        for name in self.op.inputs:
            size = self.graph.type(name).shape[self.op.axis]
            if position < size:
                return int(self.values[name][(*at[: self.op.axis], position, *at[self.op.axis + 1 :])])
            position -= size
        raise AssertionError("outside all inputs")

    def slice(self, at: Index) -> int:
        return int(self.x[tuple(i + b for i, b in zip(at, self.op.begin, strict=True))])

    def unary(self, at: Index) -> int:
        real = (int(self.x[at]) - self.in_zero) * self.in_scale
        if not isinstance(self.op, ops.Unary):
            return self.stored(real / self.out_scale)
        if self.op.function in _LIMITS:
            low, high = _LIMITS[self.op.function]
            real = max(real, low)
            return self.stored((real if high is None else min(real, high)) / self.out_scale)
        try:
            value = _FUNCTIONS[self.op.function](float(real))
        except (ValueError, ZeroDivisionError):  # a pole saturates, no value at all is stored 0
            pole = {ops.Function.LOG: -128, ops.Function.RSQRT: 127}[self.op.function]
            return pole if real == 0 else 0
        return self.stored(Fraction(value) / self.out_scale)

    def lookup(self, at: Index) -> int:
        return self.op.entries[self.x[at] + 128]

    def leaky_relu(self, at: Index) -> int:
        real = (int(self.x[at]) - self.in_zero) * self.in_scale
        return self.stored((real if real >= 0 else real * Fraction(self.op.alpha)) / self.out_scale)

    quantize = unary


_LIMITS: Mapping[ops.Function, tuple[Fraction, Fraction | None]] = {
    ops.Function.RELU: (Fraction(0), None),
    ops.Function.RELU6: (Fraction(0), Fraction(6)),
    ops.Function.RELU_0_TO_1: (Fraction(0), Fraction(1)),
    ops.Function.RELU_N1_TO_1: (Fraction(-1), Fraction(1)),
}

_FUNCTIONS: Mapping[ops.Function, Callable[[float], float]] = {
    ops.Function.ABS: abs,
    ops.Function.EXP: math.exp,
    ops.Function.HARD_SWISH: lambda x: x * min(max(x + 3, 0), 6) / 6,
    ops.Function.LOG: math.log,
    ops.Function.LOGISTIC: lambda x: 1 / (1 + math.exp(-x)),
    ops.Function.RSQRT: lambda x: 1 / math.sqrt(x),
    ops.Function.TANH: math.tanh,
}


def _power(count: int) -> int:
    """The power of two from `count` on."""
    return 1 << (count - 1).bit_length()
