"""Random TFLite graphs of int8 images, whose operators read each other directly, as in networks.

Compilers merge such operators: slices and joins into what reads or writes them, functions into layers.
"""

from collections.abc import Callable, Mapping

import numpy as np
from tests.tflite.cortex_m.models import Rng, Shape, constant, f32, tensor

from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

Q = Quant((f32(0.05),), (3,))
_SAME, _VALID = 0, 1
_LARGEST = 4000
"""Elements of a tensor."""


class Images:
    """A graph being made; `values` are its tensors that may be read."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.tensors: list[FlatTensor] = []
        self.operators: list[FlatOperator] = []
        self.inputs: list[int] = []
        self.values: list[int] = []

    def given(self, shape: Shape) -> int:
        """Return a new input."""
        self.inputs.append(self._added(tensor("", shape, "INT8", Q)))
        self.values.append(self.inputs[-1])
        return self.inputs[-1]

    def constant(self, values: object, dtype: str = "INT32", q: Quant | None = None) -> int:
        return self._added(constant("", values, dtype, q))  # pyright: ignore[reportArgumentType]

    def shape(self, index: int) -> Shape:
        return self.tensors[index].shape

    def apply(
        self,
        name: str,
        operands: tuple[int, ...],
        *shapes: Shape,
        kind: str = "",
        q: Quant | None = None,
        **options: float,
    ) -> None:
        """Add an operator with results of these shapes, whose quantization is by default the first operand's."""
        stored = [self.tensors[i].quant for i in operands if self.tensors[i].dtype == "INT8"]
        made = tuple(self._added(tensor("", shape, "INT8", q or stored[0])) for shape in shapes)
        has_options = name not in ("LOGISTIC", "RELU")
        kind = kind or (f"{_title(name)}Options" if has_options else "")
        self.operators.append(FlatOperator(name, operands, made, kind, options))
        self.values += made

    def _added(self, one: FlatTensor) -> int:
        self.tensors.append(FlatTensor(f"t{len(self.tensors)}", one.shape, one.dtype, one.quant, one.data))
        return len(self.tensors) - 1

    def like(self, shape: Shape) -> int:
        """Return a tensor of this shape: one that there is, or a new input."""
        found = [i for i in self.values if self.shape(i) == shape]
        return int(self.rng.choice(found)) if found and self.rng.integers(3) else self.given(shape)


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _window(sizes: tuple[int, int], kernel: int, stride: int, padding: int) -> tuple[int, int]:
    covered = 1 if padding == _SAME else kernel
    return (sizes[0] - covered) // stride + 1, (sizes[1] - covered) // stride + 1


def _layer(g: Images, x: int, kernel: int, stride: int, channels: int, multiplier: int = 0) -> None:
    n, h, w, c = g.shape(x)
    padding = _VALID if min(h, w) >= kernel and g.rng.integers(2) else _SAME
    rows, columns = _window((h, w), kernel, stride, padding)
    outputs = c * multiplier if multiplier else channels
    dims = (1, kernel, kernel, outputs) if multiplier else (outputs, kernel, kernel, c)
    axis = 3 if multiplier else 0
    scales = tuple(f32(s) for s in g.rng.uniform(0.002, 0.02, outputs))
    zeros = (0,) * outputs
    weights = g.constant(g.rng.integers(-127, 128, dims), "INT8", Quant(scales, zeros, axis))
    given = g.tensors[x].quant or Q
    biases = Quant(tuple(f32(s * np.float32(given.scale)) for s in scales), zeros, 0)
    bias = g.constant(g.rng.integers(-2000, 2000, outputs), "INT32", biases)
    steps = {"StrideW": stride, "StrideH": stride, "DilationWFactor": 1, "DilationHFactor": 1}
    common = {"Padding": padding, "FusedActivationFunction": int(g.rng.choice([0, 1, 3])), **steps}
    if multiplier:
        kind = "DepthwiseConv2DOptions"
        g.apply(
            "DEPTHWISE_CONV_2D", (x, weights, bias), (n, rows, columns, outputs), kind=kind,
            DepthMultiplier=multiplier, q=Q, **common,
        )  # fmt: skip
    else:
        g.apply("CONV_2D", (x, weights, bias), (n, rows, columns, outputs), kind="Conv2DOptions", q=Q, **common)


def _pool(g: Images, x: int, name: str) -> None:
    n, h, w, c = g.shape(x)
    kernel, stride = int(g.rng.integers(1, 4)), int(g.rng.integers(1, 3))
    padding = _VALID if min(h, w) >= kernel and g.rng.integers(2) else _SAME
    size = {"FilterWidth": kernel, "FilterHeight": kernel, "StrideW": stride, "StrideH": stride, "Padding": padding}
    g.apply(name, (x,), (n, *_window((h, w), kernel, stride, padding), c), kind="Pool2DOptions", **size)


def _reshape(g: Images, x: int) -> None:
    n, h, w, c = g.shape(x)
    shapes = [(n, h * w, 1, c), (n, 1, h * w, c), (n, w, h, c), (n, h, 1, w * c), (1, n * h, w, c), (n, h, c, w)]
    shape = shapes[g.rng.integers(len(shapes))]
    g.apply("RESHAPE", (x, g.constant(shape)), shape)


def _transpose(g: Images, x: int) -> None:
    order = g.rng.permutation(4)
    g.apply("TRANSPOSE", (x, g.constant(order)), tuple(g.shape(x)[i] for i in order))


def _pad(g: Images, x: int, name: str) -> None:
    most = [min(2, size - 1) if name == "MIRROR_PAD" else 2 for size in g.shape(x)]
    pads = [
        [0, 0] if axis in (0, 3) and g.rng.integers(2) else [*g.rng.integers(0, m + 1, 2)]
        for axis, m in enumerate(most)
    ]
    shape = tuple(int(size + sum(pad)) for size, pad in zip(g.shape(x), pads, strict=True))
    options = {"Mode": int(g.rng.integers(2))} if name == "MIRROR_PAD" else {}
    if options.get("Mode") == 1 or name == "PAD" or all(max(p) < s for p, s in zip(pads, g.shape(x), strict=True)):
        g.apply(name, (x, g.constant(np.array(pads, np.int32))), shape, **options)


def _slice(g: Images, x: int) -> None:
    begin = [int(g.rng.integers(0, (size + 1) // 2)) for size in g.shape(x)]
    sizes = tuple(int(g.rng.integers(1, size - b + 1)) for size, b in zip(g.shape(x), begin, strict=True))
    g.apply("SLICE", (x, g.constant(begin), g.constant(sizes)), sizes)


def _strided_slice(g: Images, x: int) -> None:
    begin = [int(g.rng.integers(0, (size + 1) // 2)) for size in g.shape(x)]
    steps = [1, *g.rng.integers(1, 3, 2), 1]
    shape = tuple(int(-(-(size - b) // step)) for size, b, step in zip(g.shape(x), begin, steps, strict=True))
    operands = (x, g.constant(begin), g.constant(g.shape(x)), g.constant(steps))
    g.apply("STRIDED_SLICE", operands, shape)


def _split(g: Images, x: int) -> None:
    for axis in g.rng.permutation(4):
        size = g.shape(x)[axis]
        if size % 2 == 0:
            half = tuple(s // 2 if i == axis else s for i, s in enumerate(g.shape(x)))
            g.apply("SPLIT", (g.constant(int(axis)), x), half, half, NumSplits=2)
            return


def _resize(g: Images, x: int, name: str) -> None:
    n, h, w, c = g.shape(x)
    size = [(2 * h, 2 * w), (h + 1, w + 2), (2 * h - 1, 2 * w - 1), (4 * h, 4 * w)][g.rng.integers(4)]
    mode = [{}, {"HalfPixelCenters": 1}, {"AlignCorners": 1}][g.rng.integers(3)]
    g.apply(name, (x, g.constant(size)), (n, *size, c), **mode)


def _mean(g: Images, x: int, name: str) -> None:
    axes = [[1, 2], [1], [2], [3]][g.rng.integers(4)]
    shape = tuple(1 if i in axes else size for i, size in enumerate(g.shape(x)))
    g.apply(name, (x, g.constant(axes)), shape, kind="ReducerOptions", KeepDims=1)


def _binary(g: Images, x: int, name: str) -> None:
    shape = g.shape(x)
    kind = g.rng.integers(3)
    other = (
        g.like(shape)
        if kind == 0
        else g.constant(g.rng.integers(-128, 128, (1, 1, 1, shape[3]) if kind == 1 else (1,)), "INT8", Q)
    )
    g.apply(name, (x, other), shape, q=Q, FusedActivationFunction=int(g.rng.integers(2)))


def _concatenation(g: Images, x: int) -> None:
    axis = int(g.rng.integers(1, 4))
    wanted = _but(g.shape(x), axis), g.tensors[x].quant
    others = [i for i in g.values if (_but(g.shape(i), axis), g.tensors[i].quant) == wanted]
    other = int(g.rng.choice(others))
    shape = [*g.shape(x)]
    shape[axis] += g.shape(other)[axis]
    pair = (x, other) if g.rng.integers(2) else (other, x)
    g.apply("CONCATENATION", pair, tuple(shape), Axis=axis, FusedActivationFunction=0)


def _but(shape: Shape, axis: int) -> Shape:
    return shape[:axis] + shape[axis + 1 :]


def _product(g: Images, x: int) -> None:
    n, h, w, c = g.shape(x)
    is_transposed = bool(g.rng.integers(2))
    other = g.like((n, h, int(g.rng.integers(1, 6)), c) if is_transposed else (n, h, c, int(g.rng.integers(1, 6))))
    columns = g.shape(other)[2 if is_transposed else 3]
    g.apply("BATCH_MATMUL", (x, other), (n, h, w, columns), kind="BatchMatMulOptions", q=Q, AdjY=int(is_transposed))


def _function(g: Images, x: int, name: str, **options: float) -> None:
    q = Quant((f32(1 / 256),), (-128,)) if name in ("LOGISTIC", "SOFTMAX") else Q
    g.apply(name, (x,), g.shape(x), q=q, **options)


KINDS: Mapping[str, Callable[[Images, int], None]] = {
    "conv": lambda g, x: _layer(g, x, 3, 1, int(g.rng.integers(1, 9))),
    "conv_1x1": lambda g, x: _layer(g, x, 1, 1, int(g.rng.integers(1, 9))),
    "conv_stride": lambda g, x: _layer(g, x, 3, 2, int(g.rng.integers(1, 9))),
    "depthwise": lambda g, x: _layer(g, x, 3, 1, 0, 1),
    "depthwise_stride": lambda g, x: _layer(g, x, 3, 2, 0, 1),
    "depthwise_multiple": lambda g, x: _layer(g, x, 3, 1, 0, 2),
    "average_pool": lambda g, x: _pool(g, x, "AVERAGE_POOL_2D"),
    "max_pool": lambda g, x: _pool(g, x, "MAX_POOL_2D"),
    "reshape": _reshape,
    "transpose": _transpose,
    "pad": lambda g, x: _pad(g, x, "PAD"),
    "mirror_pad": lambda g, x: _pad(g, x, "MIRROR_PAD"),
    "slice": _slice,
    "strided_slice": _strided_slice,
    "split": _split,
    "nearest": lambda g, x: _resize(g, x, "RESIZE_NEAREST_NEIGHBOR"),
    "bilinear": lambda g, x: _resize(g, x, "RESIZE_BILINEAR"),
    "mean": lambda g, x: _mean(g, x, "MEAN"),
    "add": lambda g, x: _binary(g, x, "ADD"),
    "sub": lambda g, x: _binary(g, x, "SUB"),
    "mul": lambda g, x: _binary(g, x, "MUL"),
    "concatenation": _concatenation,
    "product": _product,
    "relu": lambda g, x: _function(g, x, "RELU"),
    "leaky_relu": lambda g, x: _function(g, x, "LEAKY_RELU", Alpha=0.1),
    "logistic": lambda g, x: _function(g, x, "LOGISTIC"),
    "hard_swish": lambda g, x: _function(g, x, "HARD_SWISH"),
    "abs": lambda g, x: _function(g, x, "ABS"),
    "softmax": lambda g, x: _function(g, x, "SOFTMAX", Beta=1.0),
}
"""Functions that apply an operator to a tensor, by the name of its kind."""


def image_graph(rng: Rng, count: int = 0) -> FlatModel:
    """Return a graph of so many operators, by default 2 to 5; its outputs are the tensors that none reads."""
    g = Images(rng)
    g.given(
        (int(rng.choice([1, 1, 1, 2])), *(int(size) for size in rng.integers(3, 9, 2)), int(rng.choice([2, 4, 6, 16])))
    )
    wanted = count or int(rng.integers(2, 6))
    names = [*KINDS]
    while len(g.operators) < wanted:
        latest = g.values[-2:] if rng.integers(3) else g.values
        x = int(rng.choice([i for i in latest if i not in g.inputs] or g.values))
        KINDS[names[rng.integers(len(names))]](g, x)
        if g.operators and max(np.prod(g.shape(i)) for i in g.operators[-1].outputs) > _LARGEST:
            for _ in g.operators.pop().outputs:
                g.values.pop()
    read = {i for op in g.operators for i in op.inputs}
    made = [i for op in g.operators for i in op.outputs]
    inputs = tuple(i for i in g.inputs if i in read)
    return FlatModel("images", tuple(g.tensors), inputs, tuple(i for i in made if i not in read), tuple(g.operators))
