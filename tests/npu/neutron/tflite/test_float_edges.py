"""The operators at the float edges of a model, and the operators between them."""

from dataclasses import replace

import pytest
from tests.npu.neutron.tflite.files import (
    FlatModel,
    FlatOperator,
    FlatTensor,
    Q,
    encode,
    error,
    with_float_edges,
    without_hint,
)

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.tflite.float_edges import Edges, find_edges
from deuteron.npu.neutron.tflite.reader import read
from deuteron.tflite.decode import decode

TENSORS = tuple(FlatTensor(name, (1, 4), "INT8", Q) for name in "aby")
INNER = FlatModel("m", TENSORS, (0, 1), (2,), (FlatOperator("ADD", (0, 1), (2,)),))
QUANTIZE, DEQUANTIZE = "QuantizeOptions", "DequantizeOptions"


def edged() -> FlatModel:
    """QUANTIZE 0 and 1, ADD 2, DEQUANTIZE 3; a, b, y are tensors 0 to 2 and their float forms 3 to 5."""
    return decode(with_float_edges(encode(INNER)))


def test_a_model_without_float_is_all_inside():
    assert find_edges(INNER) == Edges((0, 1), (2,))


def test_the_operators_at_the_edges_are_left_out_and_the_others_keep_their_indices():
    assert find_edges(edged()) == Edges((0, 1), (2,), (0, 1, 3))
    graph = read(encode(edged()))
    assert (graph.inputs, graph.outputs) == (("a", "b"), ("y",))
    assert graph.ops == (ops.Add(inputs=("a", "b"), outputs=("y",), origin=(2,)),)
    assert {tensor.name for tensor in graph.tensors} == {"a", "b", "y"}


def test_one_input_may_be_float_and_another_not():
    source = edged()
    half = replace(source, inputs=(3, 1), operators=(source.operators[0], *source.operators[2:]))
    assert find_edges(half) == Edges((0, 1), (2,), (0, 2))


def test_an_inner_result_that_leaves_both_ways_stays_an_output():
    both = replace(edged(), outputs=(5, 2))
    assert find_edges(both) == Edges((0, 1), (2, 2), (0, 1, 3))
    assert without_hint(error(both, UnsupportedError)) == (
        "tensor `y` is 2 graph outputs, counting those behind float edges; it can be one"
    )


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        (
            FlatOperator("QUANTIZE", (3,), (6,), QUANTIZE),
            "float left in a partition: graph input `a_float` is FLOAT32; INT8 is allowed",
        ),
        (
            FlatOperator("RELU", (5,), (6,)),
            "float left in a partition: graph output `y_float` is FLOAT32; INT8 is allowed",
        ),
    ],
    ids=["input read twice", "output read"],
)
def test_float_that_is_used_elsewhere_is_no_edge(extra: FlatOperator, text: str):
    source = edged()
    tensors = (*source.tensors, FlatTensor("more", (1, 4), "INT8", Q))
    caught = error(replace(source, tensors=tensors, operators=(*source.operators, extra)), UnsupportedError)
    assert without_hint(caught) == text


def test_float_in_the_middle_is_refused_at_both_its_operators():
    tensors = (*TENSORS, FlatTensor("f", (1, 4), "FLOAT32"), FlatTensor("z", (1, 4), "INT8", Q))
    operators = (
        *INNER.operators,
        FlatOperator("DEQUANTIZE", (2,), (3,), DEQUANTIZE),
        FlatOperator("QUANTIZE", (3,), (4,), QUANTIZE),
    )
    caught = error(FlatModel("m", tensors, (0, 1), (4,), operators), UnsupportedError)
    assert str(caught) == (
        "2 operators cannot be compiled:\n"
        "  op 1 DEQUANTIZE, output `f`: the compiler for the Neutron does not support this operator\n"
        "    hint: keep it on the CPU, or express it through the operators that `deuteron ops` lists\n"
        "  op 2 QUANTIZE, output `z`: float left in a partition: tensor `f` is FLOAT32\n"
        "    hint: quantize this operator too, or keep it on the CPU"
    )
