"""The interpreter of the IR against LiteRT's reference kernels, within the bounds of `spec/rounding.md`, section 4."""

import numpy as np
import pytest
from tests.npu.neutron.tflite import litert
from tests.npu.neutron.tflite.cases import (
    CASES,
    SOFTMAX_QUANT,
    act,
    const,
    f32,
    map_size,
    one_op,
    quant,
    weighted_operands,
)
from tests.npu.neutron.tflite.files import error, matrix_product, nearest_resize, outside_bytes

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir import interpret, ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.neutron.tflite.reader import read
from deuteron.numerics import REAL_FUNCTIONS
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import TABLE
from deuteron.tflite.quantization import Quant
from deuteron.views.compare.litert import distance_bound

SEEDS = 40


def random_inputs(graph: Graph, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.integers(-128, 128, graph.type(name).shape).astype(np.int8) for name in graph.inputs]


def distance(graph: Graph, inputs: list[np.ndarray]) -> int:
    """Largest difference between the interpreter and LiteRT."""
    verify(graph)
    (found,) = litert.run_bytes(emit(graph), inputs)
    wanted = interpret.run(graph, inputs)[graph.outputs[0]]
    assert found.shape == wanted.shape
    return int(np.abs(found.astype(int) - wanted.astype(int)).max())


@pytest.mark.parametrize("name", [name for name in CASES if name != TABLE])
def test_each_operator_is_within_its_bound_of_litert(name: str):
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = CASES[name](rng)
        assert distance(graph, random_inputs(graph, rng)) <= distance_bound(graph.ops[-1], graph), f"seed {seed}"


EVERY_VALUE = np.arange(-128, 128, dtype=np.int8)


@pytest.mark.parametrize("function", ops.Function, ids=lambda function: function.value)
def test_functions_of_every_value_over_many_scales(function: ops.Function):
    positive = function in (ops.Function.LOG, ops.Function.RSQRT)
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        xq = Quant((f32(2.0 ** rng.uniform(-9, -3)),), (-128 if positive else int(rng.integers(-128, 128)),))
        stored = np.maximum(EVERY_VALUE, -127) if positive else EVERY_VALUE
        reached = REAL_FUNCTIONS[function.value]((stored.astype(float) - xq.zero_point) * xq.scale)
        low, high = min(0.0, reached.min()), max(0.0, reached.max())
        scale = max((high - low) / 255 * rng.uniform(0.5, 2), xq.scale / 64)  # LiteRT's hard swish takes up to 128
        yq = Quant((f32(scale),), (max(-128, min(127, round(-128 - low / scale))),))
        if function is ops.Function.LOGISTIC:
            yq = SOFTMAX_QUANT
        op = ops.Unary(inputs=("x",), outputs=("y",), function=function)
        assert distance(one_op(op, act("x", (256,), xq), act("y", (256,), yq)), [stored]) <= 1, f"seed {seed}"


@pytest.mark.parametrize("form", ["half-pixel centres", "aligned corners", "neither"])
def test_a_bilinear_resize_drifts_along_the_map_and_no_further(form: str):
    q, closest = Quant((0.5,), (3,)), 0.0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        size, result = rng.integers(2, 20, 2), rng.integers(1, 60, 2)
        op = ops.ResizeBilinear(
            inputs=("x",), outputs=("y",), align_corners=form[0] == "a", half_pixel_centers=form[0] == "h"
        )
        graph = one_op(op, act("x", (1, *map(int, size), 1), q), act("y", (1, *map(int, result), 1), q))
        chequered = np.where(np.add.outer(np.arange(size[0]), np.arange(size[1])) % 2, -128, 127).astype(np.int8)
        found, allowed = distance(graph, [chequered.reshape(1, *size, 1)]), distance_bound(op, graph)
        assert found <= allowed, f"seed {seed}"
        closest = max(closest, found / allowed)
    assert closest >= 0.5  # the bound is no larger than it has to be


def test_litert_resizes_with_a_rounded_factor_where_ours_is_exact():
    q = Quant((0.5,), (0,))
    op = ops.ResizeNearest(inputs=("x",), outputs=("y",))
    graph = one_op(op, act("x", (1, 2, 1, 1), q), act("y", (1, 82, 1, 1), q))
    x = np.array([0, 1], np.int8).reshape(1, 2, 1, 1)
    (theirs,) = litert.run_bytes(emit(graph), [x])
    ours = interpret.run(graph, [x])["y"]
    assert np.flatnonzero(ours != theirs).tolist() == [41]
    assert (ours.ravel()[41], theirs.ravel()[41]) == (1, 0)


def test_half_pixel_centres_pick_the_same_for_whole_factors_and_for_no_others():
    for size in range(1, 25):
        for result in range(1, 101):
            centred = [(2 * i + 1) * size // (2 * result) for i in range(result)]
            assert (centred == [i * size // result for i in range(result)]) == (result % size == 0), (size, result)


@pytest.mark.parametrize("factors", [(1, 1), (2, 2), (3, 1), (41, 7)])
def test_a_nearest_resize_with_half_pixel_centres_is_litert_s(factors: tuple[int, int]):
    size = (5, 6)
    data = encode(nearest_resize(size, (size[0] * factors[0], size[1] * factors[1]), centres=True))
    x = np.arange(60, dtype=np.int8).reshape(1, *size, 2)
    np.testing.assert_array_equal(interpret.run(read(data), [x])["y"], litert.run_bytes(data, [x])[0])
    error(nearest_resize(size, (size[0] * factors[0] + 1, size[1]), centres=True), UnsupportedError)


@pytest.mark.parametrize("activation", [0, 1, 3], ids=["NONE", "RELU", "RELU6"])
def test_a_product_of_activations_as_a_fully_connected_layer_is_litert_s(activation: int):
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        data = encode(matrix_product(rng, activation))
        graph = read(data)
        assert isinstance(graph.ops[0], ops.BatchMatMul)
        inputs = random_inputs(graph, rng)
        ours, (theirs,) = interpret.run(graph, inputs)["y"], litert.run_bytes(data, inputs)
        assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 1, f"seed {seed}"
        assert distance(graph, inputs) <= distance_bound(graph.ops[0], graph), f"seed {seed}: written again"


def test_a_logarithm_of_nothing_is_the_lowest_value_in_litert_and_0_in_pytorch_and_here():
    xq, yq = Quant((0.5,), (10,)), Quant((0.25,), (-3,))
    op = ops.Unary(inputs=("x",), outputs=("y",), function=ops.Function.LOG)
    graph = one_op(op, act("x", (3,), xq), act("y", (3,), yq))
    x = np.array([9, 10, 12], np.int8)
    (theirs,) = litert.run_bytes(emit(graph), [x])
    assert theirs.tolist() == [-128, -128, -3]
    assert interpret.run(graph, [x])["y"].tolist() == [0, -128, -3]


@pytest.mark.parametrize("value", [-128, 127, None], ids=["all -128", "all 127", "random"])
@pytest.mark.parametrize("shape", [(1, 40, 37, 3), (1, 1, 1, 2000)])
def test_a_mean_over_many_elements_does_not_overflow_in_either(shape: tuple[int, ...], value: int | None):
    rng = np.random.default_rng(0)
    op = ops.Mean(inputs=("x",), outputs=("y",), origin=(0,), axes=(1, 2, 3))
    graph = one_op(op, act("x", shape, quant(rng)), act("y", (1,), quant(rng, 0.03)))
    x = rng.integers(-128, 128, shape) if value is None else np.full(shape, value)
    assert distance(graph, [x.astype(np.int8)]) <= 1


@pytest.mark.parametrize("seed", range(8))
def test_explicit_padding_becomes_a_pad_in_front_with_the_same_result(seed: int):
    rng = np.random.default_rng(seed)
    xq, size, kernel = quant(rng), (7, 6), (3, 3)
    pads = ops.Pads(top=2, bottom=0, left=0, right=1)
    weights, bias, yq = weighted_operands(rng, xq, (4, *kernel, 3), 0, 27)
    op = ops.Conv2D(inputs=("x", "w", "b"), outputs=("y",), pads=pads)
    result = (1, *map_size(size, kernel, (1, 1), (1, 1), pads), 4)
    graph = one_op(op, act("x", (1, *size, 3), xq), weights, bias, act("y", result, yq))
    assert distance(graph, random_inputs(graph, rng)) <= 1


def test_a_max_pool_with_explicit_padding_never_picks_the_padding():
    q = quant(np.random.default_rng(0))
    op = ops.MaxPool2D(inputs=("x",), outputs=("y",), window=(2, 2), stride=(2, 2), pads=ops.Pads(1, 1, 1, 1))
    graph = one_op(op, act("x", (1, 2, 2, 1), q), act("y", (1, 2, 2, 1), q))
    assert distance(graph, [np.array([-128, -5, 3, 127], np.int8).reshape(1, 2, 2, 1)]) == 0


def test_one_op_of_a_larger_graph_runs_alone():
    rng = np.random.default_rng(3)
    q = quant(rng)
    tensors = (
        act("x", (1, 4), q),
        const("c", np.array([[1, -2, 3, 4]], np.int8), q),
        act("s", (1, 4), q),
        act("t", (4, 1), q),
    )
    total = ops.Add(inputs=("x", "c"), outputs=("s",), origin=(0,))
    turned = ops.Transpose(inputs=("s",), outputs=("t",), origin=(1,), perm=(1, 0))
    graph = Graph("two", tensors, ("x",), ("t",), (total, turned))
    values = interpret.run(graph, random_inputs(graph, rng))
    for op in graph.ops:
        found = litert.run_op(graph, op, values).astype(int)
        assert np.abs(found - values[op.outputs[0]]).max() <= 1


def test_litert_reads_data_behind_the_flatbuffer_as_we_do():
    rng = np.random.default_rng(0)
    graph = CASES["CONV_2D"](rng)
    inputs = random_inputs(graph, rng)
    outside = outside_bytes(decode(emit(graph)))
    (found,), (wanted,) = litert.run_bytes(outside, inputs), litert.run_bytes(emit(graph), inputs)
    np.testing.assert_array_equal(found, wanted)
    assert read(outside) == read(emit(graph))
