"""The interpreter of the IR against LiteRT's reference kernels: at most 1 LSB apart, because LiteRT rounds twice."""

import numpy as np
import pytest
from tests.tflite import litert
from tests.tflite.cases import CASES, act, const, map_size, one_op, quant, weighted_operands

from deuteron.ir import interpret, ops
from deuteron.ir.graph import Graph
from deuteron.ir.verify import verify
from deuteron.tflite.emit import emit

SEEDS = 40
EXACT = {
    "CONCATENATION", "MAXIMUM", "MAX_POOL_2D", "MINIMUM", "MIRROR_PAD", "PADV2", "REDUCE_MAX", "REDUCE_MIN", "RESHAPE",
    "RESIZE_NEAREST_NEIGHBOR", "SLICE", "TRANSPOSE",
}  # fmt: skip
"""Operators that only move values."""


def random_inputs(graph: Graph, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.integers(-128, 128, graph.type(name).shape).astype(np.int8) for name in graph.inputs]


def bound(op: ops.Op, graph: Graph) -> int:
    """How far LiteRT may be; its bilinear resize keeps 10 bits of the step, so positions drift along the map."""
    if isinstance(op, ops.ResizeBilinear):
        _, rows, columns, _ = graph.type(op.outputs[0]).shape
        return 1 + (rows + columns) * 255 // 2048
    return 1


def distance(graph: Graph, inputs: list[np.ndarray]) -> int:
    """Largest difference between the interpreter and LiteRT."""
    verify(graph)
    (found,) = litert.run_bytes(emit(graph), inputs)
    wanted = interpret.run(graph, inputs)[graph.outputs[0]]
    assert found.shape == wanted.shape
    return int(np.abs(found.astype(int) - wanted.astype(int)).max())


@pytest.mark.parametrize("name", CASES)
def test_each_operator_is_within_one_step_of_litert(name: str):
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = CASES[name](rng)
        allowed = 0 if name in EXACT else bound(graph.ops[0], graph)
        assert distance(graph, random_inputs(graph, rng)) <= allowed, f"seed {seed}"


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
