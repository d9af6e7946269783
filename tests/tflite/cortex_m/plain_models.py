"""Random models of float32 and of plain whole numbers: `MODELS[name](rng)`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.tflite.cortex_m.models import (
    ACTIVATIONS,
    QUANTIZED,
    Make,
    Rng,
    constant,
    f32,
    maps,
    model,
    pair_shapes,
    quant,
    reduction,
    resize,
    shape,
    tensor,
    unary,
)
from tests.tflite.cortex_m.models import prelu as quantized_prelu
from tests.tflite.cortex_m.more_models import batch_matmul, real

from deuteron.tflite.flat_model import FlatModel, FlatTensor
from deuteron.tflite.quantization import Quant

PLAIN = ("FLOAT32", "INT32", "INT64")


def _activation(rng: Rng) -> int:
    return int(rng.choice(ACTIVATIONS))


def _layer(
    rng: Rng, name: str, x: FlatTensor, weights: Sequence[int], out: Sequence[int], options: Mapping[str, int]
) -> FlatModel:
    """A layer of float32 with random weights; half of them have a bias."""
    w = constant("w", rng.standard_normal(weights), "FLOAT32")
    bias = constant("b", rng.standard_normal(out[3]), "FLOAT32") if rng.integers(2) or name == "CONV_2D" else None
    operands = [x, w, bias]
    if name == "TRANSPOSE_CONV":
        operands = [constant("shape", out), w, x, *([] if bias is None else [bias])]
    kinds = {
        "CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
        "TRANSPOSE_CONV": "TransposeConvOptions",
    }  # fmt: skip
    return model(name, operands, [tensor("y", out, "FLOAT32")], kinds[name], options)


def convolution(name: str) -> Make:
    """CONV_2D and DEPTHWISE_CONV_2D."""

    def make(rng: Rng) -> FlatModel:
        kernel, dilation = (int(rng.integers(1, 5)), int(rng.integers(1, 5))), (int(rng.integers(1, 3)),) * 2
        (n, h, w), padding, ((stride_h, oh), (stride_w, ow)) = maps(rng, kernel, dilation)
        options = {
            "Padding": padding, "StrideH": stride_h, "StrideW": stride_w, "DilationHFactor": dilation[0],
            "DilationWFactor": dilation[1], "FusedActivationFunction": _activation(rng),
        }  # fmt: skip
        if name == "DEPTHWISE_CONV_2D":
            in_c, multiplier = int(rng.integers(1, 9)), int(rng.integers(1, 4))
            weights, out_c = (1, *kernel, in_c * multiplier), in_c * multiplier
            options["DepthMultiplier"] = multiplier
        else:
            groups = int(rng.choice([1, 1, 2]))
            in_c, out_c = groups * int(rng.integers(1, 6)), groups * int(rng.integers(1, 6))
            weights = (out_c, *kernel, in_c // groups)
        return _layer(rng, name, tensor("x", (n, h, w, in_c), "FLOAT32"), weights, (n, oh, ow, out_c), options)

    return make


def transposed(rng: Rng) -> FlatModel:
    stride, padding = (int(rng.integers(1, 4)), int(rng.integers(1, 4))), int(rng.integers(2))
    kernel = tuple(max(int(rng.integers(1, 5)), s) for s in stride)
    n, h, w, in_c = (int(v) for v in rng.integers(1, 6, 4))
    out = [d * s if padding == 0 else (d - 1) * s + k for s, d, k in zip(stride, (h, w), kernel, strict=True)]
    out_c = int(rng.integers(1, 6))
    options = {
        "Padding": padding, "StrideH": stride[0], "StrideW": stride[1], "FusedActivationFunction": _activation(rng),
    }  # fmt: skip
    x = tensor("x", (n, h, w, in_c), "FLOAT32")
    return _layer(rng, "TRANSPOSE_CONV", x, (out_c, *kernel, in_c), (n, *out, out_c), options)


def pool(name: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        kernel = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        (n, h, w), padding, ((stride_h, oh), (stride_w, ow)) = maps(rng, kernel, (1, 1))
        channels = int(rng.integers(1, 9))
        options = {
            "Padding": padding, "StrideH": stride_h, "StrideW": stride_w, "FilterHeight": kernel[0],
            "FilterWidth": kernel[1], "FusedActivationFunction": _activation(rng) if name != "L2_POOL_2D" else 0,
        }  # fmt: skip
        x, y = tensor("x", (n, h, w, channels), "FLOAT32"), tensor("y", (n, oh, ow, channels), "FLOAT32")
        return model(name, [x], [y], "Pool2DOptions", options)

    return make


def binary(name: str, dtype: str, kind: str = "", *, divides: bool = False) -> Make:
    """An operator of two tensors; a divisor is a constant that has no 0."""

    def make(rng: Rng) -> FlatModel:
        a, b, out = pair_shapes(rng)
        options = {"FusedActivationFunction": _activation(rng)} if kind else {}
        second = tensor("b", b, dtype)
        if divides:
            values = rng.integers(1, 50, b) * rng.choice([-1, 1], b)
            second = constant("b", values, dtype)
        return model(name, [tensor("a", a, dtype), second], [tensor("y", out, dtype)], kind, options)

    return make


def cumsum(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 5)))
        operands = [tensor("x", dims, dtype), constant("axis", int(rng.integers(-len(dims), len(dims))))]
        options = {"Exclusive": int(rng.integers(2)), "Reverse": int(rng.integers(2))}
        return model("CUMSUM", operands, [tensor("y", dims, dtype)], "CumsumOptions", options)

    return make


def add_n(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 4)))
        operands = [tensor(f"x{i}", dims, dtype) for i in range(int(rng.integers(2, 6)))]
        return model("ADD_N", operands, [tensor("y", dims, dtype)], "AddNOptions")

    return make


def leaky(rng: Rng) -> FlatModel:
    dims = shape(rng, int(rng.integers(1, 5)))
    options = {"Alpha": f32(rng.uniform(-0.5, 1.5))}
    operands, result = [tensor("x", dims, "FLOAT32")], [tensor("y", dims, "FLOAT32")]
    return model("LEAKY_RELU", operands, result, "LeakyReluOptions", options)


def prelu(rng: Rng) -> FlatModel:
    dims = shape(rng, 4)
    alpha = constant("alpha", rng.standard_normal((1, 1, dims[3])), "FLOAT32")
    return model("PRELU", [tensor("x", dims, "FLOAT32"), alpha], [tensor("y", dims, "FLOAT32")])


def log_softmax(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 4)), 30)
        q, y = None, None
        if dtype != "FLOAT32":
            q = Quant((f32(10.0 ** rng.uniform(-3, 0.5)),), (0,))
            y = Quant((16 / 256,), (127 if dtype == "INT8" else 255,))
        return model("LOG_SOFTMAX", [tensor("x", dims, dtype, q)], [tensor("y", dims, dtype, y)], "LogSoftmaxOptions")

    return make


def fill(dtype: str) -> Make:
    """FILL of a constant, read by a second operator: LiteRT computes it before the model runs."""

    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 5)))
        q = quant(rng, dtype) if dtype in QUANTIZED else None
        value = constant("value", int(rng.integers(0, 2 if dtype == "BOOL" else 100)), dtype, q)
        return model("FILL", [constant("dims", dims), value], [tensor("y", dims, dtype, q)], "FillOptions")

    return make


def l2_normalization(rng: Rng) -> FlatModel:
    dims, options = shape(rng, int(rng.integers(1, 5)), 30), {"FusedActivationFunction": 0}
    operands, result = [tensor("x", dims, "FLOAT32")], [tensor("y", dims, "FLOAT32")]
    return model("L2_NORMALIZATION", operands, result, "L2NormOptions", options)


def computed_fill(rng: Rng) -> FlatModel:
    """FILL of a number that is computed."""
    dims = shape(rng, int(rng.integers(1, 5)))
    value = tensor("value", (), "INT32")
    return model("FILL", [constant("dims", dims), value], [tensor("y", dims, "INT32")], "FillOptions")


def broadcast_args(rng: Rng) -> FlatModel:
    """BROADCAST_ARGS of a shape that is computed and one of ones: LiteRT ends the process where shapes contradict."""
    dtype, sizes = str(rng.choice(["INT32", "INT64"])), shape(rng, 2)
    operands = [tensor("a", sizes[:1], dtype), constant("b", [1] * sizes[1], dtype)]
    if rng.integers(2):
        operands.reverse()
    return model("BROADCAST_ARGS", operands, [tensor("y", (max(sizes),), dtype)])


def inverse_root_s16(rng: Rng) -> FlatModel:
    """RSQRT of int16, which is defined above 0: of the larger of the input and 1."""
    q, dims = quant(rng, "INT16"), shape(rng, 3)
    one = constant("one", [1], "INT16", q)
    first = model("MAXIMUM", [tensor("x", dims, "INT16", q), one], [tensor("m", dims, "INT16", q)])
    (largest,) = first.operators
    root = replace(largest, name="RSQRT", inputs=(2,), outputs=(3,))
    y = tensor("y", dims, "INT16", Quant((f32(rng.uniform(1e-4, 1e-3)),), (0,)))
    return replace(first, tensors=(*first.tensors, y), outputs=(3,), operators=(largest, root))


def gelu(rng: Rng) -> FlatModel:
    dims, options = shape(rng, int(rng.integers(1, 4)), 9), {"Approximate": int(rng.integers(2))}
    return model("GELU", [tensor("x", dims, "FLOAT32")], [tensor("y", dims, "FLOAT32")], "GeluOptions", options)


MODELS: Mapping[str, Make] = {
    "conv_2d-FLOAT32": convolution("CONV_2D"),
    "depthwise_conv_2d-FLOAT32": convolution("DEPTHWISE_CONV_2D"),
    "transpose_conv-FLOAT32": transposed,
    **{f"{name.lower()}-FLOAT32": pool(name) for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")},
    **{
        f"{name.lower()}-{t}": binary(name, t, kind)
        for name, kind in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"))
        for t in PLAIN[1:]
    },
    "squared_difference-INT32": binary("SQUARED_DIFFERENCE", "INT32"),
    "div-INT32": binary("DIV", "INT32", "DivOptions", divides=True),
    **{f"floor_div-{t}": binary("FLOOR_DIV", t, divides=True) for t in ("FLOAT32", "INT8", "INT16", "INT32")},
    **{f"floor_mod-{t}": binary("FLOOR_MOD", t, divides=True) for t in ("INT8", "INT16", "INT32", "INT64")},
    "floor_mod-FLOAT32": binary("FLOOR_MOD", "FLOAT32"),
    "l2_normalization-FLOAT32": l2_normalization,
    "fill-computed": computed_fill,
    "broadcast_args": broadcast_args,
    **{f"cumsum-{t}": cumsum(t) for t in PLAIN},
    **{f"add_n-{t}": add_n(t) for t in ("FLOAT32", "INT32")},
    **{f"{n.lower()}-{t}": reduction(n, t) for n in ("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM") for t in PLAIN},
    **{f"{name.lower()}-BOOL": reduction(name, "BOOL") for name in ("REDUCE_ANY", "REDUCE_ALL")},
    "mean-FLOAT32": reduction("MEAN", "FLOAT32"),
    "leaky_relu-FLOAT32": leaky,
    **{f"{name.lower()}-FLOAT32": real(name) for name in ("CEIL", "ROUND", "SIGN", "HARD_SWISH")},
    "neg-INT8": unary("NEG"),
    "abs-INT16": unary("ABS", "INT16"),
    "rsqrt-INT16": inverse_root_s16,
    "prelu-INT16": quantized_prelu("INT16"),
    **{f"fill-{t}": fill(t) for t in ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "BOOL")},
    **{f"resize_bilinear-{t}": resize("RESIZE_BILINEAR", t) for t in ("UINT8", "FLOAT32")},
    "resize_nearest_neighbor-FLOAT32": resize("RESIZE_NEAREST_NEIGHBOR", "FLOAT32"),
    "batch_matmul-FLOAT32": batch_matmul("FLOAT32", "FLOAT32"),
    "log_softmax-INT8": log_softmax("INT8"),
    "log_softmax-UINT8": log_softmax("UINT8"),
    "prelu-FLOAT32": prelu,
}
"""A generator per operator and type whose bytes equal LiteRT's."""

NEAR: Mapping[str, Make] = {
    **{f"{name.lower()}-FLOAT32": real(name) for name in ("SIN", "COS", "ELU")},
    "log-FLOAT32": real("LOG"),
    "log_softmax-FLOAT32": log_softmax("FLOAT32"),
}
"""Functions of float32 that differ from those of a host's library of mathematics in the last bits."""
