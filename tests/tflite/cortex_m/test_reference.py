"""Random models of one operator each give the bytes of LiteRT's reference kernels."""

import os
import zlib

import numpy as np
import pytest
from tests.cortex_m.operator_library import OperatorLibrary
from tests.tflite.cortex_m import detection_models, models, more_models, movement_models, plain_models
from tests.tflite.cortex_m.running import compare, random_inputs, run

from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode
from deuteron.tflite.unsigned import signed
from deuteron.views.compare.litert_values import GELU_STEPS

MODELS = {**models.MODELS, **movement_models.MODELS, **more_models.MODELS, **plain_models.MODELS}
CASES = int(os.environ.get("DEUTERON_TFLITE_CASES", "3"))
"""Random models per operator and type; a long run asks for hundreds."""


@pytest.mark.parametrize("name", MODELS)
def test_equals_litert(c_operators: OperatorLibrary, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        compare(c_operators, MODELS[name](rng), rng)


NEAR = {**more_models.NEAR, **plain_models.NEAR}


@pytest.mark.parametrize("name", NEAR)
def test_is_near_litert(c_operators: OperatorLibrary, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        compare(c_operators, NEAR[name](rng), rng, steps=2)


@pytest.mark.parametrize("name", ["ADD", "SUB"])
@pytest.mark.parametrize("shifts", [(0, 0), (0, 1), (3, 0), (0, 13)])
def test_sums_of_scales_that_are_powers_of_two(
    c_operators: OperatorLibrary, name: str, shifts: tuple[int, int]
) -> None:
    scales = (*(2.0 ** -(8 + shift) for shift in shifts), 2.0**-8)
    a, b, y = (
        models.tensor(name, (7, 40), "INT16", models.Quant((scale,), (0,)))
        for name, scale in zip("aby", scales, strict=True)
    )
    options = {"FusedActivationFunction": 0, "PotScaleInt16": 1}
    source = models.model(name, [a, b], [y], f"{name.title()}Options", options)
    compare(c_operators, source, np.random.default_rng(0))


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_indices_of_each_batch_are_computed_at_run_time(c_operators: OperatorLibrary, batches: int) -> None:
    dims, count = (2, 3, 4, 5), 6
    x, y = models.tensor("x", dims, "FLOAT32"), models.tensor("y", (*dims[:2], count, dims[3]), "FLOAT32")
    indices = models.tensor("i", (*dims[:batches], count), "INT32")
    source = models.model("GATHER", [x, indices], [y], "GatherOptions", {"Axis": 2, "BatchDims": batches})
    rng = np.random.default_rng(0)
    inputs = [rng.random(dims, np.float32), rng.integers(0, dims[2], indices.shape).astype(np.int32)]
    (wanted,), (found,) = Litert(encode(source)).run(inputs), run(c_operators, source, inputs)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["INT16", "INT32", "INT64"])
def test_indices_of_places_are_computed_at_run_time(c_operators: OperatorLibrary, dtype: str, depth: int) -> None:
    dims, places = (3, 5, 4, 2), (7, 3)
    q = models.Quant((0.5,), (3,))
    x, y = models.tensor("x", dims, "INT8", q), models.tensor("y", (*places, *dims[depth:]), "INT8", q)
    indices = models.tensor("i", (*places, depth), dtype)
    source = models.model("GATHER_ND", [x, indices], [y], "GatherNdOptions", {})
    rng = np.random.default_rng(0)
    chosen = np.stack([rng.integers(0, size, places) for size in dims[:depth]], -1).astype(dtype.lower())
    inputs = [rng.integers(-128, 128, dims).astype(np.int8), chosen]
    (wanted,), (found,) = Litert(encode(source)).run(inputs), run(c_operators, source, inputs)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("scale", [15.5, 16.0, 18.0, 40.0])
def test_a_softmax_of_numbers_that_are_far_apart(c_operators: OperatorLibrary, scale: float) -> None:
    """From a scale of 16 on, only the largest numbers of a row count."""
    x = models.tensor("x", (40, 6), "INT8", models.Quant((scale,), (-7,)))
    y = models.tensor("y", (40, 6), "INT8", models.Quant((1 / 256,), (-128,)))
    compare(c_operators, models.model("SOFTMAX", [x], [y], "SoftmaxOptions", {"Beta": 1.0}), np.random.default_rng(0))
    rows = np.random.default_rng(1).integers(-3, 0, (40, 6)).astype(np.int8)
    source = models.model("SOFTMAX", [x], [y], "SoftmaxOptions", {"Beta": 1.0})
    (wanted,), (found,) = Litert(encode(source)).run([rows]), run(c_operators, source, [rows])
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
def test_a_layer_of_many_inputs(c_operators: OperatorLibrary, dtype: str) -> None:
    """Sums of more products than other layers take."""
    rng = np.random.default_rng(0)
    compare(c_operators, models.fully_connected(dtype, depth=40_000)(rng), rng)


def test_gelu_is_near_litert(c_operators: OperatorLibrary) -> None:
    """By tanh, below zero, it is the difference of two numbers near 1, of which one comes from the host's library."""
    for case in range(2 * CASES):
        rng = np.random.default_rng(case)
        source = plain_models.gelu(rng)
        if source.operators[0].options["Approximate"]:
            compare(c_operators, source, rng, absolute=1e-6)
        else:
            compare(c_operators, source, rng, steps=GELU_STEPS)


@pytest.mark.parametrize("by_class", [False, True])
@pytest.mark.parametrize("dtype", ["FLOAT32", "UINT8"])
def test_detections_equal_those_of_litert(c_operators: OperatorLibrary, dtype: str, *, by_class: bool) -> None:
    """LiteRT leaves what stands behind the number of detections as it was in memory."""
    for case in range(4 * CASES):
        rng = np.random.default_rng(case)
        source = detection_models.detection(dtype, by_class=by_class)(rng)
        decoded = signed(source)
        inputs = random_inputs(decoded, rng)
        wanted, found = Litert(encode(source)).run(inputs), run(c_operators, decoded, inputs)
        count = int(wanted[3][0])
        assert found[3] == count
        for theirs, ours in zip(wanted[:3], found[:3], strict=True):
            np.testing.assert_array_equal(ours[0, :count], theirs[0, :count])
            assert not ours[0, count:].any()
