"""The exact text of each refusal of one operator."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from tests.npu.neutron.tflite.files import (
    FlatModel,
    FlatTensor,
    chain,
    error,
    model,
    nearest_resize,
    square_product,
    strided_slice,
    transpose_conv,
    with_constant,
    with_op,
    with_tensor,
    without_hint,
)

from deuteron.errors import DeuteronError, FormatError, UnsupportedError
from deuteron.tflite.quantization import Quant


def chain_of(name: str) -> FlatModel:
    """The chain with `name`, which takes a constant second input, as its first operator."""
    source = chain("INT8")
    second = FlatTensor("c", (1, 2), "INT32", None, bytes(8))
    return with_op(replace(source, tensors=(*source.tensors, second)), name=name, inputs=(0, 3))


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
    "groups": (
        lambda: with_tensor(model("CONV_2D"), "x", shape=(8, 6, 5, 6)),
        UnsupportedError,
        "op 0 CONV_2D, output `y`: 2 groups of 3 input channels; one group is allowed",
    ),
    "bias type": (
        lambda: with_tensor(model("FULLY_CONNECTED"), "b", dtype="INT64"),
        UnsupportedError,
        "op 0 FULLY_CONNECTED, output `y`: bias `b` is INT64; INT32 is allowed",
    ),
    "no quantization": (
        lambda: with_tensor(model("RELU"), "x", quant=None),
        UnsupportedError,
        "op 0 RELU, output `y`: tensor `x` has no quantization",
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
        "op 0 RELU, output `y`: 2 inputs and 1 output are not a form of this operator",
    ),
    "outputs": (
        lambda: with_op(model("RELU"), outputs=()),
        FormatError,
        "op 0 RELU: 1 input and 0 outputs are not a form of this operator",
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
        "op 0 PADV2, output `y`: padding value `y/value` and the output have different quantization",
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
    "stacks": (
        lambda: with_tensor(square_product(), "b", shape=(1, 3, 3)),
        UnsupportedError,
        "op 0 BATCH_MATMUL, output `y`: stacks [2] and [1] of matrices; they must be equal",
    ),
    "slope": (
        lambda: with_op(model("LEAKY_RELU"), options={"Alpha": float("nan")}),
        FormatError,
        "op 0 LEAKY_RELU, output `y`: the slope is not a number",
    ),
    "no axes of a sum": (
        lambda: with_tensor(model("SUM"), "y/axes", shape=(0,), data=None),
        UnsupportedError,
        "op 0 SUM, output `y`: a sum over no axes; at least one is required",
    ),
    "no axes of a maximum": (
        lambda: with_tensor(model("REDUCE_MAX"), "y/axes", shape=(0,), data=None),
        UnsupportedError,
        "op 0 REDUCE_MAX, output `y`: a maximum over no axes; at least one is required",
    ),
    "axis of a minimum": (
        lambda: with_constant(model("REDUCE_MIN"), "y/axes", [-5]),
        FormatError,
        "op 0 REDUCE_MIN, output `y`: axis -5 of a tensor of 4 dimensions",
    ),
    "mirror mode": (
        lambda: with_op(model("MIRROR_PAD"), options={"Mode": 1}),
        UnsupportedError,
        "op 0 MIRROR_PAD, output `y`: mode SYMMETRIC; REFLECT is allowed",
    ),
    "mirror mode number": (
        lambda: with_op(model("MIRROR_PAD"), options={"Mode": 7}),
        UnsupportedError,
        "op 0 MIRROR_PAD, output `y`: mode number 7; REFLECT is allowed",
    ),
    "mirror paddings": (
        lambda: with_constant(model("MIRROR_PAD"), "y/paddings", [1, 1]),
        FormatError,
        "op 0 MIRROR_PAD, output `y`: paddings [1, 1]; 8 values of at least 0 are required",
    ),
    "corners and centres": (
        lambda: with_op(model("RESIZE_BILINEAR"), options={"AlignCorners": True, "HalfPixelCenters": True}),
        FormatError,
        "op 0 RESIZE_BILINEAR, output `y`: aligned corners and half-pixel centres exclude each other",
    ),
    "corners of a nearest resize": (
        lambda: with_op(model("RESIZE_NEAREST_NEIGHBOR"), options={"AlignCorners": True}),
        UnsupportedError,
        "op 0 RESIZE_NEAREST_NEIGHBOR, output `y`: aligned corners; they are not allowed",
    ),
    "centres of a nearest resize": (
        lambda: nearest_resize((4, 6), (8, 9), centres=True),
        UnsupportedError,
        "op 0 RESIZE_NEAREST_NEIGHBOR, output `y`: half-pixel centres where 4 become 8 and 6 become 9; they are "
        "allowed where the size grows by whole factors",
    ),
    "resize to": (
        lambda: with_constant(model("RESIZE_BILINEAR"), "y/size", [9, 9]),
        FormatError,
        "op 0 RESIZE_BILINEAR, output `y`: size [9, 9] is asked for, the output has [6, 5, 4, 2]",
    ),
    "run-time size": (
        lambda: with_tensor(model("RESIZE_NEAREST_NEIGHBOR"), "y/size", data=None),
        UnsupportedError,
        "op 0 RESIZE_NEAREST_NEIGHBOR, output `y`: size `y/size` is computed at run time; it must be a constant",
    ),
    "resize rank": (
        lambda: with_tensor(model("RESIZE_BILINEAR"), "x", shape=(6, 5, 8)),
        FormatError,
        "op 0 RESIZE_BILINEAR, output `y`: tensor `x` has 3 dimensions instead of 4",
    ),
    "asked shape": (
        lambda: with_constant(transpose_conv(1, (1, 1), (6, 5)), "y/shape", [1, 6, 6, 2]),
        FormatError,
        "op 0 TRANSPOSE_CONV, output `y`: output shape [1, 6, 6, 2] is asked for, the output has [1, 6, 5, 2]",
    ),
    "shape's rank": (
        lambda: with_tensor(
            with_constant(transpose_conv(1, (1, 1), (6, 5)), "y/shape", [6, 5, 2]), "y", shape=(6, 5, 2)
        ),
        FormatError,
        "op 0 TRANSPOSE_CONV, output `y`: the output has 3 dimensions instead of 4",
    ),
    "run-time shape": (
        lambda: with_tensor(transpose_conv(1, (1, 1), (6, 5)), "y/shape", data=None),
        UnsupportedError,
        "op 0 TRANSPOSE_CONV, output `y`: output shape `y/shape` is computed at run time; it must be a constant",
    ),
    "kernel's rank": (
        lambda: with_tensor(transpose_conv(1, (1, 1), (6, 5)), "w", shape=(2, 3, 2)),
        FormatError,
        "op 0 TRANSPOSE_CONV, output `y`: tensor `w` has 3 dimensions instead of 4",
    ),
    "map's rank": (
        lambda: with_tensor(transpose_conv(1, (1, 1), (6, 5)), "x", shape=(4, 4, 1)),
        FormatError,
        "op 0 TRANSPOSE_CONV, output `y`: tensor `x` has 3 dimensions instead of 4",
    ),
    "transposed stride": (
        lambda: with_op(transpose_conv(1, (1, 1), (6, 5)), options={"StrideW": 0}),
        FormatError,
        "op 0 TRANSPOSE_CONV, output `y`: StrideH 1 and StrideW 0; both must be at least 1",
    ),
    "transposed padding": (
        lambda: with_op(transpose_conv(1, (1, 1), (6, 5)), options={"Padding": 4}),
        FormatError,
        "op 0 TRANSPOSE_CONV, output `y`: padding number 4; 0 (SAME) and 1 (VALID) are allowed",
    ),
    "asymmetric kernel": (
        lambda: with_tensor(transpose_conv(1, (1, 1), (6, 5)), "w", quant=Quant((0.25,), (-1,))),
        UnsupportedError,
        "op 0 TRANSPOSE_CONV, output `y`: weights `w` have zero point -1; 0 is allowed",
    ),
    "strides": (
        lambda: strided_slice([0, 0], [4, 2], (2, 1)),
        UnsupportedError,
        "op 0 STRIDED_SLICE, output `y`: strides [2, 1]; 1 is allowed",
    ),
    **{
        mask: (
            partial(strided_slice, [0, 0], [2, 2], **{mask: 1}),
            UnsupportedError,
            f"op 0 STRIDED_SLICE, output `y`: {mask} 1; 0 is allowed",
        )
        for mask in ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset")
    },
    "strided ranks": (
        lambda: strided_slice([0], [2, 2]),
        FormatError,
        "op 0 STRIDED_SLICE, output `y`: 1 begins, 2 ends and 2 strides for 2 dimensions",
    ),
    "strided output": (
        lambda: strided_slice([0, 0], [2, 3]),
        FormatError,
        "op 0 STRIDED_SLICE, output `y`: begin [0, 0] and end [2, 3] contradict the output's [2, 2]",
    ),
    **{
        f"moved {name}": (
            partial(moved_with_other_quant, name),
            UnsupportedError,
            f"op 0 {name}, output `y`: tensor `x` and the output have different quantization",
        )
        for name in (
            "MIRROR_PAD",
            "REDUCE_MAX",
            "REDUCE_MIN",
            "RESHAPE",
            "RESIZE_BILINEAR",
            "RESIZE_NEAREST_NEIGHBOR",
            "SLICE",
            "TRANSPOSE",
        )
    },
    "moved PADV2": (
        lambda: with_tensor(model("PADV2"), "x", quant=Quant((0.75,), (1,))),
        UnsupportedError,
        "op 0 PADV2, output `y`: tensor `x` and the output have different quantization",
    ),
    "moved CONCATENATION": (
        lambda: with_tensor(model("CONCATENATION"), "x0", quant=Quant((0.75,), (1,))),
        UnsupportedError,
        "op 0 CONCATENATION, output `y`: tensor `x0` and the output have different quantization",
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
        "op 0 ADD, output `y`: output tensor `y` has no per-tensor quantization",
    ),
    "too many inputs": (
        lambda: replace(model("RELU"), inputs=(0,) * 256),
        UnsupportedError,
        "256 graph inputs; at most 255 are possible",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operators_in_a_form_that_is_not_taken_are_refused(name: str):
    make, expected, text = REFUSED[name]
    caught = error(make(), expected)
    assert without_hint(caught) == text
    assert caught.hint


CONTRADICTIONS: dict[str, tuple[Callable[[], FlatModel], str]] = {
    "vectors": (
        lambda: with_tensor(with_tensor(square_product(), "a", shape=(3,)), "b", shape=(3,)),
        "[3] and [3] are not stacks of equally many matrices",
    ),
    "product": (
        lambda: with_tensor(square_product(), "b", shape=(2, 4, 3)),
        "rows of 3 elements do not meet columns of 4",
    ),
    "alpha": (
        lambda: with_tensor(model("PRELU"), "alpha", shape=(9,), data=bytes(9)),
        "shapes [6, 5, 4, 2] and [9] do not broadcast",
    ),
    "operands": (
        lambda: with_tensor(model("MAXIMUM"), "b", shape=(7,)),
        "shapes [5, 4, 2, 3] and [7] do not broadcast",
    ),
    "mirror": (
        lambda: with_constant(model("MIRROR_PAD"), "y/paddings", [5, 0, 0, 0, 0, 0, 0, 0]),
        "a padding reaches beyond the far edge of [5, 4, 2, 3]",
    ),
    "channels": (
        lambda: with_tensor(transpose_conv(1, (1, 1), (6, 5)), "x", shape=(1, 4, 4, 2)),
        "weights [2, 3, 2, 1] do not fit 2 input channels",
    ),
    "resize": (
        lambda: with_tensor(model("RESIZE_BILINEAR"), "x", shape=(6, 5, 4, 3)),
        "[6, 5, 4, 3] has other batches or channels",
    ),
    "squeeze": (
        lambda: with_op(with_tensor(model("RESHAPE"), "y", shape=(5, 4)), name="SQUEEZE", kind="", inputs=(0,)),
        "[5, 4, 2, 3] has another number of elements",
    ),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_shapes_that_contradict_the_operator_are_malformed(name: str):
    make, text = CONTRADICTIONS[name]
    caught = error(make(), FormatError)
    assert caught.message.startswith(
        f"the model contradicts itself: the result has the shape that the operator gives; {text}\n\n> 0: "
    )
    assert caught.where.endswith(", op 0 (`y`)")


def test_every_operator_that_cannot_be_compiled_is_named():
    source = chain("INT8")
    operators = tuple(replace(op, name=name) for op, name in zip(source.operators, ("GELU", "SIN"), strict=True))
    caught = error(replace(source, operators=operators), UnsupportedError)
    assert str(caught) == (
        "2 operators cannot be compiled:\n"
        "  op 0 GELU, output `h`: the compiler for the Neutron does not support this operator\n"
        "  op 1 SIN, output `y`: the compiler for the Neutron does not support this operator\n\n"
        "hint: keep it on the CPU, or express it through the operators that `deuteron ops` lists"
    )
