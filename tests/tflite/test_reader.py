"""What the reader makes of every option, and the exact text of each refusal."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tflite
from tests.tflite.files import (
    Extra,
    FlatModel,
    FlatOperator,
    FlatTensor,
    encode,
    model,
    odd_bytes,
    with_constant,
    with_op,
    with_tensor,
)

from deuteron.errors import DeuteronError, FormatError, UnsupportedError
from deuteron.ir import ops
from deuteron.ir.types import DType, Quant
from deuteron.tflite.decode import decode
from deuteron.tflite.reader import LOWERINGS, op_names, read

Q = Quant((0.5,), (-4,))
DAMAGED = "make the file again; it is damaged or its exporter has a defect"


def only_op(source: FlatModel) -> ops.Op:
    (op,) = read(encode(source)).ops
    return op


def error(data: bytes | FlatModel, kind: type[DeuteronError]) -> DeuteronError:
    with pytest.raises(kind) as caught:
        read(data if isinstance(data, bytes) else encode(data))
    assert type(caught.value) is kind
    return caught.value


# forms


def conv(padding: int, stride: ops.Pair, dilation: ops.Pair, size: ops.Pair) -> FlatModel:
    """A 3x2 convolution of an 8x7 map with one scale for all weights."""
    tensors = (
        FlatTensor("x", (1, 8, 7, 1), "INT8", Q),
        FlatTensor("w", (2, 3, 2, 1), "INT8", Quant((0.25,), (0,)), bytes(12)),
        FlatTensor("b", (2,), "INT32", Quant((0.125,), (0,)), bytes(8)),
        FlatTensor("y", (1, *size, 2), "INT8", Q),
    )
    options = {
        "Padding": padding,
        "StrideH": stride[0],
        "StrideW": stride[1],
        "DilationHFactor": dilation[0],
        "DilationWFactor": dilation[1],
        "FusedActivationFunction": 0,
    }
    op = FlatOperator("CONV_2D", (0, 1, 2), (3,), "Conv2DOptions", options)
    return FlatModel("m", tensors, (0,), (3,), (op,))


@pytest.mark.parametrize(
    ("padding", "stride", "dilation", "size", "pads"),
    [
        (1, (1, 1), (1, 1), (6, 6), ops.Pads()),
        (1, (2, 1), (1, 2), (3, 5), ops.Pads()),
        (0, (1, 1), (1, 1), (8, 7), ops.Pads(top=1, bottom=1, left=0, right=1)),
        (0, (2, 3), (1, 1), (4, 3), ops.Pads(top=0, bottom=1, left=0, right=1)),
        (0, (1, 1), (2, 3), (8, 7), ops.Pads(top=2, bottom=2, left=1, right=2)),
    ],
)
def test_padding_stride_and_dilation(
    padding: int, stride: ops.Pair, dilation: ops.Pair, size: ops.Pair, pads: ops.Pads
):
    assert only_op(conv(padding, stride, dilation, size)) == ops.Conv2D(
        inputs=("x", "w", "b"), outputs=("y",), origin=(0,), stride=stride, dilation=dilation, pads=pads
    )


@pytest.mark.parametrize(
    ("code", "zero_point", "clamp"),
    [
        (0, -4, ops.Clamp()),
        (1, -4, ops.Clamp(lo=-4)),
        (3, -4, ops.Clamp(lo=-4, hi=8)),
        (3, 120, ops.Clamp(lo=120, hi=127)),
        (1, -128, ops.Clamp()),
    ],
)
def test_a_fused_activation_is_a_clamp_in_the_outputs_quantisation(code: int, zero_point: int, clamp: ops.Clamp):
    source = with_tensor(
        with_op(model("ADD"), options={"FusedActivationFunction": code}), "y", quant=Quant((0.5,), (zero_point,))
    )
    op = only_op(source)
    assert isinstance(op, ops.Add)
    assert op.clamp == clamp


def test_an_operator_without_options_has_the_schemas_defaults():
    op = only_op(with_op(model("ADD"), kind="", options={}))
    assert op == ops.Add(inputs=("a", "b"), outputs=("y",), origin=(0,))


@pytest.mark.parametrize("inputs", [(0, 1), (0, 1, -1)], ids=["left out", "index -1"])
@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_a_missing_bias_becomes_zeros(name: str, inputs: tuple[int, ...]):
    source = model(name)
    graph = read(encode(with_op(source, inputs=inputs)))
    (op,) = graph.ops
    bias = graph.tensor(op.inputs[2])
    channels = source.tensors[2].shape
    assert bias.name == "y/bias"
    assert (bias.type.dtype, bias.type.shape, bias.type.quant) == (DType.INT32, channels, None)
    assert not np.any(bias.array())


def test_the_name_of_an_added_bias_is_not_taken_twice():
    source = with_op(model("FULLY_CONNECTED"), inputs=(0, 1))
    source = with_tensor(source, "x", name="y/bias")
    assert only_op(source).inputs == ("y/bias", "w", "y/bias_1")


def test_weights_that_arrive_through_a_transpose_keep_it():
    q, wq = Q, Quant((0.25,), (0,))
    tensors = (
        FlatTensor("x", (1, 3), "INT8", q),
        FlatTensor("w", (3, 2), "INT8", wq, bytes(6)),
        FlatTensor("perm", (2,), "INT32", None, np.array([1, 0], "<i4").tobytes()),
        FlatTensor("wt", (2, 3), "INT8", wq),
        FlatTensor("y", (1, 2), "INT8", q),
    )
    operators = (FlatOperator("TRANSPOSE", (1, 2), (3,)), FlatOperator("FULLY_CONNECTED", (0, 3), (4,)))
    graph = read(encode(FlatModel("m", tensors, (0,), (4,), operators)))
    assert graph.ops == (
        ops.Transpose(inputs=("w",), outputs=("wt",), origin=(0,), perm=(1, 0)),
        ops.FullyConnected(inputs=("x", "wt", "y/bias"), outputs=("y",), origin=(1,)),
    )
    assert {t.name for t in graph.tensors} == {"x", "w", "wt", "y", "y/bias"}


@pytest.mark.parametrize("dtype", ["INT32", "INT64"])
def test_negative_axes_count_from_the_end(dtype: str):
    source = model("MEAN")  # [6,5,3,3] over axis 0
    op = only_op(with_constant(source, "y/axes", [-4, 0], dtype))
    assert isinstance(op, ops.Mean)
    assert op.axes == (0,)
    perm = only_op(with_constant(model("TRANSPOSE"), "y/perm", [-3, -2, 0, -1], dtype))
    assert isinstance(perm, ops.Transpose)
    assert perm.perm == (1, 2, 0, 3)
    joined = only_op(with_op(model("CONCATENATION"), options={"Axis": -4}))
    assert isinstance(joined, ops.Concat)
    assert joined.axis == 0


def test_pad_fills_with_the_outputs_zero_point():
    source = model("PADV2")
    op = only_op(with_op(source, name="PAD", kind="PadOptions", inputs=source.operators[0].inputs[:2]))
    assert isinstance(op, ops.Pad)
    assert op.value == -118


def test_a_reshape_may_come_without_a_shape_or_with_one_dimension_open():
    source = model("RESHAPE")  # [5,4,2,3] to [1,5,4,2,3]
    wanted = ops.Reshape(inputs=("x",), outputs=("y",), origin=(0,))
    assert only_op(with_op(source, inputs=(0,))) == wanted
    assert only_op(with_constant(source, "y/shape", [1, 5, -1, 2, 3])) == wanted


def test_a_slice_may_go_to_the_end():
    source = model("SLICE")  # [5,4,2,3] to [3,1,1,1] at begin
    begin = [2, 3, 1, 2]
    op = only_op(with_constant(with_constant(source, "y/begin", begin), "y/size", [-1, -1, -1, -1]))
    assert isinstance(op, ops.Slice)
    assert op.begin == tuple(begin)


def test_only_the_deprecated_operator_code_is_read_from_old_files():
    old = odd_bytes(model("TRANSPOSE"), "OperatorCode", lambda _: {"BuiltinCode": 0})
    assert op_names(old) == ("TRANSPOSE",)


def test_names_are_made_unique_and_the_graphs_own_inputs_and_outputs_keep_theirs():
    source = with_tensor(with_tensor(model("ADD"), "a", name="t"), "b", name="t")
    source = with_tensor(source, "y", name="")
    source = replace(source, inputs=(1, 0))
    graph = read(encode(source))
    assert graph.inputs == ("t", "t_1")
    assert graph.outputs == ("tensor_2",)
    assert graph.ops[0].inputs == ("t_1", "t")


def test_every_operator_of_the_table_has_a_schema_name():
    assert all(hasattr(tflite.BuiltinOperator, name) for name in LOWERINGS)


# refusals: whole file


def test_an_unsupported_operator_names_itself_its_place_and_what_is_allowed():
    caught = error(with_op(model("RELU"), name="GELU"), UnsupportedError)
    assert str(caught) == (
        "op 0 GELU, output `y`: this operator cannot be compiled\n\n"
        "hint: keep it on the CPU, or express it through the operators that `deuteron ops` lists"
    )
    custom = error(with_op(model("RELU"), name="CUSTOM", custom_code="MyOp"), UnsupportedError)
    assert custom.where == "op 0 CUSTOM `MyOp`, output `y`"
    assert op_names(encode(with_op(model("RELU"), name="CUSTOM", custom_code="MyOp"))) == ("CUSTOM",)


ODD_FILES: dict[str, tuple[str, Extra, type[DeuteronError], str]] = {
    "version": (
        "Model",
        lambda _: {"Version": 2},
        FormatError,
        "TFLite schema version 2; only version 3 can be read",
    ),
    "two subgraphs": (
        "Model",
        lambda e: {"Subgraphs": e.offsets([e.last["SubGraph"]] * 2)},
        UnsupportedError,
        "the TFLite model has 2 subgraphs instead of 1",
    ),
    "no subgraph": (
        "Model",
        lambda e: {"Subgraphs": e.offsets([])},
        UnsupportedError,
        "the TFLite model has 0 subgraphs instead of 1",
    ),
    "dynamic": (
        "Tensor",
        lambda e: {"ShapeSignature": e.integers([-1, 4, 2, 3])},
        UnsupportedError,
        "tensor `x` has a dynamic shape; all shapes must be known at compile time",
    ),
    "variable": (
        "Tensor",
        lambda _: {"IsVariable": True},
        UnsupportedError,
        "tensor `x` is a variable; state between runs cannot be compiled",
    ),
    "sparse": (
        "Tensor",
        lambda e: {"Sparsity": e.table("SparsityParameters")},
        UnsupportedError,
        "tensor `x` is sparse; only dense tensors can be compiled",
    ),
    "custom quantisation": (
        "QuantizationParameters",
        lambda e: {"DetailsType": 1, "Details": e.table("CustomQuantization")},
        UnsupportedError,
        "tensor `x` has custom quantisation; scales and zero points are allowed",
    ),
    "external": (
        "Buffer",
        lambda _: {"Offset": 4096, "Size": 16},
        UnsupportedError,
        "buffer 0 keeps its data outside the flatbuffer",
    ),
    "two zero points": (
        "QuantizationParameters",
        lambda e: {"ZeroPoint": e.integers([1, 2], "<i8")},
        FormatError,
        "tensor `x`: quantisation has 1 scales and 2 zero points; their numbers must be equal and at least 1",
    ),
    "scale": (
        "QuantizationParameters",
        lambda e: {"Scale": int(e.builder.CreateNumpyVector(np.array([np.nan], "<f4")))},
        FormatError,
        "tensor `x`: scale nan is not a positive finite float32 value",
    ),
    "tensor index": (
        "SubGraph",
        lambda e: {"Inputs": e.integers([7])},
        FormatError,
        "the TFLite flatbuffer is damaged: tensor index 7 where there are 2 tensors",
    ),
    "buffer index": (
        "Tensor",
        lambda _: {"Buffer": 99},
        FormatError,
        "the TFLite flatbuffer is damaged or truncated",
    ),
}


@pytest.mark.parametrize("name", ODD_FILES)
def test_files_that_say_something_else_are_refused(name: str):
    kind, extra, expected, text = ODD_FILES[name]
    caught = error(odd_bytes(model("RELU"), kind, extra), expected)
    assert without_hint(caught) == text
    assert caught.hint


def without_hint(caught: DeuteronError) -> str:
    return str(DeuteronError(caught.message, where=caught.where))


# refusals: one operator


def moved_with_other_quant(name: str) -> FlatModel:
    return with_tensor(model(name), "y", quant=Quant((0.75,), (1,)))


def both(first: str, problem: str) -> str:
    """The text for a tensor that neither the operator before it nor the RELU after it takes."""
    return f"2 operators cannot be compiled:\n  op 0 {first}, output `h`: {problem}\n  op 1 RELU, output `y`: {problem}"


REFUSED: dict[str, tuple[Callable[[], FlatModel], type[DeuteronError], str]] = {
    "float": (
        lambda: chain("FLOAT32"),
        UnsupportedError,
        both("RELU", "float left in a partition: tensor `h` is FLOAT32"),
    ),
    "float16": (
        lambda: chain("FLOAT16"),
        UnsupportedError,
        both("RELU", "float left in a partition: tensor `h` is FLOAT16"),
    ),
    "other type": (
        lambda: chain("INT16"),
        UnsupportedError,
        both("RELU", "tensor `h` is INT16; INT8 is allowed"),
    ),
    "unknown type": (
        lambda: chain("VARIANT"),
        UnsupportedError,
        both("RELU", "tensor `h` is VARIANT; INT8 is allowed"),
    ),
    "float input": (
        lambda: with_tensor(model("RELU"), "x", dtype="FLOAT32"),
        UnsupportedError,
        "float left in a partition: graph input `x` is FLOAT32; INT8 is allowed",
    ),
    "float bias": (
        lambda: with_tensor(model("FULLY_CONNECTED"), "b", dtype="FLOAT32"),
        UnsupportedError,
        "op 0 FULLY_CONNECTED, output `y`: float left in a partition: tensor `b` is FLOAT32",
    ),
    "bias type": (
        lambda: with_tensor(model("FULLY_CONNECTED"), "b", dtype="INT64"),
        UnsupportedError,
        "op 0 FULLY_CONNECTED, output `y`: bias `b` is INT64; INT32 is allowed",
    ),
    "no quantisation": (
        lambda: with_tensor(model("RELU"), "x", quant=None),
        UnsupportedError,
        "op 0 RELU, output `y`: tensor `x` has no quantisation",
    ),
    "activation": (
        lambda: with_op(model("ADD"), options={"FusedActivationFunction": 4}),
        UnsupportedError,
        "op 0 ADD, output `y`: fused activation TANH; NONE, RELU, RELU_N1_TO_1, RELU6 are allowed",
    ),
    "activation number": (
        lambda: with_op(model("ADD"), options={"FusedActivationFunction": 77}),
        UnsupportedError,
        "op 0 ADD, output `y`: fused activation number 77; NONE, RELU, RELU_N1_TO_1, RELU6 are allowed",
    ),
    "concatenation activation": (
        lambda: with_op(model("CONCATENATION"), options={"FusedActivationFunction": 1}),
        UnsupportedError,
        "op 0 CONCATENATION, output `y`: a fused activation; NONE is allowed",
    ),
    "float output": (
        lambda: with_tensor(chain_of("PAD"), "h", dtype="FLOAT32", quant=None),
        UnsupportedError,
        both("PAD", "float left in a partition: tensor `h` is FLOAT32"),
    ),
    "beta": (
        lambda: with_op(model("SOFTMAX"), options={"Beta": float("nan")}),
        FormatError,
        "op 0 SOFTMAX, output `y`: beta nan; a positive number is required",
    ),
    "no beta": (
        lambda: with_op(model("SOFTMAX"), kind="", options={}),
        FormatError,
        "op 0 SOFTMAX, output `y`: beta 0; a positive number is required",
    ),
    "shuffled": (
        lambda: with_op(model("FULLY_CONNECTED"), options={"WeightsFormat": 1}),
        UnsupportedError,
        "op 0 FULLY_CONNECTED, output `y`: shuffled weights; the default weights format is allowed",
    ),
    "asymmetric weights": (
        lambda: with_tensor(model("FULLY_CONNECTED"), "w", quant=Quant((0.25,), (3,))),
        UnsupportedError,
        "op 0 FULLY_CONNECTED, output `y`: weights `w` have zero point 3; 0 is allowed",
    ),
    "weights rank": (
        lambda: with_tensor(model("FULLY_CONNECTED"), "w", shape=(9, 20, 1)),
        FormatError,
        "op 0 FULLY_CONNECTED, output `y`: weights `w` have 3 dimensions instead of 2",
    ),
    "inputs": (
        lambda: with_op(model("RELU"), inputs=(0, 0)),
        FormatError,
        "op 0 RELU, output `y`: 2 inputs and 1 outputs are not a form of this operator",
    ),
    "outputs": (
        lambda: with_op(model("RELU"), outputs=()),
        FormatError,
        "op 0 RELU: 1 inputs and 0 outputs are not a form of this operator",
    ),
    "left out": (
        lambda: with_op(model("ADD"), inputs=(0, -1)),
        FormatError,
        "op 0 ADD, output `y`: a required input is left out",
    ),
    "other options": (
        lambda: with_op(model("ADD"), kind="MulOptions"),
        FormatError,
        "op 0 ADD, output `y`: options MulOptions instead of AddOptions",
    ),
    "stride": (
        lambda: with_op(model("AVERAGE_POOL_2D"), options={"StrideH": 0}),
        FormatError,
        "op 0 AVERAGE_POOL_2D, output `y`: StrideH 0 and StrideW 2; both must be at least 1",
    ),
    "padding": (
        lambda: with_op(model("AVERAGE_POOL_2D"), options={"Padding": 2}),
        FormatError,
        "op 0 AVERAGE_POOL_2D, output `y`: padding number 2; 0 (SAME) and 1 (VALID) are allowed",
    ),
    "rank": (
        lambda: with_tensor(model("AVERAGE_POOL_2D"), "x", shape=(8, 6, 15)),
        FormatError,
        "op 0 AVERAGE_POOL_2D, output `y`: tensor `x` has 3 dimensions instead of 4",
    ),
    "multiplier": (
        lambda: with_op(model("DEPTHWISE_CONV_2D"), options={"DepthMultiplier": 5}),
        FormatError,
        "op 0 DEPTHWISE_CONV_2D, output `y`: depth multiplier 5 where 3 input channels give 3",
    ),
    "channels": (
        lambda: with_tensor(model("DEPTHWISE_CONV_2D"), "x", shape=(8, 6, 5, 2)),
        FormatError,
        "op 0 DEPTHWISE_CONV_2D, output `y`: 3 output channels are no multiple of 2 input channels",
    ),
    "axis": (
        lambda: with_constant(model("MEAN"), "y/axes", [4]),
        FormatError,
        "op 0 MEAN, output `y`: axis 4 of a tensor of 4 dimensions",
    ),
    "no axes": (
        lambda: with_tensor(model("MEAN"), "y/axes", shape=(0,), data=None),
        UnsupportedError,
        "op 0 MEAN, output `y`: a mean over no axes; at least one is required",
    ),
    "run-time axes": (
        lambda: with_tensor(model("MEAN"), "y/axes", data=None),
        UnsupportedError,
        "op 0 MEAN, output `y`: axes `y/axes` is computed at run time; it must be a constant",
    ),
    "axes type": (
        lambda: with_tensor(model("MEAN"), "y/axes", dtype="INT8"),
        FormatError,
        "op 0 MEAN, output `y`: axes `y/axes` is INT8; INT32 and INT64 are allowed",
    ),
    "axes bytes": (
        lambda: with_tensor(model("MEAN"), "y/axes", data=b"123"),
        FormatError,
        "op 0 MEAN, output `y`: axes `y/axes` holds 3 bytes, no whole number of INT32",
    ),
    "permutation": (
        lambda: with_constant(model("TRANSPOSE"), "y/perm", [0, 0, 1, 2]),
        FormatError,
        "op 0 TRANSPOSE, output `y`: [0, 0, 1, 2] is no permutation of 4 dimensions",
    ),
    "paddings": (
        lambda: with_constant(model("PADV2"), "y/paddings", [0, -1, 0, 0, 0, 0, 0, 0]),
        FormatError,
        "op 0 PADV2, output `y`: paddings [0, -1, 0, 0, 0, 0, 0, 0]; 8 values of at least 0 are required",
    ),
    "padding value": (
        lambda: with_tensor(model("PADV2"), "y/value", quant=Quant((0.5,), (0,))),
        UnsupportedError,
        "op 0 PADV2, output `y`: padding value `y/value` and the output have different quantisation",
    ),
    "padding bytes": (
        lambda: with_tensor(model("PADV2"), "y/value", data=b"12"),
        FormatError,
        "op 0 PADV2, output `y`: padding value `y/value` holds 2 bytes instead of 1",
    ),
    "run-time value": (
        lambda: with_tensor(model("PADV2"), "y/value", data=None),
        UnsupportedError,
        "op 0 PADV2, output `y`: padding value `y/value` is computed at run time; it must be a constant",
    ),
    "shape": (
        lambda: with_constant(model("RESHAPE"), "y/shape", [5, 4, 6]),
        FormatError,
        "op 0 RESHAPE, output `y`: shape [5, 4, 6] is asked for, the output has [1, 5, 4, 2, 3]",
    ),
    "slice rank": (
        lambda: with_constant(model("SLICE"), "y/begin", [0]),
        FormatError,
        "op 0 SLICE, output `y`: 1 begins and 4 sizes for 4 dimensions",
    ),
    "slice box": (
        lambda: with_constant(model("SLICE"), "y/begin", [4, 0, 0, 0]),
        FormatError,
        "op 0 SLICE, output `y`: begin [4, 0, 0, 0] and size [3, 1, 1, 1] do not fit into [5, 4, 2, 3]",
    ),
    "slice output": (
        lambda: with_constant(with_constant(model("SLICE"), "y/begin", [0, 0, 0, 0]), "y/size", [2, 1, 1, 1]),
        FormatError,
        "op 0 SLICE, output `y`: begin [0, 0, 0, 0] and size [2, 1, 1, 1] contradict the output's [3, 1, 1, 1]",
    ),
    "moved": (
        lambda: moved_with_other_quant("TRANSPOSE"),
        UnsupportedError,
        "op 0 TRANSPOSE, output `y`: tensor `x` and the output have different quantisation",
    ),
    "constant's size": (
        lambda: with_tensor(model("FULLY_CONNECTED"), "w", shape=(9, 21)),
        FormatError,
        "tensor `w`: constant `w` holds 180 bytes, its type needs 189",
    ),
    "zero dimension": (
        lambda: with_tensor(model("RELU"), "x", shape=(0, 4)),
        FormatError,
        "tensor `x`: shape [0, 4] has a dimension below 1",
    ),
    "negative dimension": (
        lambda: with_tensor(model("RELU"), "x", shape=(-1, 4)),
        UnsupportedError,
        "tensor `x` has a dynamic shape; all shapes must be known at compile time",
    ),
    "per-channel output": (
        lambda: with_tensor(model("ADD"), "y", quant=Quant((0.5, 0.25, 0.5), (0, 0, 0), 3)),
        FormatError,
        "op 0 ADD, output `y`: output tensor `y` has no per-tensor quantisation",
    ),
    "too many inputs": (
        lambda: replace(model("RELU"), inputs=(0,) * 256),
        UnsupportedError,
        "256 graph inputs; at most 255 are possible",
    ),
}


def chain(dtype: str) -> FlatModel:
    """Two RELUs with a tensor `h` of another type between them."""
    tensors = tuple(FlatTensor(name, (4,), dtype if name == "h" else "INT8", Q) for name in "xhy")
    return FlatModel("m", tensors, (0,), (2,), (FlatOperator("RELU", (0,), (1,)), FlatOperator("RELU", (1,), (2,))))


def chain_of(name: str) -> FlatModel:
    """The chain with `name`, which takes a constant second input, as its first operator."""
    source = chain("INT8")
    second = FlatTensor("c", (1, 2), "INT32", None, bytes(8))
    return with_op(replace(source, tensors=(*source.tensors, second)), name=name, inputs=(0, 3))


@pytest.mark.parametrize("name", REFUSED)
def test_operators_in_a_form_that_is_not_taken_are_refused(name: str):
    make, expected, text = REFUSED[name]
    caught = error(make(), expected)
    assert without_hint(caught) == text
    assert caught.hint


@pytest.mark.parametrize(
    ("operators", "rule"),
    [
        ([("RELU", 1, 2), ("RELU", 2, 1)], "an operator stands after those whose results it reads"),
        ([("RELU", 0, 1), ("RELU", 0, 1), ("RELU", 1, 2)], "every tensor is exactly one of"),
        ([("RELU", 0, 1)], "every tensor is exactly one of"),
        ([("RELU", 0, 0)], "every tensor is exactly one of"),
    ],
    ids=["cycle", "written twice", "never written", "writes its input"],
)
def test_a_graph_out_of_order_is_malformed(operators: list[tuple[str, int, int]], rule: str):
    flat = tuple(FlatOperator(name, (source,), (target,)) for name, source, target in operators)
    caught = error(replace(chain("INT8"), operators=flat), FormatError)
    assert caught.message.startswith(f"the model contradicts itself: {rule}")
    assert caught.hint == DAMAGED


def test_a_shape_that_the_operator_does_not_give_is_malformed():
    caught = error(with_tensor(model("RELU"), "y", shape=(9,)), FormatError)
    assert caught.message.startswith(
        "the model contradicts itself: the result has the shape that the operator gives; declared [9], "
        "the operator gives [5, 4, 2, 3]"
    )


def test_decoding_keeps_what_was_written():
    source = model("CONV_2D")
    assert decode(encode(source)) == source
