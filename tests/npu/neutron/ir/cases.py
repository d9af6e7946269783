"""Small random graphs with one operator of each kind: awkward shapes, zero points at limits, per-channel scales."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir import ops, shapes
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.tflite.quantization import Quant

Array = npt.NDArray[np.generic]


def f32(value: float) -> float:
    """The float32 value nearest to `value`."""
    return float(np.float32(value))


@dataclass
class Builder:
    """A graph in the making, and stored values for its inputs."""

    rng: np.random.Generator
    tensors: list[Tensor] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    operators: list[ops.Op] = field(default_factory=list)

    def quant(self) -> Quant:
        """A random scale with a zero point at a limit or inside."""
        zero_point = int(self.rng.choice([-128, 127, 0, int(self.rng.integers(-128, 128))]))
        return Quant((f32(self.rng.uniform(0.01, 0.1)),), (zero_point,))

    def stored(self, shape: tuple[int, ...]) -> Array:
        """Random int8 values, extremes among them."""
        array = self.rng.integers(-128, 128, shape).astype(np.int8)
        extreme = self.rng.random(shape)
        return np.where(extreme < 0.1, -128, np.where(extreme > 0.9, 127, array)).astype(np.int8)

    def input(self, name: str, shape: tuple[int, ...], quant: Quant | None = None) -> TensorType:
        """A graph input with a random value."""
        kind = TensorType(shape, DType.INT8, quant or self.quant())
        self.tensors.append(Tensor(name, kind))
        self.inputs.append(name)
        self.values.append(self.stored(shape))
        return kind

    def weights(self, shape: tuple[int, ...], axis: int, x: TensorType) -> None:
        """Constants `w` and `b`, per channel or per tensor."""
        channels = shape[axis]
        if self.rng.random() < 0.7:
            scales = tuple(f32(s) for s in self.rng.uniform(1e-4, 0.02, channels))
            quant, bias_axis = Quant(scales, (0,) * channels, axis), 0
        else:
            quant, bias_axis = Quant((f32(self.rng.uniform(1e-4, 0.02)),), (0,)), None
        bias_quant = Quant(tuple(f32(x.q.scale * s) for s in quant.scales), quant.zero_points, bias_axis)
        bias = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        self.tensors.append(Tensor("w", TensorType(shape, DType.INT8, quant), self.stored(shape).tobytes()))
        self.tensors.append(Tensor("b", TensorType((channels,), DType.INT32, bias_quant), bias.tobytes()))

    def clamp(self) -> ops.Clamp:
        """The whole range, or a part."""
        if self.rng.random() < 0.5:
            return ops.Clamp()
        lo, hi = sorted(int(v) for v in self.rng.integers(-128, 128, 2))
        return ops.Clamp(lo, hi)

    def pads(self, extents: tuple[int, int]) -> ops.Pads:
        """Asymmetric padding below the extents."""
        draw = [int(self.rng.integers(0, extent)) for extent in (extents[0],) * 2 + (extents[1],) * 2]
        return ops.Pads(*draw)

    def pair(self, lo: int, hi: int) -> ops.Pair:
        """Two random sizes."""
        return int(self.rng.integers(lo, hi + 1)), int(self.rng.integers(lo, hi + 1))

    def finish(
        self, op: ops.Op, quant: Quant | None = None, shape: tuple[int, ...] | None = None
    ) -> tuple[Graph, list[Array]]:
        """The graph with this op, which writes `y`; its shape is inferred when not given."""
        sources = {tensor.name: tensor.type.shape for tensor in self.tensors}
        if shape is None:
            shape = shapes.output_shape(op, tuple(sources[name] for name in op.inputs), ())
        self.tensors.append(Tensor("y", TensorType(shape, DType.INT8, quant or self.quant())))
        return Graph(type(op).__name__, tuple(self.tensors), tuple(self.inputs), ("y",), (op,)), self.values


Case = tuple[Graph, list[Array]]


def conv2d(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    kernel, dilation = b.pair(1, 3), b.pair(1, 2)
    x = b.input("x", (int(rng.integers(1, 3)), *b.pair(5, 7), int(rng.integers(1, 5))))
    b.weights((int(rng.integers(1, 6)), *kernel, x.shape[3]), 0, x)
    pads = b.pads((shapes.extent(kernel[0], dilation[0]), shapes.extent(kernel[1], dilation[1])))
    stride = b.pair(1, 3)
    op = ops.Conv2D(
        inputs=("x", "w", "b"),
        outputs=("y",),
        stride=stride,
        dilation=dilation,
        pads=pads,
        clamp=b.clamp(),
        origin=(3,),
    )
    return b.finish(op)


def depthwise_conv2d(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    kernel, dilation, multiplier = b.pair(1, 3), b.pair(1, 2), int(rng.integers(1, 4))
    x = b.input("x", (int(rng.integers(1, 3)), *b.pair(5, 7), int(rng.integers(1, 4))))
    b.weights((1, *kernel, x.shape[3] * multiplier), 3, x)
    pads = b.pads((shapes.extent(kernel[0], dilation[0]), shapes.extent(kernel[1], dilation[1])))
    op = ops.DepthwiseConv2D(
        inputs=("x", "w", "b"),
        outputs=("y",),
        multiplier=multiplier,
        stride=b.pair(1, 3),
        dilation=dilation,
        pads=pads,
        clamp=b.clamp(),
    )
    return b.finish(op)


def fully_connected(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    rows, features = int(rng.integers(1, 4)), int(rng.integers(1, 18))
    x = b.input("x", (rows, features))
    b.weights((int(rng.integers(1, 6)), features), 0, x)
    return b.finish(ops.FullyConnected(inputs=("x", "w", "b"), outputs=("y",), clamp=b.clamp(), origin=(0, 1)))


def _two_inputs(rng: np.random.Generator) -> Builder:
    b = Builder(rng)
    shape = tuple(int(d) for d in rng.integers(1, 5, 4))
    other = tuple(d if rng.random() < 0.6 else 1 for d in shape)[int(rng.integers(0, 3)) :]
    first, second = (shape, other) if rng.random() < 0.5 else (other, shape)
    b.input("x", first)
    b.input("z", second)
    return b


def _clamped(kind: type[ops.Add | ops.Sub | ops.Mul]) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        b = _two_inputs(rng)
        return b.finish(kind(inputs=("x", "z"), outputs=("y",), clamp=b.clamp()))

    return make


def _extremum(kind: type[ops.Maximum | ops.Minimum]) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        b = _two_inputs(rng)
        return b.finish(kind(inputs=("x", "z"), outputs=("y",)), b.tensors[0].type.q if rng.random() < 0.4 else None)

    return make


def prelu(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x = b.input("x", tuple(int(d) for d in rng.integers(1, 5, 4)))
    b.input("z", tuple(d if rng.random() < 0.6 else 1 for d in x.shape)[int(rng.integers(0, 4)) :])
    return b.finish(ops.Prelu(inputs=("x", "z"), outputs=("y",)))


def batch_mat_mul(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    stack = tuple(int(d) for d in rng.integers(1, 3, int(rng.integers(0, 3))))
    rows, depth, columns = (int(d) for d in rng.integers(1, 6, 3))
    adj_x, adj_y = rng.random() < 0.5, rng.random() < 0.5
    b.input("x", (*stack, depth, rows) if adj_x else (*stack, rows, depth))
    b.input("z", (*stack, columns, depth) if adj_y else (*stack, depth, columns))
    return b.finish(ops.BatchMatMul(inputs=("x", "z"), outputs=("y",), adj_x=adj_x, adj_y=adj_y, clamp=b.clamp()))


def transpose_conv(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    kernel, stride = b.pair(1, 4), b.pair(1, 3)
    x = b.input("x", (int(rng.integers(1, 3)), *b.pair(2, 4), int(rng.integers(1, 4))))
    b.weights((int(rng.integers(1, 4)), *kernel, x.shape[3]), 0, x)
    ends = [
        int(rng.integers(-2, max(1, min(size, 1 + (d - 1) * s))))
        for size, d, s in zip(kernel, x.shape[1:3], stride, strict=True)
    ]
    starts = [int(rng.integers(0, 2)) if size > 2 else 0 for size in kernel]
    pads = ops.Pads(starts[0], ends[0], starts[1], ends[1])
    return b.finish(
        ops.TransposeConv(inputs=("x", "w", "b"), outputs=("y",), stride=stride, pads=pads, clamp=b.clamp())
    )


def average_pool2d(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    window = b.pair(1, 4)
    x = b.input("x", (int(rng.integers(1, 3)), *b.pair(4, 7), int(rng.integers(1, 4))))
    same = rng.random() < 0.4  # equal scales make exact ties
    op = ops.AveragePool2D(
        inputs=("x",), outputs=("y",), window=window, stride=b.pair(1, 3), pads=b.pads(window), clamp=b.clamp()
    )
    return b.finish(op, x.q if same else None)


def max_pool2d(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    window = b.pair(1, 4)
    x = b.input("x", (int(rng.integers(1, 3)), *b.pair(4, 7), int(rng.integers(1, 4))))
    op = ops.MaxPool2D(
        inputs=("x",), outputs=("y",), window=window, stride=b.pair(1, 3), pads=b.pads(window), clamp=b.clamp()
    )
    return b.finish(op, x.q)


def _reduction(
    kind: type[ops.Mean | ops.Sum | ops.ReduceMax | ops.ReduceMin],
) -> Callable[[np.random.Generator], Case]:
    def make(rng: np.random.Generator) -> Case:
        b = Builder(rng)
        x = b.input("x", tuple(int(d) for d in rng.integers(1, 6, int(rng.integers(1, 5)))))
        axes = tuple(i for i in range(len(x.shape)) if rng.random() < 0.5) or (0,)
        shape = tuple(1 if i in axes else d for i, d in enumerate(x.shape)) if rng.random() < 0.5 else None
        keeps = kind in (ops.ReduceMax, ops.ReduceMin) or rng.random() < 0.4
        return b.finish(kind(inputs=("x",), outputs=("y",), axes=axes), x.q if keeps else None, shape)

    return make


def _resized(b: Builder) -> tuple[TensorType, tuple[int, ...]]:
    x = b.input("x", (int(b.rng.integers(1, 3)), *b.pair(1, 5), int(b.rng.integers(1, 4))))
    return x, (x.shape[0], *b.pair(1, 9), x.shape[3])


def resize_bilinear(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x, shape = _resized(b)
    corners, centres = [(False, False), (True, False), (False, True)][int(rng.integers(0, 3))]
    op = ops.ResizeBilinear(inputs=("x",), outputs=("y",), align_corners=corners, half_pixel_centers=centres)
    return b.finish(op, x.q, shape)


def resize_nearest(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x, shape = _resized(b)
    return b.finish(ops.ResizeNearest(inputs=("x",), outputs=("y",)), x.q, shape)


def mirror_pad(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x = b.input("x", tuple(int(d) for d in rng.integers(1, 5, int(rng.integers(1, 5)))))
    paddings = tuple((int(rng.integers(0, d)), int(rng.integers(0, d))) for d in x.shape)
    return b.finish(ops.MirrorPad(inputs=("x",), outputs=("y",), paddings=paddings), x.q)


def pad(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x = b.input("x", tuple(int(d) for d in rng.integers(1, 5, int(rng.integers(1, 5)))))
    paddings = tuple(b.pair(0, 2) for _ in x.shape)
    return b.finish(ops.Pad(inputs=("x",), outputs=("y",), paddings=paddings, value=int(rng.integers(-128, 128))), x.q)


def reshape(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x = b.input("x", (2, int(rng.integers(1, 5)), 3))
    return b.finish(ops.Reshape(inputs=("x",), outputs=("y",)), x.q, (3, 1, x.numel // 3))


def softmax(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    b.input("x", (int(rng.integers(1, 4)), int(rng.integers(1, 12))))
    out = Quant((0.00390625,), (-128,)) if rng.random() < 0.5 else b.quant()
    return b.finish(ops.Softmax(inputs=("x",), outputs=("y",), beta=float(rng.choice([1.0, 0.7, 2.0]))), out)


def transpose(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x = b.input("x", tuple(int(d) for d in rng.integers(1, 5, int(rng.integers(1, 6)))))
    perm = tuple(int(i) for i in rng.permutation(len(x.shape)))
    return b.finish(ops.Transpose(inputs=("x",), outputs=("y",), perm=perm), x.q)


def concat(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    shape = [int(d) for d in rng.integers(1, 4, 3)]
    axis, quant = int(rng.integers(0, 3)), b.quant()
    names = tuple(f"x{i}" for i in range(int(rng.integers(1, 4))))
    for name in names:
        shape[axis] = int(rng.integers(1, 4))
        b.input(name, tuple(shape), quant)
    return b.finish(ops.Concat(inputs=names, outputs=("y",), axis=axis), quant)


def slice_(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    x = b.input("x", tuple(int(d) for d in rng.integers(1, 6, int(rng.integers(1, 5)))))
    begin = tuple(int(rng.integers(0, d)) for d in x.shape)
    shape = tuple(int(rng.integers(1, d - at + 1)) for d, at in zip(x.shape, begin, strict=True))
    return b.finish(ops.Slice(inputs=("x",), outputs=("y",), begin=begin), x.q, shape)


def quantize(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    b.input("x", (5, 52))
    return b.finish(ops.Quantize(inputs=("x",), outputs=("y",)))


def unary(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    b.input("x", (5, 52))
    return b.finish(ops.Unary(inputs=("x",), outputs=("y",), function=rng.choice(np.array(list(ops.Function)))))


def leaky_relu(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    b.input("x", (5, 52))
    return b.finish(ops.LeakyRelu(inputs=("x",), outputs=("y",), alpha=f32(rng.uniform(-1, 2))))


def lookup(rng: np.random.Generator) -> Case:
    b = Builder(rng)
    b.input("x", (5, 52))
    entries = tuple(rng.integers(-128, 128, 256).tolist())
    return b.finish(ops.Lookup(inputs=("x",), outputs=("y",), entries=entries))


CASES: dict[type[ops.Op], Callable[[np.random.Generator], Case]] = {
    ops.Conv2D: conv2d,
    ops.DepthwiseConv2D: depthwise_conv2d,
    ops.FullyConnected: fully_connected,
    ops.TransposeConv: transpose_conv,
    ops.BatchMatMul: batch_mat_mul,
    ops.Add: _clamped(ops.Add),
    ops.Sub: _clamped(ops.Sub),
    ops.Mul: _clamped(ops.Mul),
    ops.Maximum: _extremum(ops.Maximum),
    ops.Minimum: _extremum(ops.Minimum),
    ops.Prelu: prelu,
    ops.AveragePool2D: average_pool2d,
    ops.MaxPool2D: max_pool2d,
    ops.Mean: _reduction(ops.Mean),
    ops.Sum: _reduction(ops.Sum),
    ops.ReduceMax: _reduction(ops.ReduceMax),
    ops.ReduceMin: _reduction(ops.ReduceMin),
    ops.ResizeBilinear: resize_bilinear,
    ops.ResizeNearest: resize_nearest,
    ops.MirrorPad: mirror_pad,
    ops.Pad: pad,
    ops.Reshape: reshape,
    ops.Softmax: softmax,
    ops.Transpose: transpose,
    ops.Concat: concat,
    ops.Slice: slice_,
    ops.Quantize: quantize,
    ops.Unary: unary,
    ops.LeakyRelu: leaky_relu,
    ops.Lookup: lookup,
}


def case(kind: type[ops.Op], seed: int) -> Case:
    """A graph with one op of that class, and its inputs."""
    return CASES[kind](np.random.default_rng(seed))
