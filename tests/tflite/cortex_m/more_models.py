"""Random models of comparisons, choices, casts, products of matrices and functions: `MODELS[name](rng)`."""

import math
from collections.abc import Mapping

import numpy as np
from tests.tflite.cortex_m.models import (
    QUANTIZED,
    Make,
    Rng,
    constant,
    f32,
    model,
    pair_shapes,
    quant,
    shape,
    tensor,
    unary,
    zero_point,
)

from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.quantization import Quant


def compared(name: str, dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        a, b, out = pair_shapes(rng)
        quants = [quant(rng, dtype, 0.05) if dtype in QUANTIZED else None for _ in range(2)]
        if rng.integers(2):
            quants[1] = quants[0]
        operands = [tensor("a", a, dtype, quants[0]), tensor("b", b, dtype, quants[1])]
        return model(name, operands, [tensor("y", out, "BOOL")])

    return make


def logical(name: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        a, b, out = pair_shapes(rng)
        if name == "LOGICAL_NOT":
            return model(name, [tensor("a", a, "BOOL")], [tensor("y", a, "BOOL")])
        return model(name, [tensor("a", a, "BOOL"), tensor("b", b, "BOOL")], [tensor("y", out, "BOOL")])

    return make


def select(name: str, dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        a, b, out = pair_shapes(rng)
        q = quant(rng, dtype) if dtype in QUANTIZED else None
        condition = tuple(d if rng.integers(2) else 1 for d in out)
        if name == "SELECT":
            a = b = out = shape(rng, int(rng.integers(1, 4)))
            condition = out[:1] if rng.integers(2) else out
        operands = [tensor("c", condition, "BOOL"), tensor("a", a, dtype, q), tensor("b", b, dtype, q)]
        return model(
            name, operands, [tensor("y", np.broadcast_shapes(condition, out) if name != "SELECT" else out, dtype, q)]
        )

    return make


def cast(source: str, target: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 4)))
        return model("CAST", [tensor("x", dims, source)], [tensor("y", dims, target)])

    return make


def arg(name: str, dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, axis = shape(rng, int(rng.integers(1, 5))), 0
        axis = int(rng.integers(-len(dims), len(dims)))
        place = axis % len(dims)
        out = dims[:place] + dims[place + 1 :]
        target = str(rng.choice(["INT32", "INT64"]))
        q = quant(rng, dtype) if dtype in QUANTIZED else None
        kind = "ArgMaxOptions" if name == "ARG_MAX" else "ArgMinOptions"
        options = {"OutputType": 2 if target == "INT32" else 4}
        return model(
            name, [tensor("x", dims, dtype, q), constant("axis", axis)], [tensor("y", out, target)], kind, options
        )

    return make


def batch_matmul(first: str, second: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        rows, depth, columns = (int(v) for v in rng.integers(1, 9, 3))
        batches = shape(rng, int(rng.integers(0, 3)), 3)
        others = batches if rng.integers(2) else tuple(1 for _ in batches)
        if rng.integers(3) == 0:
            others = ()
        adj_x, adj_y = int(rng.integers(2)), int(rng.integers(2))
        a = (*batches, depth, rows) if adj_x else (*batches, rows, depth)
        b = (*others, columns, depth) if adj_y else (*others, depth, columns)
        out = (*np.broadcast_shapes(batches, others), rows, columns)
        options = {"AdjX": adj_x, "AdjY": adj_y}
        if first == "FLOAT32":
            operands, result = [tensor("a", a, first), tensor("b", b, second)], [tensor("y", out, first)]
            return model("BATCH_MATMUL", operands, result, "BatchMatMulOptions", options)
        qa, qb = quant(rng, first), quant(rng, second)
        if first == "INT16":
            qb = Quant(qb.scales, (0,))
        reach = qa.scales[0] * qb.scales[0] * 100 * (300 if second == "INT16" else 1) * math.sqrt(depth)
        y = Quant((f32(reach * rng.uniform(0.5, 2)),), (zero_point(rng, first),))
        right = tensor("b", b, second, qb)
        if rng.integers(3) == 0:
            limits = np.iinfo("int16" if second == "INT16" else "int8")
            right = constant("b", rng.integers(limits.min, limits.max + 1, b), second, qb)
        operands, result = [tensor("a", a, first, qa), right], [tensor("y", out, first, y)]
        return model("BATCH_MATMUL", operands, result, "BatchMatMulOptions", options)

    return make


def softmax(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 5)), 12)
        q, y = None, None
        if dtype == "INT16":
            q, y = Quant((f32(10.0 ** rng.uniform(-5, -2)),), (0,)), Quant((1 / 32768,), (0,))
        options = {"Beta": float(rng.choice([1.0, 0.5, 2.0]))}
        return model("SOFTMAX", [tensor("x", dims, dtype, q)], [tensor("y", dims, dtype, y)], "SoftmaxOptions", options)

    return make


def sigmoid(name: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 4)), 12)
        scale = (
            f32(2.0 ** float(rng.choice([-11, -12, -13, -10])))
            if rng.integers(3) == 0
            else f32(10.0 ** rng.uniform(-6, -2))
        )
        x, y = Quant((scale,), (0,)), Quant((1 / 32768,), (0,))
        return model(name, [tensor("x", dims, "INT16", x)], [tensor("y", dims, "INT16", y)])

    return make


def l2_normalization(rng: Rng) -> FlatModel:
    dims = shape(rng, int(rng.integers(1, 5)), 9)
    y = tensor("y", dims, "INT8", Quant((1 / 128,), (0,)))
    options = {"FusedActivationFunction": 0}
    return model("L2_NORMALIZATION", [tensor("x", dims, "INT8", quant(rng, "INT8"))], [y], "L2NormOptions", options)


def real(name: str, kind: str = "", options: Mapping[str, int | float] | None = None) -> Make:
    """A function of float32."""

    def make(rng: Rng) -> FlatModel:
        dims = shape(rng, int(rng.integers(1, 4)), 9)
        return model(name, [tensor("x", dims, "FLOAT32")], [tensor("y", dims, "FLOAT32")], kind, options)

    return make


def real_fully_connected(rng: Rng) -> FlatModel:
    rows, depth, out = (int(v) for v in rng.integers(1, 40, 3))
    w = constant("w", rng.standard_normal((out, depth)), "FLOAT32")
    b = constant("b", rng.standard_normal(out), "FLOAT32") if rng.integers(3) else None
    options = {"FusedActivationFunction": int(rng.choice([0, 1, 3])), "WeightsFormat": 0, "KeepNumDims": 0}
    operands = [tensor("x", (rows, depth), "FLOAT32"), w, b]
    result = [tensor("y", (rows, out), "FLOAT32")]
    return model("FULLY_CONNECTED", operands, result, "FullyConnectedOptions", options)


def real_binary(name: str, kind: str = "", *, activations: bool = False) -> Make:
    def make(rng: Rng) -> FlatModel:
        a, b, out = pair_shapes(rng)
        options = {"FusedActivationFunction": int(rng.choice([0, 1, 2, 3]))} if activations else {}
        operands = [tensor("a", a, "FLOAT32"), tensor("b", b, "FLOAT32")]
        return model(name, operands, [tensor("y", out, "FLOAT32")], kind, options)

    return make


_COMPARISONS = ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")

MODELS: Mapping[str, Make] = {
    **{f"{name.lower()}-{t}": compared(name, t) for name in _COMPARISONS for t in ("INT8", "INT32", "FLOAT32")},
    "equal-BOOL": compared("EQUAL", "BOOL"),
    **{name.lower(): logical(name) for name in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_NOT")},
    **{f"{n.lower()}-{t}": select(n, t) for n in ("SELECT", "SELECT_V2") for t in ("INT8", "INT16", "FLOAT32")},
    **{
        f"cast-{s}-{t}": cast(s, t)
        for s, t in (
            ("INT8", "INT32"), ("INT32", "FLOAT32"), ("FLOAT32", "INT32"), ("BOOL", "FLOAT32"), ("INT32", "BOOL"),
            ("FLOAT32", "BOOL"), ("INT64", "INT32"), ("INT32", "INT64"), ("UINT8", "FLOAT32"), ("INT32", "INT8"),
            ("INT32", "INT16"), ("INT16", "INT32"), ("FLOAT32", "INT64"),
        )
    },
    **{f"{n.lower()}-{t}": arg(n, t) for n in ("ARG_MAX", "ARG_MIN") for t in ("INT8", "UINT8", "INT32", "FLOAT32")},
    "batch_matmul-INT8": batch_matmul("INT8", "INT8"),
    "batch_matmul-INT16": batch_matmul("INT16", "INT16"),
    "batch_matmul-INT16-INT8": batch_matmul("INT16", "INT8"),
    "softmax-INT16": softmax("INT16"),
    "logistic-INT16": sigmoid("LOGISTIC"),
    "tanh-INT16": sigmoid("TANH"),
    "exp-INT16": unary("EXP", "INT16", x=0.02),
    "gelu-INT16": unary("GELU", "INT16", kind="GeluOptions", options=lambda rng: {"Approximate": int(rng.integers(2))}),
    "log-INT16": unary("LOG", "INT16", y=0.02),
    "leaky_relu-INT16": unary(
        "LEAKY_RELU", "INT16", kind="LeakyReluOptions", options=lambda rng: {"Alpha": f32(rng.uniform(0.0, 1.5))}
    ),
    "l2_normalization-INT8": l2_normalization,
    "zeros_like-INT32": unary("ZEROS_LIKE", "INT32"),
    **{f"{n.lower()}-FLOAT32": real(n) for n in ("ABS", "NEG", "SQUARE", "FLOOR", "RELU", "RELU6", "RELU_N1_TO_1")},
    "fully_connected-FLOAT32": real_fully_connected,
    "squared_difference-FLOAT32": real_binary("SQUARED_DIFFERENCE"),
    "div-FLOAT32": real_binary("DIV", "DivOptions", activations=True),
    "maximum-FLOAT32": real_binary("MAXIMUM", "MaximumMinimumOptions"),
    "minimum-FLOAT32": real_binary("MINIMUM", "MaximumMinimumOptions"),
}  # fmt: skip
"""A generator per operator and type whose bytes equal LiteRT's."""

NEAR: Mapping[str, Make] = {
    "softmax-FLOAT32": softmax("FLOAT32"),
    "logistic-FLOAT32": real("LOGISTIC"),
    "tanh-FLOAT32": real("TANH"),
    "exp-FLOAT32": real("EXP"),
}
"""Functions of float32 that differ from those of a host's library of mathematics in the last bit."""
