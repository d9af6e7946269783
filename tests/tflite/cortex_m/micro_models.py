"""Random models of operators and types that TFLite Micro has and LiteRT lacks: `MODELS[name](rng)`."""

from collections.abc import Mapping

from tests.tflite.cortex_m.models import (
    ACTIVATIONS,
    Make,
    Rng,
    constant,
    f32,
    model,
    pair_shapes,
    quant,
    shape,
    tensor,
    zero_point,
)

from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.quantization import Quant


def _scaled(rng: Rng, scale: float, dtype: str = "INT8") -> Quant:
    return Quant((f32(scale),), (zero_point(rng, dtype),))


def add_n(rng: Rng) -> FlatModel:
    dims, count, q = shape(rng, int(rng.integers(1, 5))), int(rng.integers(2, 9)), quant(rng, "INT8")
    operands = [tensor(f"x{i}", dims, "INT8", q) for i in range(count)]
    result = tensor("y", dims, "INT8", _scaled(rng, q.scale * rng.uniform(0.3, 1) * count))
    return model("ADD_N", operands, [result], "AddNOptions")


def cumsum(rng: Rng) -> FlatModel:
    dims, q = shape(rng, int(rng.integers(1, 5)), 9), quant(rng, "INT8")
    operands = [tensor("x", dims, "INT8", q), constant("axis", [int(rng.integers(-len(dims), len(dims)))])]
    result = tensor("y", dims, "INT8", _scaled(rng, q.scale * rng.uniform(0.3, 4)))
    options = {"Exclusive": int(rng.integers(2)), "Reverse": int(rng.integers(2))}
    return model("CUMSUM", operands, [result], "CumsumOptions", options)


def divide(rng: Rng) -> FlatModel:
    """DIV; LiteRT refuses the divisor 0."""
    a, b, out = pair_shapes(rng)
    operands = [tensor("a", a, "INT8", quant(rng, "INT8")), tensor("b", b, "INT8", quant(rng, "INT8"))]
    result = tensor("y", out, "INT8", _scaled(rng, 10 ** rng.uniform(-3, 1)))
    options = {"FusedActivationFunction": int(rng.choice(ACTIVATIONS))}
    return model("DIV", operands, [result], "DivOptions", options)


def squared_difference(rng: Rng) -> FlatModel:
    a, b, out = pair_shapes(rng)
    scale = 10 ** rng.uniform(-5, -1)
    scales = (scale, scale * 2 ** rng.uniform(-4, 4))
    operands = [tensor(n, s, "INT16", _scaled(rng, v, "INT16")) for n, s, v in zip("ab", (a, b), scales, strict=True)]
    most = (max(scales) * 65536) ** 2
    result = tensor("y", out, "INT16", _scaled(rng, most / 32768 * 2 ** rng.uniform(-3, 1), "INT16"))
    return model("SQUARED_DIFFERENCE", operands, [result], "SquaredDifferenceOptions")


MODELS: Mapping[str, Make] = {
    "add_n-INT8": add_n,
    "cumsum-INT8": cumsum,
    "div-INT8": divide,
    "squared_difference-INT16": squared_difference,
}
"""A generator per operator and type."""
