"""Operators and types that TFLite Micro has and LiteRT lacks, against their definitions in spec/rounding.md."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.cortex_m.operator_library import OperatorLibrary
from tests.tflite.cortex_m.micro_models import MODELS
from tests.tflite.cortex_m.models import Rng, constant, model, tensor, transposed
from tests.tflite.cortex_m.running import random_inputs, run
from tests.tflite.cortex_m.test_reference import CASES

from deuteron.errors import UnsupportedError
from deuteron.tflite.cortex_m import lower
from deuteron.tflite.cortex_m.fixed_point import Factor, factor, product
from deuteron.tflite.flat_model import FlatModel, FlatTensor
from deuteron.tflite.quantization import Quant

Array = npt.NDArray[Any]
I64 = np.int64


def scale(found: FlatTensor) -> float:
    assert found.quant is not None
    return found.quant.scale


def zero(found: FlatTensor) -> int:
    assert found.quant is not None
    return found.quant.zero_points[0]


def stored(found: FlatTensor, numbers: Array) -> Array:
    """Numbers in steps of a tensor's scale as what it stores."""
    limits = np.iinfo(found.dtype.lower())
    return np.clip(numbers + zero(found), limits.min, limits.max).astype(limits.dtype)


def summed(source: FlatModel, sums: Array) -> Array:
    """Sums of x - zero point in the scale of the output; they begin at minus the zero point."""
    x, y = source.tensors[0], source.tensors[source.outputs[0]]
    by = factor(2 * scale(x) / (2**20 * scale(y)))
    return stored(y, product((sums.astype(I64) - zero(x)) * 2**19, by))


def add_n(source: FlatModel, inputs: Sequence[Array]) -> Array:
    return summed(source, np.sum([each.astype(I64) - zero(source.tensors[0]) for each in inputs], axis=0))


def cumsum(source: FlatModel, inputs: Sequence[Array]) -> Array:
    (op,) = source.operators
    axis = int(np.frombuffer(source.tensors[1].data or b"", np.int32)[0])
    x = inputs[0].astype(I64) - zero(source.tensors[0])
    forward = np.flip(x, axis) if op.options["Reverse"] else x
    sums = np.cumsum(forward, axis) - (forward if op.options["Exclusive"] else 0)
    return summed(source, np.flip(sums, axis) if op.options["Reverse"] else sums)


def squared_difference(source: FlatModel, inputs: Sequence[Array]) -> Array:
    a, b, y = source.tensors
    twice = 2 * max(scale(a), scale(b))

    def scaled(values: Array, by: Factor) -> Array:
        return product(values.astype(I64), by)

    difference = scaled(inputs[0], factor(scale(a) / twice)) - scaled(inputs[1], factor(scale(b) / twice))
    return stored(y, product(difference * difference, factor(twice * twice / scale(y))))


DEFINITIONS: dict[str, Callable[[FlatModel, Sequence[Array]], Array]] = {
    "add_n-INT8": add_n,
    "cumsum-INT8": cumsum,
    "squared_difference-INT16": squared_difference,
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_equals_its_definition(c_operators: OperatorLibrary, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        source = MODELS[name](rng)
        inputs = random_inputs(source, rng)
        (found,) = run(c_operators, source, inputs)
        np.testing.assert_array_equal(found, DEFINITIONS[name](source, inputs))


def test_quotients_of_int8(c_operators: OperatorLibrary) -> None:
    """The nearest numbers. LiteRT and TFLite Micro shift by more than 31 bits below some quotient: 127 for 1 / 100."""
    values = np.arange(-128, 128, dtype=np.int8)
    a, b, y = (Quant((float(np.float32(s)),), (z,)) for s, z in ((0.03, -5), (0.02, 7), (0.1, -3)))
    operands = [tensor("a", (256, 1), "INT8", a), tensor("b", (256,), "INT8", b)]
    source = model("DIV", operands, [tensor("y", (256, 256), "INT8", y)], "DivOptions", {"FusedActivationFunction": 0})
    (found,) = run(c_operators, source, [values[:, None], values])
    dividend, divisor = values[:, None].astype(I64) + 5, values.astype(I64) - 7
    exact = dividend / np.where(divisor, divisor, 1) * (a.scale / (b.scale * y.scale)) * (divisor != 0)
    wanted = np.clip(np.floor(exact + 0.5) - 3, -128, 127)
    assert np.abs(found - wanted).max() <= 1
    assert np.mean(found != wanted) < 0.002  # near ties
    assert (found[:, divisor == 0] == -3).all()


def test_remainders_of_float32(c_operators: OperatorLibrary) -> None:
    """Those of infinite, tiny and zero operands too: what fmod gives, in the sign of the divisor."""
    values = np.array([0, 1, 3.5, 7, 1e-45, 1e-38, 3e38, np.inf], np.float32)
    values = np.concatenate([values, -values, [np.float32(np.nan)]])
    count = len(values)
    operands = [tensor("a", (count, 1), "FLOAT32"), tensor("b", (count,), "FLOAT32")]
    source = model("FLOOR_MOD", operands, [tensor("y", (count, count), "FLOAT32")])
    (found,) = run(c_operators, source, [values[:, None], values])
    with np.errstate(invalid="ignore"):
        rest = np.fmod(values[:, None], values)
        wanted = np.where((rest != 0) & ((rest < 0) != (values < 0)), rest + values, rest)
    np.testing.assert_array_equal(found, wanted)


def dots(matrix: Array, vector: Array) -> Array:
    """Sums of float32 products in order."""
    return np.cumsum(matrix * vector, axis=-1, dtype=np.float32)[..., -1]


def test_an_svdf_of_float32_adds_in_order(c_operators: OperatorLibrary) -> None:
    for case in range(CASES):
        rng = np.random.default_rng(case)
        source = svdf_f32(rng)
        features, times, bias = (
            np.frombuffer(each.data or b"", np.float32).reshape(each.shape) for each in source.tensors[1:4]
        )
        batches, units = source.tensors[source.outputs[0]].shape
        rank = source.operators[0].options["Rank"]
        state, states = np.zeros((batches, *times.shape), np.float32), dict[int, Any]()
        for _ in range(20):
            (x,) = random_inputs(source, rng)
            (found,) = run(c_operators, source, [x], states)
            state = np.concatenate([state[..., 1:], dots(features, x[:, None, :])[..., None]], -1)
            filters = dots(times, state).reshape(batches, units, rank)
            sums = np.cumsum(np.concatenate([np.broadcast_to(bias[:, None], (batches, units, 1)), filters], -1), -1)
            np.testing.assert_array_equal(found, np.clip(sums[..., -1], -1, 1))


def svdf_f32(rng: Rng) -> FlatModel:
    """An SVDF of float32, whose results are held within -1 and 1."""
    batches, features, units, rank, steps = (int(v) for v in rng.integers(1, (4, 20, 6, 4, 10)))
    filters = units * rank
    operands = [
        tensor("x", (batches, features), "FLOAT32"),
        constant("features", rng.standard_normal((filters, features)), "FLOAT32"),
        constant("times", rng.standard_normal((filters, steps)), "FLOAT32"),
        constant("bias", rng.standard_normal(units), "FLOAT32"),
        FlatTensor("state", (batches, filters * steps), "FLOAT32", is_variable=True),
    ]
    options = {"Rank": rank, "FusedActivationFunction": 2}
    made = model("SVDF", operands, [tensor("y", (batches, units), "FLOAT32")], "SVDFOptions", options)
    return replace(made, inputs=(0,))


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [([1, 3, 1], [4, 1, 3, 2], [4, 1, 3, 2]), ([5, 1], [2], [5, 2]), ([2, 1, 7], [1, 6, 7], [2, 6, 7])],
)
def test_shapes_that_are_broadcast(c_operators: OperatorLibrary, a: list[int], b: list[int], wanted: list[int]) -> None:
    operands = [tensor(name, (len(sizes),), "INT32") for name, sizes in (("a", a), ("b", b))]
    source = model("BROADCAST_ARGS", operands, [tensor("y", (len(wanted),), "INT32")])
    (found,) = run(c_operators, source, [np.array(sizes, np.int32) for sizes in (a, b)])
    assert found.tolist() == wanted


def test_a_bias_of_int16_is_one_of_int64(c_operators: OperatorLibrary) -> None:
    """TFLite Micro takes it in TRANSPOSE_CONV."""
    for case in range(4 * CASES):
        rng = np.random.default_rng(case)
        source = transposed("INT16")(rng)
        if len(source.operators[0].inputs) < 4:
            continue
        index = source.operators[0].inputs[3]
        values = rng.integers(-32768, 32768, source.tensors[index].shape)
        results: list[Array] = []
        for dtype in ("INT16", "INT64"):
            bias = replace(source.tensors[index], dtype=dtype, data=values.astype(dtype.lower()).tobytes())
            tensors = (*source.tensors[:index], bias, *source.tensors[index + 1 :])
            inputs = random_inputs(source, np.random.default_rng(case))
            results += run(c_operators, replace(source, tensors=tensors), inputs)
        np.testing.assert_array_equal(results[0], results[1])


def error(source: FlatModel) -> str:
    with pytest.raises(UnsupportedError) as caught:
        lower(source, 0)
    return str(caught.value)


def test_a_sum_of_two_scales_is_refused() -> None:
    x, z = (tensor(n, (4,), "INT8", Quant((s,), (0,))) for n, s in (("x", 0.5), ("z", 0.25)))
    assert error(model("ADD_N", [x, z], [tensor("y", (4,), "INT8", Quant((1.0,), (0,)))], "AddNOptions")) == (
        "operator 0 (ADD_N): tensors `x` and `z` differ in scale or zero point; one for all operands is allowed\n\n"
        "hint: put a QUANTIZE before one of them, or write the sum with ADD"
    )


def test_a_sum_whose_scale_is_too_small_is_refused() -> None:
    x, y = (tensor(n, (4,), "INT8", Quant((s,), (0,))) for n, s in (("x", 0.5), ("y", 2.0**-21)))
    assert error(model("CUMSUM", [x, constant("axis", [0])], [y], "CumsumOptions")) == (
        "operator 0 (CUMSUM): the scale 4.76837e-07 of `y` is too small for operands with the scale 0.5\n\n"
        "hint: check the calibration data: the output's range does not fit its operands"
    )
