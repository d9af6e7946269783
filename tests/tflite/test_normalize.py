"""Files in the one form that compilers take: held against LiteRT, which runs the file before and after."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.tflite.cortex_m.detection_models import detection

from deuteron.errors import FormatError, InputError, MissingOperatorError, UnsupportedError
from deuteron.npu.neutron.convert import convert
from deuteron.runtime.litert import Litert
from deuteron.tflite.custom_options import DETECTION
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.normalize import Normalized, normalized, with_unique_names
from deuteron.tflite.quantization import Quant
from deuteron.tflite.unsigned import is_unsigned, signed
from deuteron.views.compare.litert_values import has_biases_without_type


def q(scale: float, zero_point: int) -> Quant:
    """A quantization whose scale is the nearest float32."""
    return Quant((float(np.float32(scale)),), (zero_point,))


Q = q(0.05, 3)


class Net:
    """A file that grows by tensors and operators."""

    def __init__(self) -> None:
        self.tensors: list[FlatTensor] = []
        self.operators: list[FlatOperator] = []

    def tensor(
        self, shape: Sequence[int], dtype: str = "INT8", quant: Quant | None = Q, data: bytes | None = None
    ) -> int:
        """Index of a new tensor."""
        quant = quant if dtype in ("INT8", "UINT8", "INT16") else None
        self.tensors.append(FlatTensor(f"t{len(self.tensors)}", tuple(shape), dtype, quant, data))
        return len(self.tensors) - 1

    def constant(self, values: object, dtype: str = "INT32") -> int:
        """Index of a constant."""
        array = np.asarray(values, {"INT32": "<i4", "FLOAT16": "<f2", "INT64": "<i8"}[dtype])
        return self.tensor(array.shape, dtype, None, array.tobytes())

    def op(self, name: str, inputs: Sequence[int], outputs: Sequence[int], kind: str = "", **options: object) -> int:
        """Add an operator; its first output."""
        self.operators.append(FlatOperator(name, tuple(inputs), tuple(outputs), kind, options))
        return outputs[0]

    def model(self, inputs: Sequence[int], outputs: Sequence[int]) -> FlatModel:
        """The model."""
        return FlatModel("net", tuple(self.tensors), tuple(inputs), tuple(outputs), tuple(self.operators))


def normal(model: FlatModel, shapes: dict[str, tuple[int, ...]] | None = None) -> Normalized:
    """The model's file, normalised."""
    data = encode(model)
    return normalized(data, decode(data, partial=True), shapes)


def names(model: FlatModel) -> list[str]:
    """The operators in order."""
    return [op.name for op in model.operators]


def need_same_outputs(model: FlatModel, found: Normalized) -> None:
    """LiteRT gives the same for the file before and after."""
    inputs = [model.tensors[i] for i in model.inputs]
    rng = np.random.default_rng(0)
    dtype = {"INT8": np.int8, "UINT8": np.uint8, "FLOAT32": np.float32}
    values = [rng.integers(0, 100, t.shape).astype(dtype[t.dtype]) for t in inputs]
    before, after = Litert(encode(model)).run(values), Litert(bytes(found.source)).run(values)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)


def flattened(axis_of_batch: int = 0) -> FlatModel:
    """RELU, and a Flatten as Keras writes it: SHAPE, STRIDED_SLICE, PACK, RESHAPE."""
    net = Net()
    x = net.tensor((1, 2, 3, 4))
    y = net.op("RELU", [x], [net.tensor((1, 2, 3, 4))])
    shape = net.op("SHAPE", [y], [net.tensor((4,), "INT32")], "ShapeOptions", OutType=2)
    bounds = [net.constant([axis_of_batch]), net.constant([axis_of_batch + 1]), net.constant([1])]
    batch = net.op(
        "STRIDED_SLICE", [shape, *bounds], [net.tensor((), "INT32")], "StridedSliceOptions", ShrinkAxisMask=1
    )
    pack = [batch, net.constant(-1 if axis_of_batch == 0 else 12)]
    sizes = net.op("PACK", pack, [net.tensor((2,), "INT32")], "PackOptions", ValuesCount=2, Axis=0)
    z = net.op("RESHAPE", [y, sizes], [net.tensor((1, 24))], "ReshapeOptions")
    return net.model([x], [z])


def test_the_computed_shape_of_a_flatten_leaves_nothing_behind() -> None:
    model = flattened()
    found = normal(model)
    assert names(found.model) == ["RELU", "RESHAPE"]
    need_same_outputs(model, found)


def test_a_file_that_is_in_the_form_stays_as_it_is() -> None:
    net = Net()
    x = net.tensor((1, 4))
    data = encode(net.model([x], [net.op("RELU", [x], [net.tensor((1, 4))])]))
    assert normalized(data, decode(data, partial=True)).source is data


def test_other_sizes_of_inputs_go_through_the_whole_model() -> None:
    found = normal(flattened(), {"t0": (5, 2, 3, 4)})
    tensors = [found.model.tensors[i] for i in (*found.model.inputs, *found.model.outputs)]
    assert [t.shape for t in tensors] == [(5, 2, 3, 4), (5, 24)]
    x = np.arange(120, dtype=np.int8).reshape(5, 2, 3, 4)
    (y,) = Litert(bytes(found.source)).run([x])
    np.testing.assert_array_equal(y, np.maximum(x, 3).reshape(5, 24))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"nothing": (1,)}, "the model has no input `nothing`"),
        ({"t0": (1, 2)}, "input `t0` has 4 dimensions, `--shape` gives 2"),
    ],
)
def test_sizes_that_are_of_no_input_are_refused(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        normal(flattened(), shapes)
    assert caught.value.message == message


def test_shapes_that_contradict_each_other_are_refused() -> None:
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    y = net.op("ADD", [x, net.tensor((3,))], [net.tensor((1, 4, 4, 2))], "AddOptions")
    model = replace(net.model([x, 1], [y]))
    with pytest.raises(FormatError) as caught:
        normal(model)
    assert caught.value.message == "[1, 4, 4, 2] and [3] are not broadcast together"
    assert caught.value.where == "op 0 ADD, output `t2`"


def test_a_transposed_convolution_to_more_columns_than_its_operand_gives_is_refused() -> None:
    net = Net()
    weights = net.tensor((2, 1, 5, 3), data=bytes(30))
    options = {"Padding": 1, "StrideW": 2, "StrideH": 1}
    operands = [net.constant([1, 1, 16, 2]), weights, net.tensor((1, 1, 8, 3))]
    y = net.op("TRANSPOSE_CONV", operands, [net.tensor((1, 1, 16, 2))], "TransposeConvOptions", **options)
    model = net.model(operands[2:], [y])
    with pytest.raises(InputError, match="computed_input_width"):
        Litert(encode(model))
    with pytest.raises(FormatError) as caught:
        normal(model)
    assert caught.value.message == "[1, 1, 16, 2] from [1, 1, 8, 3]; it takes [1, 6] rows and columns"


def test_a_shape_that_depends_on_a_custom_operator_is_told() -> None:
    net = Net()
    spectrum = net.op("CUSTOM", [net.tensor((4,), "FLOAT32")], [net.tensor((), "FLOAT32")])
    net.operators[0] = replace(net.operators[0], custom_code="Mfcc")
    y = net.op("RESHAPE", [spectrum, net.constant([-1, 4])], [net.tensor((1, 4), "FLOAT32")])
    with pytest.raises(MissingOperatorError, match="which the custom operator Mfcc computes") as caught:
        normal(net.model([0], [y]))
    assert caught.value.hint == "run the custom operator in the application, before or behind the model"


def test_float16_weights_and_shape_arithmetic_are_computed() -> None:
    net = Net()
    x = net.tensor((2, 3), "FLOAT32")
    weights = net.op(
        "DEQUANTIZE",
        [net.constant(np.ones((4, 3)) / 3, "FLOAT16")],
        [net.tensor((4, 3), "FLOAT32")],
        "DequantizeOptions",
    )
    y = net.op("FULLY_CONNECTED", [x, weights, -1], [net.tensor((2, 4), "FLOAT32")], "FullyConnectedOptions")
    size = net.op("MUL", [net.constant([2, 4]), net.constant([1, 1])], [net.tensor((2,), "INT32")], "MulOptions")
    z = net.op("RESHAPE", [y, size], [net.tensor((2, 4), "FLOAT32")], "ReshapeOptions")
    model = net.model([x], [z])
    found = normal(model)
    assert names(found.model) == ["FULLY_CONNECTED", "RESHAPE"]
    need_same_outputs(model, found)


@pytest.mark.parametrize(
    ("name", "kind", "operands"),
    [
        ("FLOOR_MOD", "FloorModOptions", ([11, -6], [3, 9])),
        ("NEG", "NegOptions", ([-2, -3],)),
        ("ABS", "AbsOptions", ([-2, 3],)),
        ("SELECT_V2", "SelectV2Options", ([1, 5], [2, 7], [6, 3])),
    ],
)
def test_shape_arithmetic_of_exporters_is_computed(name: str, kind: str, operands: Sequence[Sequence[int]]) -> None:
    net = Net()
    x = net.tensor((3, 2))
    given = [net.constant(each) for each in operands]
    if name == "SELECT_V2":
        given[0] = net.op("EQUAL", [given[0], net.constant([1, 1])], [net.tensor((2,), "BOOL")], "EqualOptions")
    size = net.op(name, given, [net.tensor((2,), "INT32")], kind)
    model = net.model([x], [net.op("RESHAPE", [x, size], [net.tensor((2, 3))], "ReshapeOptions")])
    found = normal(model)
    assert names(found.model) == ["RESHAPE"]
    need_same_outputs(model, found)


def dense(bias_scale: float, bias: Sequence[int] = (100, -200), dtype: str = "INT8") -> FlatModel:
    """A fully connected layer whose bias has this scale; input times weights have 0.001."""
    net = Net()
    x = net.tensor((1, 3), dtype, q(0.1, 3 if dtype == "INT8" else 131))
    of_weights = q(0.01, 0 if dtype == "INT8" else 120)
    weights = net.tensor((2, 3), dtype, of_weights, np.arange(6, dtype=np.int8).tobytes())
    scale = float(np.float32(bias_scale))
    net.tensors.append(FlatTensor("bias", (2,), "INT32", Quant((scale,), (0,)), np.array(bias, "<i4").tobytes()))
    y = net.tensor((1, 2), dtype, q(0.02, -5 if dtype == "INT8" else 123))
    net.op("FULLY_CONNECTED", [x, weights, 2], [y], "FullyConnectedOptions")
    return net.model([x], [y])


def test_a_shape_that_is_an_input_is_noted() -> None:
    """LiteRT gives the result another shape for each value of the input."""
    net = Net()
    shape, x = net.tensor((2,), "INT32"), net.tensor((2, 6))
    y = net.op("RESHAPE", (x, shape), (net.tensor((3, 4)),), "ReshapeOptions", NewShape=())
    assert normal(net.model((x, shape), (y,))).notes == (
        "op 0 RESHAPE, output `t2`: the result has the shape of the file; what `t0` holds when the model runs does not "
        "change it, as it would in LiteRT",
    )


@pytest.mark.parametrize(("scale", "notes"), [(0.001001, 0), (0.0015, 1)])
def test_a_bias_gets_the_scale_in_which_litert_adds_it(scale: float, notes: int) -> None:
    model = dense(scale)
    found = normal(model)
    (bias,) = (t for t in found.model.tensors if t.name == "bias")
    assert bias.quant == Quant((float(np.float32(0.1) * np.float32(0.01)),), (0,))
    assert len(found.notes) == notes
    if not notes:
        need_same_outputs(model, found)


def test_a_bias_whose_scale_is_wrong_beyond_reason_is_refused_unless_it_is_zero() -> None:
    with pytest.raises(UnsupportedError) as caught:
        normal(dense(0.1))
    assert caught.value.message == "bias `bias` has the scale 0.1, input times weights have 0.001"
    assert not normal(dense(0.1, (0, 0))).notes


@pytest.mark.parametrize("target", [None, "imxrt700"])
def test_layers_that_share_a_bias_get_one_each(target: str | None) -> None:
    model = dense(0.001, (0, 0))
    tensors = [*model.tensors, FlatTensor("y2", (1, 2), "INT8", q(0.02, -5))]
    weights = replace(tensors[1], name="w2", shape=(2, 2), quant=q(0.04, 0), data=bytes(4))
    layer = replace(model.operators[0], inputs=(3, len(tensors), 2), outputs=(4,))
    shared = replace(model, tensors=(*tensors, weights), operators=(model.operators[0], layer), outputs=(4,))
    found = normal(shared)
    biases = [found.model.tensors[op.inputs[2]] for op in found.model.operators]
    assert [bias.quant for bias in biases] == [
        Quant((float(np.float32(x) * np.float32(w)),), (0,)) for x, w in ((0.1, 0.01), (0.02, 0.04))
    ]
    need_same_outputs(shared, found)
    if target:
        assert convert(bytes(found.source), target).container is not None


def test_int4_weights_are_unpacked() -> None:
    net = Net()
    x = net.tensor((1, 3))
    values = np.array([-8, 7, -1, 0, 3, -4])
    packed = (values[::2] & 15) | ((values[1::2] & 15) << 4)
    weights = net.tensor((2, 3), "INT8", q(0.01, 0), packed.astype(np.uint8).tobytes())
    net.tensors[weights] = replace(net.tensors[weights], dtype="INT4")
    y = net.op("FULLY_CONNECTED", [x, weights, -1], [net.tensor((1, 2))], "FullyConnectedOptions")
    model = net.model([x], [y])
    found = normal(model)
    (stored,) = (t for t in found.model.tensors if t.data)
    assert stored.dtype == "INT8"
    np.testing.assert_array_equal(np.frombuffer(stored.data or b"", np.int8), values)
    need_same_outputs(model, found)


def test_uint8_files_are_int8_inside() -> None:
    model = signed(dense(0.001, dtype="UINT8"))
    assert names(model) == ["QUANTIZE", "FULLY_CONNECTED", "QUANTIZE"]
    assert [model.tensors[i].dtype for i in (*model.inputs, *model.outputs)] == ["UINT8", "UINT8"]
    assert [op.is_unsigned for op in model.operators] == [False, True, False]
    x, weights, _ = (model.tensors[i] for i in model.operators[1].inputs)
    assert (x.dtype, x.quant, weights.quant) == ("INT8", q(0.1, 3), q(0.01, -8))
    assert weights.data == bytes((np.arange(6) - 128).astype(np.int8))


def test_a_quantize_from_uint8_alone_makes_no_uint8_file() -> None:
    net = Net()
    x = net.tensor((1, 4), "UINT8", q(0.05, 131))
    y = net.op("RELU", [net.op("QUANTIZE", [x], [net.tensor((1, 4))])], [net.tensor((1, 4))])
    model = net.model([x], [y])
    assert not is_unsigned(model)
    assert signed(model) is model


def test_each_tensor_has_a_name_of_its_own_and_the_outputs_keep_theirs() -> None:
    net = Net()
    given = net.tensor((1, 4))
    for _ in range(3):
        net.op("TANH", [given], [net.tensor((1, 4))])
    given_names = ["x", "y", "y", "y/2"]
    net.tensors = [replace(tensor, name=name) for tensor, name in zip(net.tensors, given_names, strict=True)]
    model = net.model([given], [2])
    assert with_unique_names(replace(model, tensors=model.tensors[:2])).tensors == model.tensors[:2]
    found = with_unique_names(model)
    assert [tensor.name for tensor in found.tensors] == ["x", "y/3", "y", "y/2"]
    assert not found.is_file


def test_the_scales_of_a_tensor_of_one_dimension_are_along_it() -> None:
    """Old converters give a bias the dimension of its weights."""
    net = Net()
    given = net.tensor((2,), quant=Quant((0.5, 0.25), (0, 0), 3))
    (tensor,) = decode(encode(net.model([given], [given]))).tensors
    assert tensor.quant == Quant((0.5, 0.25), (0, 0), 0)
    wrong = net.tensor((3,), quant=Quant((0.5, 0.25), (0, 0), 3))
    with pytest.raises(FormatError, match="it has 2 scales along dimension 3 of "):
        normal(net.model([wrong], [wrong]))


def test_a_bias_with_the_dimension_of_its_weights_is_written_as_litert_takes_it() -> None:
    net = Net()
    x, scales = net.tensor((1, 3)), (0.5, 0.25)
    weights = net.tensor((2, 3), "INT8", Quant(scales, (0, 0), 0), np.arange(6, dtype=np.int8).tobytes())
    product = Quant(tuple(float(np.float32(0.1) * np.float32(scale)) for scale in scales), (0, 0), 3)
    net.tensors.append(FlatTensor("bias", (2,), "INT32", product, np.array([5, -9], "<i4").tobytes()))
    y = net.op("FULLY_CONNECTED", [x, weights, 2], [net.tensor((1, 2))], "FullyConnectedOptions")
    source = encode(net.model([x], [y]))
    with pytest.raises(InputError, match="quantized_dimension must be in range"):
        Litert(source)
    found = normalized(source, decode(source, partial=True))
    assert Litert(bytes(found.source)).run([np.array([[1, 2, 3]], np.int8)])[0].shape == (1, 2)


def test_weights_with_a_scale_per_channel_are_dequantized() -> None:
    net = Net()
    x = net.tensor((2, 3), "FLOAT32")
    scales = tuple(float(np.float32(scale)) for scale in (0.1, 0.03, 0.7, 0.011))
    weights = net.tensor((4, 3), "INT8", Quant(scales, (0,) * 4, 0), np.arange(-6, 6, dtype=np.int8).tobytes())
    real = net.op("DEQUANTIZE", [weights], [net.tensor((4, 3), "FLOAT32")], "DequantizeOptions")
    y = net.op("FULLY_CONNECTED", [x, real, -1], [net.tensor((2, 4), "FLOAT32")], "FullyConnectedOptions")
    model = net.model([x], [y])
    found = normal(model)
    assert names(found.model) == ["FULLY_CONNECTED"]
    need_same_outputs(model, found)


def test_quantized_anchors_are_dequantized() -> None:
    source = detection("FLOAT32")(np.random.default_rng(0))
    boxes, scores, anchors = source.operators[0].inputs
    number = len(source.tensors)
    stored = FlatTensor("q", source.tensors[anchors].shape, "INT8", q(1 / 200, -100))
    stored = replace(stored, data=np.random.default_rng(1).integers(-99, 127, stored.shape, np.int8).tobytes())
    tensors = [*source.tensors, stored]
    tensors[anchors] = replace(tensors[anchors], data=None)
    operators = (
        FlatOperator("DEQUANTIZE", (number,), (anchors,)),
        replace(source.operators[0], inputs=(boxes, scores, anchors)),
    )
    model = replace(source, tensors=tuple(tensors), operators=operators)
    found = normal(model)
    assert [op.title for op in found.model.operators] == [DETECTION]
    need_same_outputs(model, found)


def test_factors_of_zeros_need_no_scale() -> None:
    net = Net()
    x = net.tensor((1, 3))
    zeros = net.tensor((1, 3), quant=None, data=bytes(3))
    y = net.op("MUL", [x, zeros], [net.tensor((1, 3), quant=q(1e-42, 5))], "MulOptions", FusedActivationFunction=0)
    model = net.model([x], [y])
    found = normal(model)
    assert [t.quant for t in found.model.tensors if t.data] == [q(1e-42, 0)]
    need_same_outputs(model, found)


def test_an_int32_bias_of_an_int16_layer_gets_the_option_that_says_it() -> None:
    net = Net()
    x = net.tensor((1, 3), "INT16", q(0.1, 0))
    weights = net.tensor((2, 3), "INT8", q(0.01, 0), np.arange(6, dtype=np.int8).tobytes())
    bias = net.constant([7, -9])
    y = net.tensor((1, 2), "INT16", q(0.02, 0))
    net.op("FULLY_CONNECTED", [x, weights, bias], [y], "FullyConnectedOptions", QuantizedBiasType=0)
    model = net.model([x], [y])
    found = normal(model)
    assert [op.options["QuantizedBiasType"] for op in found.model.operators] == [2]
    assert found.notes == (
        "bias `t2` is int32 and the layer's options do not say it: LiteRT reads such bytes as int64",
    )
    assert not normal(found.model).notes
    assert has_biases_without_type(encode(model))
    assert not has_biases_without_type(bytes(found.source))


def test_shapes_of_arguments_are_broadcast() -> None:
    net = Net()
    x = net.tensor((3, 1), "FLOAT32")
    size = net.op("BROADCAST_ARGS", [net.constant([3, 1]), net.constant([4])], [net.tensor((2,), "INT32")])
    y = net.op("BROADCAST_TO", [x, size], [net.tensor((3, 4), "FLOAT32")], "BroadcastToOptions")
    model = net.model([x], [y])
    found = normal(model)
    assert names(found.model) == ["BROADCAST_TO"]
    need_same_outputs(model, found)
