"""Random valid graphs over every operator, for property and differential tests.

A graph depends on its seed only. Shapes are small and awkward (1, primes, around multiples of 8 and 16), zero points
sit at their limits as often as not, and output scales are chosen such that results neither vanish nor all saturate.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from deuteron.ir import shapes
from deuteron.ir.graph import Graph
from deuteron.ir.ops import (
    Add,
    AveragePool2D,
    Clamp,
    Concat,
    Conv2D,
    DepthwiseConv2D,
    FullyConnected,
    Function,
    MaxPool2D,
    Mean,
    Mul,
    Op,
    Pad,
    Pads,
    Pair,
    Quantize,
    Reshape,
    Slice,
    Softmax,
    Transpose,
    Unary,
)
from deuteron.ir.types import DType, Quant, Tensor, TensorType

T = TypeVar("T")
Shape = tuple[int, ...]

AWKWARD = (1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17)
MAX_ELEMENTS = 4096


def random_graph(seed: int, ops: int | None = None) -> Graph:
    """A verified-by-construction graph of about `ops` operators (2 to 15 by default)."""
    build = _Builder(np.random.default_rng(seed))
    wanted = ops if ops is not None else build.pick(range(2, 16))
    build.input(build.map_shape())
    if build.chance(0.3):
        build.input(build.map_shape())
    while len(build.ops) < wanted:
        make = build.pick(MAKERS)
        make(build, build.source())
    return build.finish(f"random{seed}")


def random_inputs(graph: Graph, seed: int) -> list[npt.NDArray[np.int8]]:
    """Values for the graph's inputs: now the whole range, now only its ends, now close to zero."""
    rng = np.random.default_rng(seed)
    inputs: list[npt.NDArray[np.int8]] = []
    for name in graph.inputs:
        kind = graph.type(name)
        low, high = [(-128, 127), (-128, 127), (-3, 3)][rng.integers(3)]
        values = rng.integers(low, high + 1, kind.shape)
        if rng.random() < 0.2:
            values = np.where(values < 0, -128, 127)
        inputs.append(values.astype(np.int8))
    return inputs


class _Builder:
    """The graph so far, and the dice."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.tensors: list[Tensor] = []
        self.inputs: list[str] = []
        self.ops: list[Op] = []
        self.values: list[str] = []

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        """True that often."""
        return bool(self.rng.random() < probability)

    def between(self, low: int, high: int) -> int:
        """A number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def quant(self, scale: float | None = None) -> Quant:
        """A per-tensor quantisation, by default of any sensible scale."""
        value = np.float32(scale if scale is not None else 2.0 ** self.rng.uniform(-9, -3))
        zero = self.pick((-128, 0, 127, self.between(-128, 127)))
        return Quant((float(value),), (zero,))

    def map_shape(self) -> Shape:
        """An NHWC shape."""
        while True:
            shape = (self.pick((1, 1, 1, 2)), *(self.pick(AWKWARD) for _ in range(3)))
            if prod(shape) <= MAX_ELEMENTS // 2:
                return shape

    def source(self) -> Tensor:
        """A value to go on from: often the newest, sometimes a constant."""
        if self.chance(0.06):
            return self.constant(self.map_shape(), self.quant())
        name = self.values[-1] if self.chance(0.6) else self.pick(self.values)
        return self.tensor(name)

    def tensor(self, name: str) -> Tensor:
        """The tensor of that name."""
        return next(tensor for tensor in self.tensors if tensor.name == name)

    def input(self, shape: Shape) -> None:
        """One more graph input."""
        tensor = Tensor(f"in{len(self.inputs)}", TensorType(shape, DType.INT8, self.quant()))
        self.tensors.append(tensor)
        self.inputs.append(tensor.name)
        self.values.append(tensor.name)

    def constant(self, shape: Shape, quant: Quant, values: npt.NDArray[np.int64] | None = None) -> Tensor:
        """An int8 constant, random unless given."""
        if values is None:
            values = self.rng.integers(-128, 128, shape)
        data = values.astype(np.int8).tobytes()
        return self._add(Tensor(f"c{len(self.tensors)}", TensorType(shape, DType.INT8, quant), data))

    def bias(self, channels: int) -> Tensor:
        """An int32 constant of one value per channel."""
        values = self.rng.integers(-5000, 5001, channels).astype("<i4")
        return self._add(Tensor(f"c{len(self.tensors)}", TensorType((channels,), DType.INT32), values.tobytes()))

    def clamp(self) -> Clamp:
        """Mostly the whole range."""
        if self.chance(0.7):
            return Clamp()
        low = self.between(-128, 100)
        return Clamp(low, self.between(low, 127))

    def emit(self, op: Op, quant: Quant, shape: Shape) -> None:
        """Appends the op, whose result has this quantisation and, where it has a choice, this shape."""
        sources = tuple(self.tensor(name).type.shape for name in op.inputs)
        kind = TensorType(shapes.output_shape(op, sources, shape), DType.INT8, quant)
        self._add(Tensor(op.outputs[0], kind))
        self.ops.append(op)
        self.values.append(op.outputs[0])

    def op_fields(self) -> tuple[tuple[str], tuple[int]]:
        """Output name and origin of the next op."""
        return (f"t{len(self.ops)}",), (len(self.ops),)

    def finish(self, name: str) -> Graph:
        """The graph, whose outputs are all values that nothing reads, and sometimes one more."""
        read = {source for op in self.ops for source in op.inputs}
        outputs = [op.outputs[0] for op in self.ops if op.outputs[0] not in read]
        rest = [value for value in self.values if value not in outputs]
        if rest and self.chance(0.25):
            outputs.append(self.pick(rest))
        used = {*self.inputs, *outputs, *read}
        tensors = tuple(tensor for tensor in self.tensors if tensor.name in used)
        return Graph(name, tensors, tuple(self.inputs), tuple(outputs), tuple(self.ops))

    def _add(self, tensor: Tensor) -> Tensor:
        self.tensors.append(tensor)
        return tensor


# One maker per operator: appends it to the builder if the source suits it, else does nothing.


def _weight_scales(build: _Builder, channels: int, axis: int, fan_in: int) -> tuple[Quant, float]:
    """Weight quantisation, per channel as often as not, and a step of the output, in steps of the input, to suit."""
    scales = np.exp2(build.rng.uniform(-10, -5, channels if build.chance(0.6) else 1)).astype(np.float32)
    quant = Quant(tuple(map(float, scales)), (0,) * len(scales), axis if len(scales) > 1 else None)
    if len(scales) == 1 and channels == 1 and build.chance(0.5):
        quant = Quant(quant.scales, (0,), axis)
    return quant, float(scales.max()) * 50 * fan_in**0.5 * build.rng.uniform(0.3, 3)


def _kernel(build: _Builder, size: Pair) -> tuple[Pair, Pair, Pads]:
    """A kernel, its dilation and pads, such that at least one window fits the map."""
    kernel, dilation, pads = [], [], []
    for dim in size:
        taps, step = build.pick((1, 2, 3, 3, 5)), build.pick((1, 1, 1, 2, 3))
        extent = shapes.extent(taps, step)
        before, after = (build.between(0, extent - 1), build.between(0, extent - 1)) if build.chance(0.6) else (0, 0)
        while dim + before + after < extent:
            taps, step, extent, before, after = max(1, taps - 1), 1, max(1, taps - 1), 0, 0
        kernel.append(taps)
        dilation.append(step)
        pads += [before, after]
    return (kernel[0], kernel[1]), (dilation[0], dilation[1]), Pads(*pads)


def _stride(build: _Builder) -> Pair:
    return build.pick((1, 1, 2, 3)), build.pick((1, 1, 2, 3))


def _conv2d(build: _Builder, x: Tensor) -> None:
    if len(x.type.shape) != 4:
        return
    _, height, width, channels = x.type.shape
    kernel, dilation, pads = _kernel(build, (height, width))
    out_c = build.pick(AWKWARD)
    quant, step = _weight_scales(build, out_c, 0, prod(kernel) * channels)
    weights = build.constant((out_c, *kernel, channels), quant)
    outputs, origin = build.op_fields()
    build.emit(
        Conv2D(
            inputs=(x.name, weights.name, build.bias(out_c).name), outputs=outputs, origin=origin,
            stride=_stride(build), dilation=dilation, pads=pads, clamp=build.clamp(),
        ),
        build.quant(step * x.type.q.scale), (),
    )  # fmt: skip


def _depthwise(build: _Builder, x: Tensor) -> None:
    if len(x.type.shape) != 4:
        return
    _, height, width, channels = x.type.shape
    kernel, dilation, pads = _kernel(build, (height, width))
    multiplier = build.pick((1, 1, 1, 2, 3))
    out_c = channels * multiplier
    quant, step = _weight_scales(build, out_c, 3, prod(kernel))
    weights = build.constant((1, *kernel, out_c), quant)
    outputs, origin = build.op_fields()
    build.emit(
        DepthwiseConv2D(
            inputs=(x.name, weights.name, build.bias(out_c).name), outputs=outputs, origin=origin,
            multiplier=multiplier, stride=_stride(build), dilation=dilation, pads=pads, clamp=build.clamp(),
        ),
        build.quant(step * x.type.q.scale), (),
    )  # fmt: skip


def _fully_connected(build: _Builder, x: Tensor) -> None:
    width = x.type.shape[-1]
    height = build.pick(AWKWARD)
    quant, step = _weight_scales(build, height, 0, width)
    weights = build.constant((height, width), quant)
    if quant.axis is None and build.chance(0.3):
        weights = _transposed_weights(build, weights)
    outputs, origin = build.op_fields()
    op = FullyConnected(
        inputs=(x.name, weights.name, build.bias(height).name), outputs=outputs, origin=origin, clamp=build.clamp()
    )
    shape = (*x.type.shape[:-1], height) if build.chance(0.5) else ()
    build.emit(op, build.quant(step * x.type.q.scale), shape)


def _transposed_weights(build: _Builder, weights: Tensor) -> Tensor:
    """The same weights as a transpose of a constant, as ExecuTorch's converter leaves them."""
    stored = np.asarray(weights.array(), np.int64).T
    flipped = build.constant(stored.shape, weights.type.q, stored)
    outputs, origin = build.op_fields()
    build.emit(Transpose(inputs=(flipped.name,), outputs=outputs, origin=origin, perm=(1, 0)), weights.type.q, ())
    build.values.pop()  # not an activation
    return build.tensor(outputs[0])


def _other_operand(build: _Builder, x: Tensor) -> Tensor:
    """A second operand: another value of the shape, `x` itself, or a constant that broadcasts."""
    alike = [v for v in build.values if build.tensor(v).type.shape == x.type.shape]
    if alike and build.chance(0.5):
        return build.tensor(build.pick(alike))
    shape = tuple(1 if build.chance(0.4) else dim for dim in x.type.shape)
    return build.constant(shape[build.between(0, len(shape)) :], build.quant())


def _add(build: _Builder, x: Tensor) -> None:
    other = _other_operand(build, x)
    pair = (x.name, other.name) if build.chance(0.7) else (other.name, x.name)
    scale = max(x.type.q.scale, other.type.q.scale) * build.pick((1.0, 0.5, build.rng.uniform(0.5, 3)))
    outputs, origin = build.op_fields()
    build.emit(Add(inputs=pair, outputs=outputs, origin=origin, clamp=build.clamp()), build.quant(scale), ())


def _mul(build: _Builder, x: Tensor) -> None:
    other = _other_operand(build, x)
    pair = (x.name, other.name) if build.chance(0.7) else (other.name, x.name)
    scale = x.type.q.scale * other.type.q.scale * build.rng.uniform(20, 120)
    outputs, origin = build.op_fields()
    build.emit(Mul(inputs=pair, outputs=outputs, origin=origin, clamp=build.clamp()), build.quant(scale), ())


def _neutral(build: _Builder, x: Tensor) -> None:
    """A sum with zero or a product with one, which passes should see through."""
    zero = build.between(-128, 126)
    adds = build.chance(0.5)
    one = Quant((1.0,), (zero,)) if not adds else build.quant()
    value = one.zero_point if adds else one.zero_point + 1
    other = build.constant((1,) * len(x.type.shape), one, np.array(value))
    outputs, origin = build.op_fields()
    op = (Add if adds else Mul)(inputs=(x.name, other.name), outputs=outputs, origin=origin)
    build.emit(op, x.type.q, ())


def _average_pool(build: _Builder, x: Tensor) -> None:
    if len(x.type.shape) != 4:
        return
    window, _, pads = _pool_window(build, x)
    outputs, origin = build.op_fields()
    op = AveragePool2D(
        inputs=(x.name,), outputs=outputs, origin=origin, window=window, stride=_stride(build), pads=pads,
        clamp=build.clamp(),
    )  # fmt: skip
    build.emit(op, build.pick((x.type.q, build.quant(x.type.q.scale * build.rng.uniform(0.3, 1.5)))), ())


def _max_pool(build: _Builder, x: Tensor) -> None:
    if len(x.type.shape) != 4:
        return
    window, _, pads = _pool_window(build, x)
    outputs, origin = build.op_fields()
    op = MaxPool2D(
        inputs=(x.name,), outputs=outputs, origin=origin, window=window, stride=_stride(build), pads=pads,
        clamp=build.clamp(),
    )  # fmt: skip
    build.emit(op, x.type.q, ())


def _pool_window(build: _Builder, x: Tensor) -> tuple[Pair, Pair, Pads]:
    """As `_kernel`, without dilation."""
    while True:
        window, dilation, pads = _kernel(build, (x.type.shape[1], x.type.shape[2]))
        if dilation == (1, 1):
            return window, dilation, pads


def _mean(build: _Builder, x: Tensor) -> None:
    rank = len(x.type.shape)
    axes = tuple(axis for axis in range(rank) if build.chance(0.5)) or (rank - 1,)
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(x.type.shape))
    keep = build.chance(0.5) or len(axes) == rank  # numpy has no arrays of rank 0, only scalars
    shape = kept if keep else tuple(dim for axis, dim in enumerate(x.type.shape) if axis not in axes)
    outputs, origin = build.op_fields()
    quant = build.pick((x.type.q, build.quant(x.type.q.scale * build.rng.uniform(0.3, 1.5))))
    build.emit(Mean(inputs=(x.name,), outputs=outputs, origin=origin, axes=axes), quant, shape)


def _pad(build: _Builder, x: Tensor) -> None:
    rank = len(x.type.shape)
    spatial = rank == 4 and build.chance(0.6)
    paddings = tuple(
        (build.between(0, 2), build.between(0, 2)) if not spatial or axis in (1, 2) else (0, 0) for axis in range(rank)
    )
    if prod(dim + sum(pads) for dim, pads in zip(x.type.shape, paddings, strict=True)) > MAX_ELEMENTS:
        return
    outputs, origin = build.op_fields()
    value = build.pick((x.type.q.zero_point, -128, build.between(-128, 127)))
    build.emit(Pad(inputs=(x.name,), outputs=outputs, origin=origin, paddings=paddings, value=value), x.type.q, ())


def _padded_window(build: _Builder, x: Tensor) -> None:
    """A padding that the op after it could do itself, as ExecuTorch's converter writes it."""
    if len(x.type.shape) != 4 or x.type.numel > MAX_ELEMENTS // 4:
        return
    pool = build.chance(0.3)
    paddings = ((0, 0), (build.between(0, 2), 1), (build.between(0, 2), 1), (0, 0))
    outputs, origin = build.op_fields()
    value = -128 if pool else x.type.q.zero_point
    build.emit(Pad(inputs=(x.name,), outputs=outputs, origin=origin, paddings=paddings, value=value), x.type.q, ())
    make = _max_pool if pool else build.pick((_conv2d, _depthwise))
    make(build, build.tensor(outputs[0]))


def _reshape(build: _Builder, x: Tensor) -> None:
    outputs, origin = build.op_fields()
    build.emit(Reshape(inputs=(x.name,), outputs=outputs, origin=origin), x.type.q, _factors(build, x.type.numel))


def _factors(build: _Builder, numel: int) -> Shape:
    """A shape of rank 4 as often as not, else of 1 to 5."""
    rank = 4 if build.chance(0.5) else build.between(1, 5)
    dims: list[int] = []
    for _ in range(rank - 1):
        dims.append(build.pick([d for d in range(1, min(numel, 32) + 1) if numel % d == 0]))
        numel //= dims[-1]
    dims.append(numel)
    return tuple(dims[i] for i in build.rng.permutation(rank))


def _softmax(build: _Builder, x: Tensor) -> None:
    outputs, origin = build.op_fields()
    quant = Quant((1 / 256,), (-128,)) if build.chance(0.7) else build.quant(build.rng.uniform(0.001, 0.01))
    beta = build.pick((1.0, 1.0, 0.5))
    build.emit(Softmax(inputs=(x.name,), outputs=outputs, origin=origin, beta=beta), quant, ())


def _transpose(build: _Builder, x: Tensor) -> None:
    outputs, origin = build.op_fields()
    perm = tuple(int(i) for i in build.rng.permutation(len(x.type.shape)))
    build.emit(Transpose(inputs=(x.name,), outputs=outputs, origin=origin, perm=perm), x.type.q, ())


def _concat(build: _Builder, x: Tensor) -> None:
    axis = build.between(0, len(x.type.shape) - 1)
    names = [x.name]
    for _ in range(build.between(0, 2)):
        shape = tuple(build.pick((1, 2, 3)) if i == axis else dim for i, dim in enumerate(x.type.shape))
        names.append(x.name if build.chance(0.2) else build.constant(shape, x.type.q).name)
    if sum(build.tensor(name).type.numel for name in names) > MAX_ELEMENTS:
        return
    build.rng.shuffle(names)
    outputs, origin = build.op_fields()
    build.emit(Concat(inputs=tuple(names), outputs=outputs, origin=origin, axis=axis), x.type.q, ())


def _slice(build: _Builder, x: Tensor) -> None:
    begin = tuple(build.between(0, dim - 1) if build.chance(0.4) else 0 for dim in x.type.shape)
    size = tuple(
        build.between(1, dim - at) if build.chance(0.5) else dim - at
        for dim, at in zip(x.type.shape, begin, strict=True)
    )
    outputs, origin = build.op_fields()
    build.emit(Slice(inputs=(x.name,), outputs=outputs, origin=origin, begin=begin), x.type.q, size)


def _quantize(build: _Builder, x: Tensor) -> None:
    outputs, origin = build.op_fields()
    quant = build.pick((x.type.q, build.quant(x.type.q.scale * build.rng.uniform(0.3, 3))))
    build.emit(Quantize(inputs=(x.name,), outputs=outputs, origin=origin), quant, ())


def _unary(build: _Builder, x: Tensor) -> None:
    outputs, origin = build.op_fields()
    quant = x.type.q if build.chance(0.7) else build.quant(x.type.q.scale * build.rng.uniform(0.3, 1.5))
    function = build.pick(tuple(Function))
    build.emit(Unary(inputs=(x.name,), outputs=outputs, origin=origin, function=function), quant, ())


MAKERS: tuple[Callable[[_Builder, Tensor], None], ...] = (
    _conv2d,
    _conv2d,
    _depthwise,
    _fully_connected,
    _add,
    _mul,
    _neutral,
    _average_pool,
    _max_pool,
    _mean,
    _pad,
    _padded_window,
    _padded_window,
    _reshape,
    _softmax,
    _transpose,
    _concat,
    _slice,
    _quantize,
    _unary,
    _unary,
)
