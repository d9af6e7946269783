"""Random models of one TFLite operator each: `MODELS[name](rng)`."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deuteron.tflite.cortex_m.operator_view import NUMPY
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

Rng = np.random.Generator
Shape = tuple[int, ...]
Array = npt.NDArray[np.generic]
Make = Callable[[Rng], FlatModel]

ACTIVATIONS = (0, 1, 2, 3)
QUANTIZED = ("INT8", "UINT8", "INT16")


def f32(value: float) -> float:
    return float(np.float32(value))


def zero_point(rng: Rng, dtype: str) -> int:
    if dtype == "INT16":
        return 0
    low, high = (0, 255) if dtype == "UINT8" else (-128, 127)
    return int(rng.choice([low, high, int(rng.integers(low, high + 1)), int(rng.integers(low, high + 1))]))


def quant(rng: Rng, dtype: str, around: float = 0.05) -> Quant:
    scale = around * rng.uniform(0.5, 2.0) / (256 if dtype == "INT16" else 1)
    return Quant((f32(scale),), (zero_point(rng, dtype),))


def shape(rng: Rng, rank: int, largest: int = 6) -> Shape:
    return tuple(int(d) for d in rng.integers(1, largest + 1, rank))


def tensor(name: str, dims: Sequence[int], dtype: str = "INT8", q: Quant | None = None) -> FlatTensor:
    return FlatTensor(name, tuple(dims), dtype, q)


def constant(name: str, values: npt.ArrayLike, dtype: str = "INT32", q: Quant | None = None) -> FlatTensor:
    array = np.asarray(values, NUMPY[dtype])
    return FlatTensor(name, array.shape, dtype, q, array.tobytes())


def model(
    name: str,
    inputs: Sequence[FlatTensor | None],
    outputs: Sequence[FlatTensor],
    kind: str = "",
    options: Mapping[str, int | float] | None = None,
) -> FlatModel:
    """A model of one operator; its inputs are those operands that are no constants. None at the end is left out."""
    while inputs[-1] is None and name != "FULLY_CONNECTED":
        inputs = inputs[:-1]
    present = [t for t in inputs if t is not None]
    tensors = (*present, *outputs)
    places = {id(t): i for i, t in enumerate(tensors)}
    operands = tuple(-1 if t is None else places[id(t)] for t in inputs)
    results = tuple(range(len(present), len(tensors)))
    fed = tuple(i for i, t in enumerate(present) if t.data is None)
    version = 2 if name == "BROADCAST_TO" else 1  # the first one is not taken any more
    op = FlatOperator(name, operands, results, kind, dict(options or {}), version=version)
    return FlatModel("m", tensors, fed, results, (op,))


def _weights(
    rng: Rng,
    dtype: str,
    x: Quant,
    dims: Shape,
    axis: int,
    *,
    products: int,
    symmetric: bool = True,
    biased: bool = False,
) -> tuple[FlatTensor, FlatTensor | None, Quant]:
    """Weights, a bias, which may be missing, and the quantization of a result."""
    channels = dims[axis]
    count = channels if rng.integers(3) and channels > 1 and dtype != "UINT8" else 1
    scales = tuple(f32(0.01 * rng.uniform(0.3, 3.0)) for _ in range(count))
    zero = 0 if symmetric or count > 1 or dtype == "INT16" or rng.integers(3) else int(rng.integers(-20, 21))
    q = Quant(scales, (zero,) * count, axis if count > 1 else None)
    w = constant("w", rng.integers(-128 if count == 1 else -127, 128, dims), "INT8", q)
    if dtype == "UINT8":
        q = Quant(scales, (int(rng.choice([0, 255, 128, int(rng.integers(256))])),))
        w = constant("w", rng.integers(rng.integers(1, 100), 256, dims), "UINT8", q)
    wide = "INT64" if dtype == "INT16" and rng.integers(4) else "INT32"
    most = 40000 if dtype == "INT16" else 4000
    bias_scales = tuple(f32(x.scales[0] * s) for s in scales)
    bias_quant = Quant(bias_scales, (0,) * count, 0 if count > 1 else None)
    bias = constant("b", rng.integers(-most, most + 1, channels), wide, bias_quant)
    bias = bias if biased or rng.integers(4) else None
    reach = x.scales[0] * max(scales) * (30000 if dtype == "INT16" else 60) * math.sqrt(products)
    return w, bias, quant(rng, dtype, reach if dtype != "INT16" else reach / 20000 * 256)


def _bias_type(dtype: str, bias: FlatTensor | None) -> int:
    """Options of an int16 layer: INT32, or none, which is INT64."""
    return 2 if dtype == "INT16" and bias is not None and bias.dtype == "INT32" else 0


def _window(rng: Rng, size: int, kernel: int, dilation: int, padding: int) -> tuple[int, int]:
    """A stride, and the output's size."""
    stride = int(rng.integers(1, 4))
    reach = (kernel - 1) * dilation + 1
    return stride, -(-size // stride) if padding == 0 else (size - reach) // stride + 1


def maps(rng: Rng, kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[Shape, int, list[tuple[int, int]]]:
    """A map's batches, rows and columns, the padding, and strides and sizes of the output."""
    n, h, w = int(rng.integers(1, 3)), int(rng.integers(1, 12)), int(rng.integers(1, 12))
    fits = all((k - 1) * d < s for k, d, s in zip(kernel, dilation, (h, w), strict=True))
    padding = int(rng.integers(2)) if fits else 0
    return (
        (n, h, w),
        padding,
        [_window(rng, s, k, d, padding) for s, k, d in zip((h, w), kernel, dilation, strict=True)],
    )


def convolution(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        kernel, dilation = (int(rng.integers(1, 5)), int(rng.integers(1, 5))), (int(rng.integers(1, 3)),) * 2
        if rng.integers(3) == 0:
            kernel = (1, kernel[1])
        (n, h, w), padding, ((stride_h, oh), (stride_w, ow)) = maps(rng, kernel, dilation)
        groups = int(rng.choice([1, 1, 1, 2]))
        in_c, out_c = groups * int(rng.integers(1, 6)), groups * int(rng.integers(1, 6))
        x = quant(rng, dtype)
        dims = (out_c, *kernel, in_c // groups)
        weights, bias, y = _weights(rng, dtype, x, dims, 0, products=math.prod(dims[1:]), biased=True)
        options = {
            "Padding": padding, "StrideH": stride_h, "StrideW": stride_w, "DilationHFactor": dilation[0],
            "DilationWFactor": dilation[1], "FusedActivationFunction": int(rng.choice(ACTIVATIONS)),
            "QuantizedBiasType": _bias_type(dtype, bias),
        }  # fmt: skip
        operands = [tensor("x", (n, h, w, in_c), dtype, x), weights, bias]
        return model("CONV_2D", operands, [tensor("y", (n, oh, ow, out_c), dtype, y)], "Conv2DOptions", options)

    return make


def depthwise(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        kernel, dilation = (int(rng.integers(1, 5)), int(rng.integers(1, 5))), (int(rng.integers(1, 3)),) * 2
        (n, h, w), padding, ((stride_h, oh), (stride_w, ow)) = maps(rng, kernel, dilation)
        in_c, multiplier = int(rng.integers(1, 9)), int(rng.integers(1, 4))
        x = quant(rng, dtype)
        dims = (1, *kernel, in_c * multiplier)
        weights, bias, y = _weights(rng, dtype, x, dims, 3, products=kernel[0] * kernel[1])
        if dtype == "INT16":
            values = np.zeros(dims[3]) if bias is None else np.frombuffer(bias.data or b"", NUMPY[bias.dtype])
            scale = f32(x.scales[0] * (weights.quant or x).scales[0])
            bias = constant("b", values, "INT64", Quant((scale,), (0,)) if bias is None else bias.quant)
        options = {
            "Padding": padding, "StrideH": stride_h, "StrideW": stride_w, "DilationHFactor": dilation[0],
            "DilationWFactor": dilation[1], "FusedActivationFunction": int(rng.choice(ACTIVATIONS)),
            "DepthMultiplier": multiplier,
        }  # fmt: skip
        operands = [tensor("x", (n, h, w, in_c), dtype, x), weights, bias]
        result = [tensor("y", (n, oh, ow, dims[3]), dtype, y)]
        return model("DEPTHWISE_CONV_2D", operands, result, "DepthwiseConv2DOptions", options)

    return make


def transposed(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        kernel, padding = (int(rng.integers(1, 5)), int(rng.integers(1, 5))), int(rng.integers(2))
        stride = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        n, h, w, in_c = (int(v) for v in rng.integers(1, 6, 4))
        out_c, x = int(rng.integers(1, 6)), quant(rng, dtype)
        if padding == 0:
            out = tuple(s * d - int(rng.integers(0, min(s, 2))) for s, d in zip(stride, (h, w), strict=True))
        else:
            out = tuple((d - 1) * s + max(k, s) for s, d, k in zip(stride, (h, w), kernel, strict=True))
            kernel = tuple(max(k, s) for k, s in zip(kernel, stride, strict=True))
        if padding == 0:
            kernel = tuple(max(k, s) for k, s in zip(kernel, stride, strict=True))
        dims = (out_c, *kernel, in_c)
        weights, bias, y = _weights(rng, dtype, x, dims, 0, products=math.prod(dims[1:]))
        options = {
            "Padding": padding, "StrideH": stride[0], "StrideW": stride[1],
            "FusedActivationFunction": int(rng.choice(ACTIVATIONS)), "QuantizedBiasType": _bias_type(dtype, bias),
        }  # fmt: skip
        result = (n, *out, out_c)
        operands = [constant("shape", result), weights, tensor("x", (n, h, w, in_c), dtype, x)]
        operands += [] if bias is None else [bias]
        return model("TRANSPOSE_CONV", operands, [tensor("y", result, dtype, y)], "TransposeConvOptions", options)

    return make


def fully_connected(dtype: str, depth: int = 0) -> Make:
    def make(rng: Rng) -> FlatModel:
        lead, out = shape(rng, int(rng.integers(1, 4)), 4), int(rng.integers(1, 12))
        inputs = depth or int(rng.integers(1, 70))
        x = quant(rng, dtype)
        weights, bias, y = _weights(rng, dtype, x, (out, inputs), 0, products=inputs, symmetric=False)
        keeps = int(rng.integers(2))
        options = {
            "FusedActivationFunction": int(rng.choice(ACTIVATIONS)), "WeightsFormat": 0, "KeepNumDims": keeps,
            "QuantizedBiasType": _bias_type(dtype, bias),
        }  # fmt: skip
        result = (*lead, out) if keeps else (math.prod(lead), out)
        operands = [tensor("x", (*lead, inputs), dtype, x), weights, bias]
        return model("FULLY_CONNECTED", operands, [tensor("y", result, dtype, y)], "FullyConnectedOptions", options)

    return make


def pair_shapes(rng: Rng) -> tuple[Shape, Shape, Shape]:
    """Two shapes that repeat along each other, and that of the result."""
    out = shape(rng, int(rng.integers(1, 6)), 5)
    kind = int(rng.integers(4))
    a, b = out, out
    if kind == 1:
        b = tuple(int(d) if rng.integers(3) else 1 for d in out)[int(rng.integers(len(out))) :]
    elif kind == 2:
        a = tuple(int(d) if rng.integers(2) else 1 for d in out)
        b = tuple(d if rng.integers(2) or a[i] == 1 else 1 for i, d in enumerate(out))
    elif kind == 3:
        a = out[int(rng.integers(len(out))) :] if rng.integers(2) else ()
    return a, b, np.broadcast_shapes(a, b)


def binary(name: str, kind: str, dtype: str, result: float, *, activations: bool = True) -> Make:
    def make(rng: Rng) -> FlatModel:
        a, b, out = pair_shapes(rng)
        options: dict[str, int | float] = {}
        if activations:
            options["FusedActivationFunction"] = int(rng.choice(ACTIVATIONS))
        if kind in ("AddOptions", "SubOptions"):
            options["PotScaleInt16"] = 0
        if dtype == "FLOAT32":
            operands = [tensor("a", a, dtype), tensor("b", b, dtype)]
            return model(name, operands, [tensor("y", out, dtype)], kind, options)
        spread = 10.0 ** rng.uniform(-1, 1) if rng.integers(2) else 1.0
        operands = [tensor("a", a, dtype, quant(rng, dtype, 0.05 * spread)), tensor("b", b, dtype, quant(rng, dtype))]
        y = quant(
            rng,
            dtype,
            result
            * spread
            / (256 if dtype == "INT16" and name == "MUL" else 1)
            * (256 if dtype == "INT16" and name == "MUL" else 1),
        )
        return model(name, operands, [tensor("y", out, dtype, y)], kind, options)

    return make


def alike(name: str, kind: str, dtype: str) -> Make:
    """MINIMUM and MAXIMUM, whose tensors share one quantization."""

    def make(rng: Rng) -> FlatModel:
        a, b, out = pair_shapes(rng)
        q = quant(rng, dtype)
        return model(name, [tensor("a", a, dtype, q), tensor("b", b, dtype, q)], [tensor("y", out, dtype, q)], kind)

    return make


def prelu(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, 4)
        alpha = (1, 1, dims[3]) if rng.integers(2) else dims[1:]
        slopes = "INT8" if dtype == "INT16" else dtype
        limits = np.iinfo(NUMPY[slopes])
        values = rng.integers(limits.min, limits.max + 1, alpha)
        operands = [
            tensor("x", dims, dtype, quant(rng, dtype)), constant("alpha", values, slopes, quant(rng, slopes, 0.01)),
        ]  # fmt: skip
        return model("PRELU", operands, [tensor("y", dims, dtype, quant(rng, dtype))])

    return make


def unary(
    name: str,
    dtype: str = "INT8",
    *,
    kind: str = "",
    options: Callable[[Rng], dict[str, int | float]] | None = None,
    x: float = 0.05,
    y: float = 0.05,
    fixed: Quant | None = None,
    positive: bool = False,
) -> Make:
    """A function of one tensor."""

    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 5)))
        given = quant(rng, dtype, x)
        if positive:
            given = Quant(given.scales, (-128,))
        out = fixed or quant(rng, dtype, y)
        return model(
            name,
            [tensor("x", dims, dtype, given)],
            [tensor("y", dims, dtype, out)],
            kind,
            options(rng) if options else {},
        )

    return make


def pool(name: str, dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        kernel = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        (n, h, w), padding, ((stride_h, oh), (stride_w, ow)) = maps(rng, kernel, (1, 1))
        channels, q = int(rng.integers(1, 9)), quant(rng, dtype)
        options = {
            "Padding": padding, "StrideH": stride_h, "StrideW": stride_w, "FilterHeight": kernel[0],
            "FilterWidth": kernel[1], "FusedActivationFunction": int(rng.choice(ACTIVATIONS)),
        }  # fmt: skip
        x, y = tensor("x", (n, h, w, channels), dtype, q), tensor("y", (n, oh, ow, channels), dtype, q)
        return model(name, [x], [y], "Pool2DOptions", options)

    return make


def reduction(name: str, dtype: str, *, same: bool = False) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 6)), 7)
        axes = sorted({int(a) for a in rng.integers(0, len(dims), int(rng.integers(1, 4)))})
        keeps = int(rng.integers(2))
        out = tuple(1 if i in axes else d for i, d in enumerate(dims) if keeps or i not in axes)
        q = quant(rng, dtype) if dtype in QUANTIZED else None
        y = q if same or q is None else quant(rng, dtype, 0.05)
        signed = [a - len(dims) if rng.integers(2) else a for a in axes]
        operands = [tensor("x", dims, dtype, q), constant("axes", signed)]
        return model(name, operands, [tensor("y", out, dtype, y)], "ReducerOptions", {"KeepDims": keeps})

    return make


def softmax(dtype: str, result: Quant) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 5)), 12)
        x = tensor("x", dims, dtype, Quant((f32(10.0 ** rng.uniform(-3, 1)),), (zero_point(rng, dtype),)))
        beta = float(rng.choice([1.0, 0.5, 2.0]))
        return model("SOFTMAX", [x], [tensor("y", dims, dtype, result)], "SoftmaxOptions", {"Beta": beta})

    return make


def resize(name: str, dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        n, h, w, c = (int(v) for v in rng.integers(1, 7, 4))
        size = (h * int(rng.integers(1, 4)), w * int(rng.integers(1, 4)))
        if rng.integers(2):
            size = tuple(int(v) for v in rng.integers(1, 20, 2))
        mode = int(rng.integers(3))
        q = quant(rng, dtype) if dtype in QUANTIZED else None
        operands = [tensor("x", (n, h, w, c), dtype, q), constant("size", size)]
        kind = {"RESIZE_BILINEAR": "ResizeBilinearOptions", "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions"}
        options = {"AlignCorners": int(mode == 1), "HalfPixelCenters": int(mode == 2)}
        return model(name, operands, [tensor("y", (n, *size, c), dtype, q)], kind[name], options)

    return make


def conversion(source: str, target: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 5)))
        x = tensor("x", dims, source, None if source == "FLOAT32" else quant(rng, source, 10.0 ** rng.uniform(-3, 0)))
        y = tensor("y", dims, target, None if target == "FLOAT32" else quant(rng, target, 10.0 ** rng.uniform(-3, 0)))
        name = "DEQUANTIZE" if target == "FLOAT32" else "QUANTIZE"
        return model(name, [x], [y], f"{name.title()}Options")

    return make


MODELS: Mapping[str, Make] = {
    **{f"conv_2d-{t}": convolution(t) for t in ("INT8", "INT16", "UINT8")},
    **{f"depthwise_conv_2d-{t}": depthwise(t) for t in ("INT8", "INT16", "UINT8")},
    **{f"transpose_conv-{t}": transposed(t) for t in ("INT8", "INT16", "UINT8")},
    **{f"fully_connected-{t}": fully_connected(t) for t in ("INT8", "INT16", "UINT8")},
    **{f"add-{t}": binary("ADD", "AddOptions", t, 0.08) for t in ("INT8", "INT16", "UINT8", "FLOAT32")},
    **{f"sub-{t}": binary("SUB", "SubOptions", t, 0.08) for t in ("INT8", "INT16", "UINT8", "FLOAT32")},
    **{f"mul-{t}": binary("MUL", "MulOptions", t, 0.3) for t in ("INT8", "INT16", "UINT8", "FLOAT32")},
    "squared_difference-INT8": binary("SQUARED_DIFFERENCE", "", "INT8", 0.3, activations=False),
    **{f"maximum-{t}": alike("MAXIMUM", "MaximumMinimumOptions", t) for t in ("INT8", "INT16")},
    **{f"minimum-{t}": alike("MINIMUM", "MaximumMinimumOptions", t) for t in ("INT8", "INT16")},
    **{f"prelu-{t}": prelu(t) for t in ("INT8",)},
    "logistic-INT8": unary("LOGISTIC", fixed=Quant((1 / 256,), (-128,))),
    "tanh-INT8": unary("TANH", fixed=Quant((1 / 128,), (0,)), x=0.03),
    "elu-INT8": unary("ELU"),
    "exp-INT8": unary("EXP", x=0.02),
    "gelu-INT8": unary("GELU", kind="GeluOptions", options=lambda rng: {"Approximate": int(rng.integers(2))}),
    "hard_swish-INT8": unary("HARD_SWISH"),
    "leaky_relu-INT8": unary(
        "LEAKY_RELU", kind="LeakyReluOptions", options=lambda rng: {"Alpha": f32(rng.uniform(-0.2, 1.5))}
    ),
    **{f"relu-{t}": unary("RELU", t) for t in ("INT8", "INT16")},
    **{f"relu6-{t}": unary("RELU6", t) for t in ("INT8", "INT16")},
    "relu_n1_to_1-INT8": unary("RELU_N1_TO_1", y=0.01),
    "relu_0_to_1-INT8": unary("RELU_0_TO_1", y=0.01),
    "abs-INT8": unary("ABS"),
    "log-INT8": unary("LOG", y=0.02),
    "sqrt-INT8": unary("SQRT", positive=True),
    "rsqrt-INT8": unary("RSQRT", positive=True),
    **{f"average_pool_2d-{t}": pool("AVERAGE_POOL_2D", t) for t in ("INT8", "INT16", "UINT8")},
    **{f"max_pool_2d-{t}": pool("MAX_POOL_2D", t) for t in ("INT8", "INT16", "UINT8")},
    **{f"mean-{t}": reduction("MEAN", t) for t in ("INT8", "INT16")},
    **{f"sum-{t}": reduction("SUM", t) for t in ("INT8", "INT16")},
    **{f"reduce_max-{t}": reduction("REDUCE_MAX", t, same=True) for t in ("INT8", "INT16")},
    **{f"reduce_min-{t}": reduction("REDUCE_MIN", t, same=True) for t in ("INT8", "INT16")},
    "softmax-INT8": softmax("INT8", Quant((1 / 256,), (-128,))),
    "softmax-UINT8": softmax("UINT8", Quant((1 / 256,), (0,))),
    "logistic-UINT8": unary("LOGISTIC", "UINT8", fixed=Quant((1 / 256,), (0,))),
    "tanh-UINT8": unary("TANH", "UINT8", x=0.03, fixed=Quant((1 / 128,), (128,))),
    "relu-UINT8": unary("RELU", "UINT8"),
    "hard_swish-UINT8": unary("HARD_SWISH", "UINT8"),
    "mean-UINT8": reduction("MEAN", "UINT8"),
    **{f"resize_bilinear-{t}": resize("RESIZE_BILINEAR", t) for t in ("INT8", "INT16")},
    **{
        f"quantize-{s}-{t}": conversion(s, t)
        for s, t in (
            ("FLOAT32", "INT8"), ("FLOAT32", "UINT8"), ("FLOAT32", "INT16"), ("INT8", "INT8"), ("INT8", "UINT8"),
            ("UINT8", "INT8"), ("INT8", "INT16"), ("INT16", "INT8"), ("INT16", "INT16"), ("INT16", "INT32"),
        )
    },
    **{f"dequantize-{t}": conversion(t, "FLOAT32") for t in ("INT8", "UINT8", "INT16")},
}  # fmt: skip
"""A generator per operator and type."""
