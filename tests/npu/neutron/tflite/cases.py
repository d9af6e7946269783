"""Random graphs of one op each, for round trips and for the comparison with LiteRT: `CASES[name](rng)`."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir import ops, shapes
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.npu.neutron.tflite.attributes import ACTIVATIONS, same_pads
from deuteron.tflite.quantization import Quant

Rng = np.random.Generator
Shape = tuple[int, ...]
ORIGIN = (0,)
ENTRIES = tuple((37 * x) % 256 - 128 for x in range(256))
SOFTMAX_QUANT = Quant((1 / 256,), (-128,))
"""The only output quantization that LiteRT's int8 softmax takes."""


def f32(value: float) -> float:
    return float(np.float32(value))


def quant(rng: Rng, around: float = 0.05) -> Quant:
    return Quant((f32(around * rng.uniform(0.5, 2.0)),), (int(rng.integers(-128, 128)),))


def act(name: str, shape: Shape, q: Quant) -> Tensor:
    return Tensor(name, TensorType(shape, DType.INT8, q))


def const(name: str, values: npt.NDArray[np.generic], q: Quant | None) -> Tensor:
    dtype = {"int8": DType.INT8, "int32": DType.INT32}[values.dtype.name]
    return Tensor(name, TensorType(values.shape, dtype, q), values.tobytes())


def shape(rng: Rng, rank: int, largest: int = 7) -> Shape:
    return tuple(int(d) for d in rng.integers(1, largest + 1, rank))


def pair(rng: Rng, largest: int) -> ops.Pair:
    return int(rng.integers(1, largest + 1)), int(rng.integers(1, largest + 1))


def clamp(rng: Rng, q: Quant) -> ops.Clamp:
    return ACTIVATIONS[str(rng.choice(list(ACTIVATIONS)))](q)


def one_op(op: ops.Op, *tensors: Tensor) -> Graph:
    inputs = tuple(t.name for t in tensors if not t.is_const and t.name in op.inputs)
    return Graph("case", tensors, inputs, op.outputs, (op,))


def weighted_operands(
    rng: Rng, x: Quant, weights: Shape, axis: int | None, reduction: int
) -> tuple[Tensor, Tensor, Quant]:
    """Weights, bias and an output quantization in whose range most results lie."""
    channels = weights[axis or 0]
    scales = tuple(f32(0.01 * rng.uniform(0.5, 2.0)) for _ in range(1 if axis is None or channels == 1 else channels))
    per_channel = axis if len(scales) > 1 else None
    bias_scales = tuple(f32(x.scale * s) for s in scales)
    zeros = (0,) * len(scales)
    w = const("w", rng.integers(-127, 128, weights).astype(np.int8), Quant(scales, zeros, per_channel))
    values = rng.integers(-4000, 4000, channels).astype(np.int32)
    b = const("b", values, Quant(bias_scales, zeros, None if per_channel is None else 0))
    return w, b, quant(rng, x.scale * max(scales) * 60 * np.sqrt(reduction))


def window(rng: Rng, size: ops.Pair, kernel: ops.Pair, dilation: ops.Pair) -> tuple[ops.Pair, ops.Pads, Shape]:
    """Stride, padding (SAME, or VALID where the kernel fits) and the output's rows and columns."""
    stride = pair(rng, 3)
    reach = tuple(shapes.extent(k, d) for k, d in zip(kernel, dilation, strict=True))
    fits = all(r <= s for r, s in zip(reach, size, strict=True))
    pads = ops.Pads() if fits and rng.integers(2) else same_pads(size, kernel, stride, dilation)
    return stride, pads, map_size(size, kernel, stride, dilation, pads)


def map_size(size: ops.Pair, kernel: ops.Pair, stride: ops.Pair, dilation: ops.Pair, pads: ops.Pads) -> Shape:
    return (
        shapes.window_count(size[0], kernel[0], stride[0], dilation[0], (pads.top, pads.bottom)),
        shapes.window_count(size[1], kernel[1], stride[1], dilation[1], (pads.left, pads.right)),
    )


def conv_2d(rng: Rng) -> Graph:
    (n, h, w, c), out_c, xq = shape(rng, 4, 9), int(rng.integers(1, 9)), quant(rng)
    kernel, dilation = pair(rng, 4), pair(rng, 2)
    stride, pads, size = window(rng, (h, w), kernel, dilation)
    axis = 0 if rng.integers(4) else None
    weights, bias, yq = weighted_operands(rng, xq, (out_c, *kernel, c), axis, kernel[0] * kernel[1] * c)
    op = ops.Conv2D(
        inputs=("x", "w", "b"),
        outputs=("y",),
        origin=ORIGIN,
        stride=stride,
        dilation=dilation,
        pads=pads,
        clamp=clamp(rng, yq),
    )
    return one_op(op, act("x", (n, h, w, c), xq), weights, bias, act("y", (n, *size, out_c), yq))


def depthwise_conv_2d(rng: Rng) -> Graph:
    (n, h, w, c), multiplier, xq = shape(rng, 4, 9), int(rng.integers(1, 4)), quant(rng)
    kernel, dilation = pair(rng, 4), pair(rng, 2)
    stride, pads, size = window(rng, (h, w), kernel, dilation)
    weights, bias, yq = weighted_operands(rng, xq, (1, *kernel, c * multiplier), 3, kernel[0] * kernel[1])
    op = ops.DepthwiseConv2D(
        inputs=("x", "w", "b"),
        outputs=("y",),
        origin=ORIGIN,
        multiplier=multiplier,
        stride=stride,
        dilation=dilation,
        pads=pads,
        clamp=clamp(rng, yq),
    )
    return one_op(op, act("x", (n, h, w, c), xq), weights, bias, act("y", (n, *size, c * multiplier), yq))


def fully_connected(rng: Rng) -> Graph:
    lead, features, out, xq = shape(rng, int(rng.integers(1, 4)), 4), int(rng.integers(1, 65)), 9, quant(rng)
    weights, bias, yq = weighted_operands(rng, xq, (out, features), None, features)
    op = ops.FullyConnected(inputs=("x", "w", "b"), outputs=("y",), origin=ORIGIN, clamp=clamp(rng, yq))
    result = (*lead, out) if rng.integers(2) else (int(np.prod(lead)), out)
    return one_op(op, act("x", (*lead, features), xq), weights, bias, act("y", result, yq))


def binary(kind: type[ops.Add | ops.Sub | ops.Mul], scale: float) -> Callable[[Rng], Graph]:
    def make(rng: Rng) -> Graph:
        a = shape(rng, int(rng.integers(1, 5)))
        b = tuple(int(d) if rng.integers(3) else 1 for d in a)[int(rng.integers(len(a))) :]
        yq = quant(rng, scale)
        op = kind(inputs=("a", "b"), outputs=("y",), origin=ORIGIN, clamp=clamp(rng, yq))
        return one_op(op, act("a", a, quant(rng)), act("b", b, quant(rng)), act("y", shapes.broadcast(a, b), yq))

    return make


def pool(kind: type[ops.AveragePool2D] | type[ops.MaxPool2D]) -> Callable[[Rng], Graph]:
    def make(rng: Rng) -> Graph:
        (n, h, w, c), q, kernel = shape(rng, 4, 9), quant(rng), pair(rng, 5)
        stride, pads, size = window(rng, (h, w), kernel, (1, 1))
        op = kind(
            inputs=("x",), outputs=("y",), origin=ORIGIN, window=kernel, stride=stride, pads=pads, clamp=clamp(rng, q)
        )
        return one_op(op, act("x", (n, h, w, c), q), act("y", (n, *size, c), q))

    return make


def transpose_conv(rng: Rng) -> Graph:
    (n, h, w, c), out_c, xq = shape(rng, 4, 6), int(rng.integers(1, 6)), quant(rng)
    stride, extra = pair(rng, 2), pair(rng, 3)
    kernel = (stride[0] + extra[0] - 1, stride[1] + extra[1] - 1)
    weights, bias, yq = weighted_operands(rng, xq, (out_c, *kernel, c), 0, kernel[0] * kernel[1] * c)
    if rng.integers(2):
        size, before = (h * stride[0], w * stride[1]), same_pads((h * stride[0], w * stride[1]), kernel, stride)
    else:
        size, before = ((h - 1) * stride[0] + kernel[0], (w - 1) * stride[1] + kernel[1]), ops.Pads()
    pads = ops.Pads(
        before.top,
        (h - 1) * stride[0] + kernel[0] - before.top - size[0],
        before.left,
        (w - 1) * stride[1] + kernel[1] - before.left - size[1],
    )
    op = ops.TransposeConv(
        inputs=("x", "w", "b"), outputs=("y",), origin=ORIGIN, stride=stride, pads=pads, clamp=clamp(rng, yq)
    )
    return one_op(op, act("x", (n, h, w, c), xq), weights, bias, act("y", (n, *size, out_c), yq))


def batch_matmul(rng: Rng) -> Graph:
    stack, (rows, depth, columns) = shape(rng, int(rng.integers(1, 3)), 3), shape(rng, 3, 9)
    adj_x, adj_y = bool(rng.integers(2)), bool(rng.integers(2))
    x = (*stack, depth, rows) if adj_x else (*stack, rows, depth)
    y = (*stack, columns, depth) if adj_y else (*stack, depth, columns)
    xq, yq = (Quant((f32(0.05),), (0,)) for _ in range(2))  # LiteRT takes general ones, but tells no zero point apart
    op = ops.BatchMatMul(inputs=("a", "b"), outputs=("y",), origin=ORIGIN, adj_x=adj_x, adj_y=adj_y)
    return one_op(op, act("a", x, xq), act("b", y, yq), act("y", (*stack, rows, columns), quant(rng, 0.2)))


def extremum(kind: type[ops.Maximum | ops.Minimum]) -> Callable[[Rng], Graph]:
    def make(rng: Rng) -> Graph:
        a, q = shape(rng, int(rng.integers(1, 5))), quant(rng)
        b = tuple(int(d) if rng.integers(3) else 1 for d in a)[int(rng.integers(len(a))) :]
        op = kind(inputs=("a", "b"), outputs=("y",), origin=ORIGIN)
        return one_op(op, act("a", a, q), act("b", b, q), act("y", shapes.broadcast(a, b), q))

    return make


def prelu(rng: Rng) -> Graph:
    x = shape(rng, 4)
    alpha = const("alpha", rng.integers(-128, 128, (1, 1, x[3])).astype(np.int8), quant(rng, 0.01))
    op = ops.Prelu(inputs=("x", "alpha"), outputs=("y",), origin=ORIGIN)
    return one_op(op, act("x", x, quant(rng)), alpha, act("y", x, quant(rng)))


def resize(kind: type[ops.ResizeBilinear | ops.ResizeNearest]) -> Callable[[Rng], Graph]:
    def make(rng: Rng) -> Graph:
        x, q = shape(rng, 4), quant(rng)
        y = (x[0], *(int(dim * rng.choice((1, 2, 4, 8))) for dim in x[1:3]), x[3])
        op = kind(inputs=("x",), outputs=("y",), origin=ORIGIN)
        if isinstance(op, ops.ResizeBilinear):
            corners, centres = ((False, False), (True, False), (False, True))[int(rng.integers(3))]
            op = replace(op, align_corners=corners, half_pixel_centers=centres)
        return one_op(op, act("x", x, q), act("y", y, q))

    return make


def mirror_pad(rng: Rng) -> Graph:
    x, q = shape(rng, int(rng.integers(1, 5))), quant(rng)
    paddings = tuple((int(rng.integers(dim)), int(rng.integers(dim))) for dim in x)
    result = tuple(before + dim + after for dim, (before, after) in zip(x, paddings, strict=True))
    op = ops.MirrorPad(inputs=("x",), outputs=("y",), origin=ORIGIN, paddings=paddings)
    return one_op(op, act("x", x, q), act("y", result, q))


def reduction(kind: type[ops.Mean | ops.Sum | ops.ReduceMax | ops.ReduceMin], around: float) -> Callable[[Rng], Graph]:
    def make(rng: Rng) -> Graph:
        return _reduced(rng, kind, around)

    return make


def _reduced(rng: Rng, kind: type[ops.Mean | ops.Sum | ops.ReduceMax | ops.ReduceMin], around: float) -> Graph:
    x = shape(rng, int(rng.integers(1, 5)), 9)
    axes = tuple(sorted(int(a) for a in rng.choice(len(x), int(rng.integers(1, len(x) + 1)), replace=False)))
    keep = bool(rng.integers(2)) or len(axes) == len(x)
    result = tuple(1 if i in axes else dim for i, dim in enumerate(x) if keep or i not in axes)
    xq = quant(rng)
    yq = xq if rng.integers(2) or kind in (ops.ReduceMax, ops.ReduceMin) else quant(rng, around)
    op = kind(inputs=("x",), outputs=("y",), origin=ORIGIN, axes=axes)
    return one_op(op, act("x", x, xq), act("y", result, yq))


def pad(rng: Rng) -> Graph:
    x, q = shape(rng, int(rng.integers(1, 5))), quant(rng)
    paddings = tuple((int(rng.integers(3)), int(rng.integers(3))) for _ in x)
    result = tuple(before + dim + after for dim, (before, after) in zip(x, paddings, strict=True))
    op = ops.Pad(inputs=("x",), outputs=("y",), origin=ORIGIN, paddings=paddings, value=int(rng.integers(-128, 128)))
    return one_op(op, act("x", x, q), act("y", result, q))


def reshape(rng: Rng) -> Graph:
    x, q = shape(rng, int(rng.integers(1, 5))), quant(rng)
    result = (x[0], int(np.prod(x[1:]))) if rng.integers(2) else (1, *x)
    return one_op(ops.Reshape(inputs=("x",), outputs=("y",), origin=ORIGIN), act("x", x, q), act("y", result, q))


def softmax(rng: Rng) -> Graph:
    x = (*shape(rng, int(rng.integers(1, 3))), int(rng.integers(1, 40)))
    op = ops.Softmax(inputs=("x",), outputs=("y",), origin=ORIGIN)
    return one_op(op, act("x", x, quant(rng)), act("y", x, SOFTMAX_QUANT))


def transpose(rng: Rng) -> Graph:
    x, q = shape(rng, int(rng.integers(1, 5))), quant(rng)
    perm = tuple(int(p) for p in rng.permutation(len(x)))
    op = ops.Transpose(inputs=("x",), outputs=("y",), origin=ORIGIN, perm=perm)
    return one_op(op, act("x", x, q), act("y", tuple(x[p] for p in perm), q))


def concat(rng: Rng) -> Graph:
    x, q = shape(rng, int(rng.integers(1, 5))), quant(rng)
    axis = int(rng.integers(len(x)))
    parts = [(*x[:axis], int(rng.integers(1, 5)), *x[axis + 1 :]) for _ in range(int(rng.integers(1, 4)))]
    names = tuple(f"x{i}" for i in range(len(parts)))
    result = (*x[:axis], sum(part[axis] for part in parts), *x[axis + 1 :])
    op = ops.Concat(inputs=names, outputs=("y",), origin=ORIGIN, axis=axis)
    return one_op(op, *(act(n, part, q) for n, part in zip(names, parts, strict=True)), act("y", result, q))


def slice_(rng: Rng) -> Graph:
    x, q = shape(rng, int(rng.integers(1, 5))), quant(rng)
    begin = tuple(int(rng.integers(dim)) for dim in x)
    result = tuple(int(rng.integers(1, dim - b + 1)) for dim, b in zip(x, begin, strict=True))
    op = ops.Slice(inputs=("x",), outputs=("y",), origin=ORIGIN, begin=begin)
    return one_op(op, act("x", x, q), act("y", result, q))


def elementwise(make_op: Callable[[], ops.Op]) -> Callable[[Rng], Graph]:
    def make(rng: Rng) -> Graph:
        x = shape(rng, int(rng.integers(1, 5)))
        return one_op(make_op(), act("x", x, quant(rng)), act("y", x, quant(rng)))

    return make


def unary(function: ops.Function) -> Callable[[Rng], Graph]:
    return elementwise(lambda: ops.Unary(inputs=("x",), outputs=("y",), origin=ORIGIN, function=function))


def of_positive(function: ops.Function) -> Callable[[Rng], Graph]:
    """Functions that LiteRT computes of positive numbers only: the zero point is below all stored values."""

    def make(rng: Rng) -> Graph:
        graph = unary(function)(rng)
        x = act("x", graph.type("x").shape, Quant(graph.type("x").q.scales, (-128,)))
        shifted = ops.Maximum(inputs=("x", "one"), outputs=("p",), origin=ORIGIN)
        one = const("one", np.full((1,), -127, np.int8), x.type.q)
        op = replace(graph.ops[0], inputs=("p",), origin=(1,))
        p = act("p", x.type.shape, x.type.q)
        return Graph("case", (x, one, p, graph.tensor("y")), ("x",), ("y",), (shifted, op))

    return make


def logistic(rng: Rng) -> Graph:
    """LiteRT takes one output quantization only."""
    graph = unary(ops.Function.LOGISTIC)(rng)
    return one_op(graph.ops[0], graph.tensor("x"), act("y", graph.type("y").shape, SOFTMAX_QUANT))


CASES: Mapping[str, Callable[[Rng], Graph]] = {
    "ADD": binary(ops.Add, 0.1),
    "ABS": unary(ops.Function.ABS),
    "AVERAGE_POOL_2D": pool(ops.AveragePool2D),
    "BATCH_MATMUL": batch_matmul,
    "CONCATENATION": concat,
    "CONV_2D": conv_2d,
    "DEPTHWISE_CONV_2D": depthwise_conv_2d,
    "FULLY_CONNECTED": fully_connected,
    "EXP": unary(ops.Function.EXP),
    "HARD_SWISH": unary(ops.Function.HARD_SWISH),
    "LEAKY_RELU": elementwise(lambda: ops.LeakyRelu(inputs=("x",), outputs=("y",), origin=ORIGIN, alpha=f32(0.01))),
    "LOG": of_positive(ops.Function.LOG),
    "LOGISTIC": logistic,
    "MAXIMUM": extremum(ops.Maximum),
    "MAX_POOL_2D": pool(ops.MaxPool2D),
    "MEAN": reduction(ops.Mean, 0.02),
    "MINIMUM": extremum(ops.Minimum),
    "MIRROR_PAD": mirror_pad,
    "MUL": binary(ops.Mul, 0.2),
    "PADV2": pad,
    "PRELU": prelu,
    "QUANTIZE": elementwise(lambda: ops.Quantize(inputs=("x",), outputs=("y",), origin=ORIGIN)),
    "REDUCE_MAX": reduction(ops.ReduceMax, 0.05),
    "REDUCE_MIN": reduction(ops.ReduceMin, 0.05),
    "RELU": unary(ops.Function.RELU),
    "RELU6": unary(ops.Function.RELU6),
    "RELU_0_TO_1": unary(ops.Function.RELU_0_TO_1),
    "RELU_N1_TO_1": unary(ops.Function.RELU_N1_TO_1),
    "RESHAPE": reshape,
    "RESIZE_BILINEAR": resize(ops.ResizeBilinear),
    "RESIZE_NEAREST_NEIGHBOR": resize(ops.ResizeNearest),
    "RSQRT": of_positive(ops.Function.RSQRT),
    "SLICE": slice_,
    "SOFTMAX": softmax,
    "SUB": binary(ops.Sub, 0.1),
    "SUM": reduction(ops.Sum, 0.5),
    "TANH": unary(ops.Function.TANH),
    "TRANSPOSE": transpose,
    "TRANSPOSE_CONV": transpose_conv,
    "DeuteronTable": elementwise(lambda: ops.Lookup(inputs=("x",), outputs=("y",), origin=ORIGIN, entries=ENTRIES)),
}
