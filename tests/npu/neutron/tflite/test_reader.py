"""The reader's result for every option, and the exact text of each refusal of a whole file."""

from dataclasses import replace

import numpy as np
import pytest
import tflite
from tests.npu.neutron.tflite.files import (
    Extra,
    FlatModel,
    FlatOperator,
    FlatTensor,
    Q,
    chain,
    encode,
    error,
    model,
    odd_bytes,
    outside_bytes,
    square_product,
    strided_slice,
    transpose_conv,
    with_constant,
    with_op,
    with_tensor,
    without_hint,
)

from deuteron.errors import DeuteronError, FormatError, UnsupportedError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.types import DType
from deuteron.npu.neutron.tflite.operators.table import LOWERINGS
from deuteron.npu.neutron.tflite.reader import op_names, read
from deuteron.tflite.decode import decode
from deuteron.tflite.flat_model import TABLE
from deuteron.tflite.quantization import Quant

DAMAGED = "make the file again; it is damaged or its exporter has a defect"


def only_op(source: FlatModel) -> ops.Op:
    (op,) = read(encode(source)).ops
    return op


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
        (2, -4, ops.Clamp(lo=-6, hi=-2)),
        (2, 127, ops.Clamp(lo=125, hi=127)),
        (3, -4, ops.Clamp(lo=-4, hi=8)),
        (3, 120, ops.Clamp(lo=120, hi=127)),
        (1, -128, ops.Clamp()),
    ],
)
def test_a_fused_activation_is_a_clamp_in_the_outputs_quantization(code: int, zero_point: int, clamp: ops.Clamp):
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


def test_a_bias_whose_other_dimensions_are_1_is_a_vector():
    source = model("FULLY_CONNECTED")
    bias = next(tensor for tensor in source.tensors if tensor.name == "b")
    graph = read(encode(with_tensor(source, "b", shape=(1, 1, *bias.shape))))
    (op,) = graph.ops
    found = graph.tensor(op.inputs[2])
    assert (found.type.shape, found.data) == (bias.shape, bias.data)


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


@pytest.mark.parametrize(
    ("changes", "begin"),
    [
        ({"begin": [1, 0], "end": [3, 2]}, (1, 0)),
        ({"begin": [-4, -9], "end": [-2, -1]}, (1, 0)),
        ({"begin": [3, 1], "end": [99, 99]}, (3, 1)),
        ({"begin": [4, 1], "end": [2, 0], "BeginMask": 1, "EndMask": 2}, (0, 1)),
    ],
    ids=["plain", "from the end", "beyond the end", "masked"],
)
def test_a_strided_slice_with_strides_of_one_is_a_slice(changes: dict[str, object], begin: tuple[int, ...]):
    assert only_op(strided_slice(**changes)) == ops.Slice(inputs=("x",), outputs=("y",), origin=(0,), begin=begin)


@pytest.mark.parametrize(("name", "inputs", "y"), [("SQUEEZE", (0,), (3, 4)), ("EXPAND_DIMS", (0, 2), (1, 3, 1, 4))])
def test_dimensions_of_one_come_and_go(name: str, inputs: tuple[int, ...], y: tuple[int, ...]):
    tensors = (
        FlatTensor("x", (1, 3, 4), "INT8", Q),
        FlatTensor("y", y, "INT8", Q),
        FlatTensor("axis", (1,), "INT32", None, bytes([2, 0, 0, 0])),
    )
    op = only_op(FlatModel("m", tensors, (0,), (1,), (FlatOperator(name, inputs, (1,)),)))
    assert op == ops.Reshape(inputs=("x",), outputs=("y",), origin=(0,))


@pytest.mark.parametrize(
    ("padding", "stride", "size", "pads"),
    [
        (1, (1, 1), (6, 5), ops.Pads()),
        (1, (2, 1), (9, 5), ops.Pads()),
        (1, (2, 1), (10, 5), ops.Pads(bottom=-1)),
        (0, (2, 1), (8, 4), ops.Pads(top=0, bottom=1, left=0, right=1)),
        (0, (1, 1), (4, 4), ops.Pads(top=1, bottom=1, left=0, right=1)),
    ],
)
def test_a_transposed_convolution_is_cropped_as_a_convolution_is_padded(
    padding: int, stride: ops.Pair, size: ops.Pair, pads: ops.Pads
):
    op = only_op(transpose_conv(padding, stride, size))
    assert op == ops.TransposeConv(
        inputs=("x", "w", "b"), outputs=("y",), origin=(0,), stride=stride, pads=pads, clamp=ops.Clamp()
    )


def test_a_transposed_convolution_without_a_bias_gets_zeros():
    source = transpose_conv(1, (1, 1), (6, 5))
    graph = read(encode(with_op(source, inputs=source.operators[0].inputs[:3])))
    assert graph.ops[0].inputs == ("x", "w", "y/bias")
    assert not np.any(graph.tensor("y/bias").array())


def test_options_of_the_remaining_operators_are_read():
    product = only_op(with_op(square_product(), options={"AdjX": True, "AdjY": False}))
    assert isinstance(product, ops.BatchMatMul)
    assert (product.adj_x, product.adj_y) == (True, False)
    slope = only_op(with_op(model("LEAKY_RELU"), options={"Alpha": -0.25}))
    assert isinstance(slope, ops.LeakyRelu)
    assert slope.alpha == -0.25
    resize = only_op(with_op(model("RESIZE_BILINEAR"), options={"AlignCorners": True, "HalfPixelCenters": False}))
    assert isinstance(resize, ops.ResizeBilinear)
    assert (resize.align_corners, resize.half_pixel_centers) == (True, False)
    summed = only_op(with_constant(model("SUM"), "y/axes", [-4]))
    assert isinstance(summed, ops.Sum)
    assert summed.axes == (0,)


def test_every_reader_says_in_a_sentence_what_it_accepts():
    for name, lowering in LOWERINGS.items():
        text = lowering.function.__doc__ or ""
        assert text.endswith("."), name
        assert "\n" not in text, name
        assert len(text) <= 120, name


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
    assert [name for name in LOWERINGS if not hasattr(tflite.BuiltinOperator, name)] == [TABLE]


# refusals: whole file


def test_an_unsupported_operator_names_itself_its_place_and_what_is_allowed():
    caught = error(with_op(model("RELU"), name="GELU"), UnsupportedError)
    assert str(caught) == (
        "op 0 GELU, output `y`: the compiler for the Neutron does not support this operator\n\n"
        "hint: keep it on the CPU, or express it through the operators that `deuteron ops` lists"
    )
    custom = error(with_op(model("RELU"), name="CUSTOM", custom_code="MyOp"), UnsupportedError)
    assert custom.where == "op 0 CUSTOM `MyOp`, output `y`"
    assert op_names(encode(with_op(model("RELU"), name="CUSTOM", custom_code="MyOp"))) == ("MyOp",)


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
        lambda e: {"Shape": e.integers([-1, 4, 2, 3])},
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
        "tensor `x` is sparse and has no values; only constants may be sparse",
    ),
    "custom quantization": (
        "QuantizationParameters",
        lambda e: {"DetailsType": 1, "Details": e.table("CustomQuantization")},
        UnsupportedError,
        "tensor `x` has custom quantization; scales and zero points are allowed",
    ),
    "two zero points": (
        "QuantizationParameters",
        lambda e: {"ZeroPoint": e.integers([1, 2], "<i8")},
        FormatError,
        "tensor `x`: quantization has 1 scales and 2 zero points; their numbers must be equal and at least 1",
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
        "the TFLite flatbuffer is damaged: buffer 99 where there are 1 buffers",
    ),
}


@pytest.mark.parametrize("name", ODD_FILES)
def test_files_that_say_something_else_are_refused(name: str):
    kind, extra, expected, text = ODD_FILES[name]
    caught = error(odd_bytes(model("RELU"), kind, extra), expected)
    assert without_hint(caught) == text
    assert caught.hint


# graphs


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


# buffers behind the flatbuffer


@pytest.mark.parametrize("least", [1, 100])
def test_data_behind_the_flatbuffer_is_read(least: int):
    source = replace(model("CONV_2D"), metadata={"note": b"n" * 100})
    data = outside_bytes(source, least)
    assert data.endswith(b"n" * 100 + bytes(12))
    assert decode(data) == source


def test_data_in_the_flatbuffer_goes_before_data_behind_it():
    source = model("CONV_2D")
    assert decode(odd_bytes(source, "Buffer", lambda _: {"Offset": 16, "Size": 16})).tensors[1] == source.tensors[1]


@pytest.mark.parametrize(("start", "size"), [(0, 16), (1, 16), (16, 0), (10**18, 0)])
def test_a_buffer_without_a_place_or_a_size_is_empty(start: int, size: int):
    source = model("RELU")
    assert decode(odd_bytes(source, "Buffer", lambda _: {"Offset": start, "Size": size})) == source


@pytest.mark.parametrize(("start", "size"), [(4096, 16), (16, 10**6), (2**64 - 8, 16), (16, 2**64 - 1)])
def test_data_beyond_the_file_is_refused(start: int, size: int):
    data = odd_bytes(model("RELU"), "Buffer", lambda _: {"Offset": start, "Size": size})
    assert str(error(data, FormatError)) == (
        f"the TFLite file is damaged or cut off: buffer 0 is its bytes {start} to {start + size}, and it has "
        f"{len(data)}\n\nhint: copy the file again, or make it again"
    )


def test_data_that_is_one_byte_short_is_refused():
    source = replace(chain("INT8"), metadata={"note": bytes(64)})
    data = outside_bytes(source)
    assert decode(data) == source
    assert error(data[:-1], FormatError).message == (
        f"the TFLite file is damaged or cut off: buffer 1 is its bytes {len(data) - 64} to {len(data)}, and it has "
        f"{len(data) - 1}"
    )
