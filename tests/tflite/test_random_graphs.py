"""Random TFLite graphs have the bytes of LiteRT's reference kernels; `make bench-tflite-graphs` runs thousands."""

import numpy as np
import pytest
from tests import full
from tests.tflite.cortex_m.models import constant, model, tensor
from tests.tflite.graph_check import built, check
from tests.tflite.image_graphs import KINDS, image_graph
from tests.tflite.random_graphs import random_graph

from deuteron.tflite.flat_model import FlatModel

GRAPHS = range(40)


@pytest.mark.parametrize("seed", full.first(GRAPHS, 20))
def test_a_graph_on_a_cortex_m(seed: int) -> None:
    assert str(check(seed, built("cortex-m55"))) == "None"


@pytest.mark.parametrize("first", full.first(range(0, 200, 50), 2))
def test_graphs_of_images_on_a_cortex_m(first: int) -> None:
    found = [check(seed, built("cortex-m55"), image_graph) for seed in range(first, first + 50)]
    assert [str(each) for each in found if each] == []


@pytest.mark.parametrize("target", full.only(["ethos-u55-128", "ethos-u85-256"], "ethos-u85-256"))
def test_graphs_of_images_on_an_ethos_u(target: str) -> None:
    pytest.importorskip("ethosu.vela")
    found = [check(seed, built(target), image_graph) for seed in range(6)]
    assert [str(each) for each in found if each and each.largest > 1] == []


def test_graphs_of_images_have_all_kinds_of_operators() -> None:
    graphs = [image_graph(np.random.default_rng(seed)) for seed in range(300)]
    assert len({op.name for graph in graphs for op in graph.operators}) == len(KINDS) - 4  # layers have several kinds


def test_graphs_have_all_kinds_of_operators() -> None:
    """One operator in many is joined to others, with several readers, types and batches."""
    graphs = [random_graph(np.random.default_rng(seed)) for seed in range(300)]
    names = {op.name for graph in graphs for op in graph.operators}
    assert len(names) > 85
    assert {"QUANTIZE", "DEQUANTIZE", "TILE", "SLICE", "RESHAPE", "CAST"} < names
    types = {graph.tensors[i].dtype for graph in graphs for op in graph.operators for i in op.outputs}
    assert {"INT8", "UINT8", "INT16", "INT32", "INT64", "FLOAT32", "BOOL"} <= types


def two_operators(_: np.random.Generator) -> FlatModel:
    """(x + 1) * 2, in int32."""
    first = model("ADD", [tensor("x", (3,), "INT32"), constant("one", [1])], [tensor("y", (3,), "INT32")], "AddOptions")
    second = model(
        "MUL", [tensor("y", (3,), "INT32"), constant("two", [2])], [tensor("z", (3,), "INT32")], "MulOptions"
    )
    (add,), (multiply,) = first.operators, second.operators
    tensors = (*first.tensors, *second.tensors[1:])
    moved = type(multiply)(multiply.name, (2, 3), (4,), multiply.kind, multiply.options)
    return FlatModel("two", tensors, (0,), (4,), (add, moved))


def test_a_difference_is_that_of_the_operator_that_makes_it() -> None:
    """An addition that is one off is found behind a product that is right."""

    def run(graph: FlatModel, inputs: list[np.ndarray]) -> list[np.ndarray]:
        (value,) = inputs
        for op in graph.operators:
            value = value + 2 if op.name == "ADD" else value * 2
        return [value]

    found = check(0, run, two_operators)
    assert found is not None
    assert str(found) == "ADD(INT32[3], INT32[1]): 3 elements differ by at most 1"
