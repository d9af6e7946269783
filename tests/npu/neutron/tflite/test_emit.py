"""Emitting and reading again gives the same graph; what TFLite cannot say is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.npu.neutron.tflite.cases import CASES, act, one_op, quant, weighted_operands

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.printer import format_graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.neutron.tflite.reader import op_names, read
from deuteron.tflite.decode import decode
from deuteron.tflite.quantization import Quant

SEEDS = 30
Q = Quant((0.5,), (-4,))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("name", CASES)
def test_every_operator_survives_a_round_trip(name: str):
    for seed in range(SEEDS):
        graph = CASES[name](rng(seed))
        data = emit(graph)
        assert format_graph(read(data)) == format_graph(graph)
        assert read(data) == graph
        assert op_names(data)[-1] == name


def test_padding_of_a_convolution_that_is_not_same_becomes_padv2():
    q = quant(rng())
    op = ops.MaxPool2D(inputs=("x",), outputs=("y",), window=(3, 3), stride=(1, 1), pads=ops.Pads(0, 2, 1, 0))
    graph = one_op(op, act("x", (1, 5, 5, 2), q), act("y", (1, 5, 4, 2), q))
    data = emit(graph)
    assert op_names(data) == ("PADV2", "MAX_POOL_2D")
    padding, pooling = read(data).ops
    assert padding == ops.Pad(
        inputs=("x",), outputs=("y/padded",), origin=(0,), paddings=((0, 0), (0, 2), (1, 0), (0, 0)), value=-128
    )
    assert pooling == replace(op, inputs=("y/padded",), origin=(1,), pads=ops.Pads())


def test_a_convolution_is_padded_with_the_zero_point_of_its_input():
    xq = Quant((0.5,), (17,))
    weights, bias, yq = weighted_operands(rng(), xq, (2, 3, 3, 1), 0, 9)
    op = ops.Conv2D(inputs=("x", "w", "b"), outputs=("y",), pads=ops.Pads(top=2))
    graph = one_op(op, act("x", (1, 4, 4, 1), xq), weights, bias, act("y", (1, 4, 2, 2), yq))
    padding, _ = read(emit(graph)).ops
    assert isinstance(padding, ops.Pad)
    assert (padding.paddings, padding.value) == (((0, 0), (2, 0), (0, 0), (0, 0)), 17)


def test_average_pooling_with_a_padding_that_tflite_lacks_is_refused():
    q = quant(rng())
    op = ops.AveragePool2D(inputs=("x",), outputs=("y",), window=(3, 3), stride=(1, 1), pads=ops.Pads(0, 2, 1, 0))
    graph = one_op(op, act("x", (1, 5, 5, 2), q), act("y", (1, 5, 4, 2), q))
    message = (
        "AveragePool2D `y`: average pooling with Pads(top=0, bottom=2, left=1, right=0); TFLite has SAME and VALID"
    )
    with pytest.raises(UnsupportedError, match=f"^{re.escape(message)}$"):
        emit(graph)


def test_a_clamp_that_is_no_activation_is_refused():
    q = Quant((0.5,), (0,))
    op = ops.Add(inputs=("a", "b"), outputs=("y",), clamp=ops.Clamp(-3, 100))
    graph = one_op(op, act("a", (4,), q), act("b", (4,), q), act("y", (4,), q))
    with pytest.raises(
        UnsupportedError, match=r"^Add `y`: clamp -3\.\.100 is none of NONE, RELU, RELU_N1_TO_1, RELU6$"
    ):
        emit(graph)


@pytest.mark.parametrize(
    ("clamp", "activation"),
    [(ops.Clamp(), 0), (ops.Clamp(lo=-4), 1), (ops.Clamp(-6, -2), 2), (ops.Clamp(-4, 8), 3)],
    ids=["NONE", "RELU", "RELU_N1_TO_1", "RELU6"],
)
def test_a_clamp_in_the_outputs_quantization_is_a_fused_activation(clamp: ops.Clamp, activation: int):
    q = Quant((0.5,), (-4,))
    op = ops.Mul(inputs=("a", "b"), outputs=("y",), clamp=clamp, origin=(0,))
    graph = one_op(op, act("a", (4,), q), act("b", (4,), q), act("y", (4,), q))
    data = emit(graph)
    assert decode(data).operators[0].options == {"FusedActivationFunction": activation}
    assert read(data).ops == graph.ops


def test_average_pooling_that_rescales_is_refused_because_interpreters_would_not_rescale():
    op = ops.AveragePool2D(inputs=("x",), outputs=("y",), window=(2, 2), stride=(2, 2))
    graph = one_op(op, act("x", (1, 4, 4, 1), Quant((0.5,), (0,))), act("y", (1, 2, 2, 1), Quant((0.25,), (0,))))
    message = "AveragePool2D `y`: TFLite's average pooling cannot change the quantization"
    with pytest.raises(UnsupportedError, match=f"^{re.escape(message)}$"):
        emit(graph)


@pytest.mark.parametrize("kind", [ops.Maximum, ops.Minimum])
def test_an_extremum_that_rescales_is_refused_because_interpreters_would_not_rescale(
    kind: type[ops.Maximum | ops.Minimum],
):
    op = kind(inputs=("a", "b"), outputs=("y",))
    other = Quant((0.25,), (0,))
    graph = one_op(op, act("a", (4,), Q), act("b", (4,), other), act("y", (4,), Q))
    with pytest.raises(UnsupportedError, match=r"`y`: TFLite's maximum and minimum cannot change the quantization$"):
        emit(graph)


def test_a_matrix_product_with_a_clamp_is_refused():
    op = ops.BatchMatMul(inputs=("a", "b"), outputs=("y",), clamp=ops.Clamp(lo=0))
    graph = one_op(op, act("a", (2, 2), Q), act("b", (2, 2), Q), act("y", (2, 2), Q))
    with pytest.raises(UnsupportedError, match=r"^BatchMatMul `y`: TFLite's matrix product has no fused activation$"):
        emit(graph)


def test_a_transposed_convolution_with_a_padding_that_tflite_lacks_is_refused():
    weights, bias, yq = weighted_operands(rng(), Q, (2, 3, 3, 1), 0, 9)
    op = ops.TransposeConv(inputs=("x", "w", "b"), outputs=("y",), stride=(2, 2), pads=ops.Pads(1, 1, 1, 0))
    graph = one_op(op, act("x", (1, 4, 4, 1), Q), weights, bias, act("y", (1, 7, 8, 2), yq))
    message = (
        "TransposeConv `y`: transposed convolution with Pads(top=1, bottom=1, left=1, right=0); "
        "TFLite has SAME and VALID"
    )
    with pytest.raises(UnsupportedError, match=f"^{re.escape(message)}$"):
        emit(graph)


def test_a_fully_connected_result_of_another_rank_is_refused():
    q = quant(rng())
    graph = CASES["FULLY_CONNECTED"](rng(1))
    wrong = Graph("g", (*graph.tensors[:-1], act("y", (1, 1, 1, 1, 9), q)), graph.inputs, graph.outputs, graph.ops)
    with pytest.raises(
        UnsupportedError, match=r"^FullyConnected `y`: fully connected from \[.*\] to \[1, 1, 1, 1, 9\]$"
    ):
        emit(wrong)


def test_odd_names_and_an_empty_graph_survive():
    q = quant(rng())
    graph = Graph(
        "", (act('np.int32(1), "ü" %/\\', (2, 2), q),), ('np.int32(1), "ü" %/\\',), ('np.int32(1), "ü" %/\\',), ()
    )
    assert read(emit(graph)) == graph
