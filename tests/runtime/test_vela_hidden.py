"""Operators that stop Vela, or that it loses, run on the CPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import full
from tests.tflite.cortex_m.models import Quant, constant, f32, model, tensor
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.graph_check import built

from deuteron.errors import UnsupportedError
from deuteron.runtime import vela_hidden
from deuteron.runtime.litert import Litert
from deuteron.runtime.tflite_build import build_of
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator

Q = Quant((f32(0.05),), (3,))


def comparison() -> FlatModel:
    a, b, y = (
        tensor(name, (2, 3), dtype, q) for name, dtype, q in (("a", "INT8", Q), ("b", "INT8", Q), ("y", "BOOL", None))
    )
    return model("LESS", [a, b], [y])


def real_function() -> FlatModel:
    return model("HARD_SWISH", [tensor("x", (5,), "FLOAT32")], [tensor("y", (5,), "FLOAT32")])


def filled() -> FlatModel:
    """A FILL whose result is an output, and a RELU."""
    fill = model("FILL", [constant("d", [2, 3]), constant("v", 2.5, "FLOAT32")], [tensor("y", (2, 3), "FLOAT32")])
    relu = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("z", (4,), "INT8", Q)])
    (first,), (second,) = fill.operators, relu.operators
    moved = type(second)("RELU", (3,), (4,))
    return FlatModel("both", (*fill.tensors, *relu.tensors), (3,), (2, 4), (first, moved))


def wide_function(name: str = "TANH") -> FlatModel:
    """A function of int16, which an Ethos-U has built in."""
    x, y = (tensor(name, (3, 5), "INT16", Quant((f32(scale),), (0,))) for name, scale in (("x", 2**-12), ("y", 2**-15)))
    return model(name, [x], [y])


def wide_sigmoid() -> FlatModel:
    return wide_function("LOGISTIC")


def mirrored(*pads: tuple[int, int], dtype: str = "INT32") -> FlatModel:
    dims = (2, 4, 3, 5)[-len(pads) :]
    out = [size + sum(pad) for size, pad in zip(dims, pads, strict=True)]
    x, y = tensor("x", dims, "INT8", Q), tensor("z", out, "INT8", Q)
    return model("MIRROR_PAD", [x, constant("pads", pads, dtype)], [y], "MirrorPadOptions", {"Mode": 0})


def mirrored_channels() -> FlatModel:
    return mirrored((0, 0), (1, 0), (2, 1))


def mirrored_vector() -> FlatModel:
    return mirrored((0, 2), dtype="INT64")


def mirrored_batches() -> FlatModel:
    return mirrored((1, 0), (0, 0), (0, 0), (0, 0))


def mirrored_and_compared() -> FlatModel:
    """A mirror pad of channels in a file that stops Vela."""
    pad, less = mirrored((0, 0), (1, 0), (2, 1)), comparison()
    count = len(pad.tensors)
    (op,) = less.operators
    moved = replace(op, inputs=tuple(i + count for i in op.inputs), outputs=tuple(i + count for i in op.outputs))
    inputs, outputs = (
        (*a, *(i + count for i in b)) for a, b in ((pad.inputs, less.inputs), (pad.outputs, less.outputs))
    )
    return FlatModel("both", (*pad.tensors, *less.tensors), inputs, outputs, (*pad.operators, moved))


def read_output() -> FlatModel:
    """A reshaped tensor that is an output and is unpacked, before another reshape: Vela makes no tensor of it."""
    like = tensor("x", (24,), "INT16", Quant((f32(2**-12),), (0,)))
    parts = [replace(like, name=f"p{i}", shape=(4, 2)) for i in range(3)]
    others = (tensor("real", (4, 2), "FLOAT32"), tensor("cast", (4, 2), "INT32"), tensor("flat", (8,), "INT32"))
    shapes = (constant("shape", [4, 2, 3]), constant("size", [8]))
    operators = (
        FlatOperator("RESHAPE", (0, 8), (1,)),
        FlatOperator("UNPACK", (1,), (2, 3, 4), "UnpackOptions", {"Num": 3, "Axis": 2}),
        FlatOperator("DEQUANTIZE", (2,), (5,)),
        FlatOperator("CAST", (5,), (6,), "CastOptions"),
        FlatOperator("RESHAPE", (6, 9), (7,)),
    )
    tensors = (like, replace(like, name="r", shape=(4, 2, 3)), *parts, *others, *shapes)
    return FlatModel("read", tensors, (0,), (1, 3, 4, 7), operators)


def cast_of_bool() -> FlatModel:
    """True is 1 on the CPU, and -1 on an Ethos-U85."""
    return model("CAST", [tensor("x", (2, 3), "BOOL")], [tensor("y", (2, 3), "INT32")], "CastOptions")


def selected() -> FlatModel:
    condition, a, b = tensor("c", (2, 3), "BOOL"), tensor("a", (2, 3), "INT8", Q), tensor("b", (2, 3), "INT8", Q)
    return model("SELECT", [condition, a, b], [replace(a, name="y")])


def wide_indices() -> FlatModel:
    indices = tensor("y", (2, 3), "INT64")
    return model(
        "ARG_MAX",
        [tensor("x", (2, 3, 7), "INT8", Q), constant("axis", 2)],
        [indices],
        "ArgMaxOptions",
        {"OutputType": 4},
    )


def negative() -> FlatModel:
    return model("NEG", [tensor("x", (2, 3), "INT8", Q)], [tensor("y", (2, 3), "INT8", Q)])


def wide_softmax() -> FlatModel:
    x, y = (tensor(name, (5, 4), "INT16", Quant((scale,), (0,))) for name, scale in (("x", f32(0.001)), ("y", 2**-15)))
    return model("SOFTMAX", [x], [y], "SoftmaxOptions", {"Beta": 1.0})


def wide_slopes() -> FlatModel:
    alpha = constant("a", np.arange(-5, 5).reshape(5, 2), "INT8", Quant((f32(0.1),), (0,)))
    x, y = (tensor(name, (1, 6, 5, 2), "INT16", Quant((f32(0.01),), (0,))) for name in "xy")
    return model("PRELU", [x, alpha], [y])


def least_of_each_batch() -> FlatModel:
    x, y = tensor("x", (4, 5, 4, 5, 5), "INT8", Q), tensor("y", (4, 4, 5, 5), "INT8", Q)
    return model("REDUCE_MIN", [x, constant("a", [1])], [y], "ReducerOptions", {"KeepDims": 0})


def whole_product() -> FlatModel:
    """Products of int32 wrap in LiteRT."""
    a, b, y = (tensor(*each, "INT32") for each in (("a", (3, 1, 5, 1)), ("b", (1, 5, 1, 1)), ("y", (3, 5, 5, 1))))
    return model("MUL", [a, b], [y], "MulOptions", {"FusedActivationFunction": 0})


def two_quants(name: str, sizes: tuple[int, ...], shape: tuple[int, ...]) -> FlatModel:
    """Stored values that LiteRT takes into another quantization as they are."""
    x, y = tensor("x", (1, 4, 4, 8), "INT8", Q), tensor("y", shape, "INT8", Quant((f32(0.02),), (5,)))
    return model(name, [x, constant("s", sizes)], [y])


def resized_uint8() -> FlatModel:
    """A resize that Vela leaves to the CPU, whose kernel for uint8 interpolates in float32."""
    around = Quant((f32(0.05),), (255,))
    x, y = tensor("x", (2, 3, 2, 3), "UINT8", around), tensor("y", (2, 10, 1, 3), "UINT8", around)
    options = {"AlignCorners": 1, "HalfPixelCenters": 0}
    return model("RESIZE_BILINEAR", [x, constant("size", [10, 1])], [y], "ResizeBilinearOptions", options)


def resized_to_another_scale() -> FlatModel:
    return two_quants("RESIZE_BILINEAR", (7, 5), (1, 7, 5, 8))


def reshaped_to_another_scale() -> FlatModel:
    return two_quants("RESHAPE", (16, 8), (16, 8))


def repeated_matrices() -> FlatModel:
    """A product in which the matrices of both operands repeat, each along another dimension."""
    a, b = tensor("a", (2, 1, 4, 8), "INT8", Q), tensor("b", (1, 2, 8, 4), "INT8", Q)
    return model("BATCH_MATMUL", [a, b], [tensor("y", (2, 2, 4, 4), "INT8", Q)], "BatchMatMulOptions")


ODD = (cast_of_bool, selected, wide_indices, negative, repeated_matrices)

TWO_QUANTS = (
    resized_to_another_scale,
    reshaped_to_another_scale,
    wide_softmax,
    wide_slopes,
    least_of_each_batch,
    whole_product,
)


def batches_of_a_slice() -> FlatModel:
    """LOGISTIC of six elements of a vector, as two batches of three."""
    out = Quant((f32(1 / 256),), (-128,))
    dims = (2, 3, 1, 1)
    tensors = (
        *(tensor("x", (10,), "INT8", Q), constant("begin", [3]), constant("size", [6])),
        *(tensor("part", (6,), "INT8", Q), constant("dims", [*dims])),
        *(tensor("view", dims, "INT8", Q), tensor("y", dims, "INT8", out)),
    )
    steps = (("SLICE", (0, 1, 2), (3,)), ("RESHAPE", (3, 4), (5,)), ("LOGISTIC", (5,), (6,)))
    return FlatModel("m", tensors, (0,), (6,), tuple(FlatOperator(*step) for step in steps))


def joined(*steps: tuple[str, tuple[int, ...], tuple[int, ...], str, dict[str, int]], **shapes: Any) -> FlatModel:
    """A model of several operators, whose tensors are shapes of int8 or constants; the first ones are its inputs."""
    tensors = [tensor(n, s, "INT8", Q) if isinstance(s, tuple) else replace(s, name=n) for n, s in shapes.items()]
    made = {i for step in steps for i in step[2]}
    inputs = tuple(i for i, t in enumerate(tensors) if t.data is None and i not in made)
    return FlatModel("m", tuple(tensors), inputs, steps[-1][2], tuple(FlatOperator(*step) for step in steps))


PRODUCT = ("BatchMatMulOptions", {"AdjY": 1})


def attention() -> FlatModel:
    return joined(
        ("SPLIT", (1, 0), (2, 3, 4), "SplitOptions", {"NumSplits": 3}),
        ("BATCH_MATMUL", (2, 3), (5,), *PRODUCT),
        ("BATCH_MATMUL", (5, 4), (6,), "BatchMatMulOptions", {}),
        **{"x": (1, 2, 6, 24), "axis": constant("axis", 3), **dict.fromkeys("qkv", (1, 2, 6, 8))},
        s=(1, 2, 6, 6),
        y=(1, 2, 6, 8),
    )


def product_of_unpacked() -> FlatModel:
    return joined(
        ("UNPACK", (0,), (1, 2), "UnpackOptions", {"Num": 2, "Axis": 2}),
        ("BATCH_MATMUL", (1, 2), (3,), *PRODUCT),
        x=(1, 6, 2, 8),
        q=(1, 6, 8),
        k=(1, 6, 8),
        y=(1, 6, 6),
    )


def padded_product() -> FlatModel:
    return joined(
        ("BATCH_MATMUL", (0, 1), (2,), *PRODUCT),
        ("PAD", (2, 3), (4,), "PadOptions", {}),
        a=(1, 2, 6, 8),
        b=(1, 2, 5, 8),
        p=(1, 2, 6, 5),
        pads=constant("pads", [[0, 0], [0, 0], [1, 0], [2, 1]]),
        y=(1, 2, 7, 8),
    )


def concatenated_product() -> FlatModel:
    return joined(
        ("BATCH_MATMUL", (0, 1), (2,), *PRODUCT),
        ("CONCATENATION", (3, 2), (4,), "ConcatenationOptions", {"Axis": 2, "FusedActivationFunction": 0}),
        a=(1, 2, 6, 8),
        b=(1, 2, 5, 8),
        p=(1, 2, 6, 5),
        c=(1, 2, 3, 5),
        y=(1, 2, 9, 5),
    )


def sliced_samples(layer: str = "AVERAGE_POOL_2D") -> FlatModel:
    """A padded layer of a slice of two samples."""
    window = {"StrideW": 1, "StrideH": 1, "FilterWidth": 3, "FilterHeight": 3}
    return joined(
        ("SLICE", (0, 1, 2), (3,), "SliceOptions", {}),
        (layer, (3,), (4,), "Pool2DOptions", {"Padding": 0, **window}),
        x=(2, 7, 7, 6),
        begin=constant("begin", [0, 1, 1, 0]),
        size=constant("size", [2, 6, 6, 6]),
        part=(2, 6, 6, 6),
        y=(2, 6, 6, 6),
    )


def resized_samples() -> FlatModel:
    return joined(
        ("SLICE", (0, 1, 2), (3,), "SliceOptions", {}),
        ("RESIZE_NEAREST_NEIGHBOR", (3, 4), (5,), "ResizeNearestNeighborOptions", {}),
        x=(2, 7, 7, 6),
        begin=constant("begin", [0, 1, 1, 0]),
        size=constant("size", [2, 6, 6, 6]),
        part=(2, 6, 6, 6),
        large=constant("large", [12, 12]),
        y=(2, 12, 12, 6),
    )


def enlarged_and_joined() -> FlatModel:
    """An image that is enlarged and concatenated with another, as in a decoder."""
    return joined(
        ("RESIZE_BILINEAR", (0, 1), (2,), "ResizeBilinearOptions", {"HalfPixelCenters": 1}),
        ("CONCATENATION", (3, 2), (4,), "ConcatenationOptions", {"Axis": 3, "FusedActivationFunction": 0}),
        x=(1, 6, 6, 6),
        size=constant("size", [12, 12]),
        large=(1, 12, 12, 6),
        c=(1, 12, 12, 6),
        y=(1, 12, 12, 12),
    )


def every_second() -> FlatModel:
    """A pool of every second row and column."""
    window = {"StrideW": 1, "StrideH": 1, "FilterWidth": 3, "FilterHeight": 3}
    return joined(
        ("STRIDED_SLICE", (0, 1, 2, 3), (4,), "StridedSliceOptions", {}),
        ("MAX_POOL_2D", (4,), (5,), "Pool2DOptions", window),
        x=(1, 6, 6, 6),
        begin=constant("begin", [0] * 4),
        end=constant("end", [1, 6, 6, 6]),
        steps=constant("steps", [1, 2, 2, 1]),
        part=(1, 3, 3, 6),
        y=(1, 3, 3, 6),
    )


def reshaped_mirror() -> FlatModel:
    return joined(
        ("MIRROR_PAD", (0, 1), (2,), "MirrorPadOptions", {"Mode": 0}),
        ("RESHAPE", (2, 3), (4,), "ReshapeOptions", {}),
        x=(1, 6, 6, 6),
        pads=constant("pads", [[0, 0], [1, 1], [1, 1], [0, 0]]),
        large=(1, 8, 8, 6),
        shape=constant("shape", [1, 64, 1, 6]),
        y=(1, 64, 1, 6),
    )


def nearest_of_another_size() -> FlatModel:
    return joined(
        ("RESIZE_NEAREST_NEIGHBOR", (0, 1), (2,), "ResizeNearestNeighborOptions", {}),
        x=(1, 6, 6, 6),
        size=constant("size", [7, 9]),
        y=(1, 7, 9, 6),
    )


def multiplied_channels() -> FlatModel:
    """A depthwise convolution of a slice with two output channels per input channel."""
    weights = constant("w", np.arange(-54, 54).reshape(1, 3, 3, 12), "INT8", Quant((f32(0.01),), (0,)))
    strides = {"StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    return joined(
        ("SLICE", (0, 1, 2), (3,), "SliceOptions", {}),
        ("DEPTHWISE_CONV_2D", (3, 4, 5), (6,), "DepthwiseConv2DOptions", {"DepthMultiplier": 2, **strides}),
        x=(1, 7, 7, 6),
        begin=constant("begin", [0, 1, 1, 0]),
        size=constant("size", [1, 6, 6, 6]),
        part=(1, 6, 6, 6),
        w=weights,
        bias=constant("bias", np.arange(12), "INT32", Quant((f32(0.0005),), (0,))),
        y=(1, 6, 6, 12),
    )


MERGED = (attention, product_of_unpacked, padded_product, concatenated_product, sliced_samples)
RESIZED = (
    resized_samples,
    multiplied_channels,
    enlarged_and_joined,
    nearest_of_another_size,
    every_second,
    reshaped_mirror,
)
MIRRORED = (mirrored_and_compared, mirrored_channels, mirrored_vector, mirrored_batches)
FUNCTIONS = (real_function, wide_function, wide_sigmoid)
HIDDEN = (
    *(read_output, comparison, resized_uint8, filled, batches_of_a_slice),
    *(*FUNCTIONS, *ODD, *MIRRORED, *TWO_QUANTS, *MERGED, *RESIZED),
)
COMPILED = [(make, target) for make in HIDDEN for target in ("ethos-u55-128", "ethos-u85-256")]
KINDS = [(make, "ethos-u85-256") for make in (cast_of_bool, nearest_of_another_size, wide_sigmoid, mirrored_channels)]


@pytest.mark.parametrize(("make", "target"), full.only(COMPILED, *COMPILED[::2], *KINDS))
def test_what_stops_vela_runs_on_the_cpu(make, target: str) -> None:
    pytest.importorskip("ethosu.vela")
    source = make()
    inputs = random_inputs(source, np.random.default_rng(0))
    found = built(target, build_of)(source, inputs)
    for ours, theirs in zip(found, Litert(encode(source)).run(inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_vela_takes_is_not_hidden() -> None:
    source = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("y", (4,), "INT8", Q)])
    assert vela_hidden.hidden(source) is None


def test_mirrored_rows_and_columns_are_not_hidden() -> None:
    for source in (mirrored((2, 1), (1, 2), (0, 0)), mirrored((0, 0), (2, 1), (1, 2), (0, 0))):
        assert vela_hidden.kept(source, 0) is source.operators[0]
        assert vela_hidden.hidden(source) is None


def test_what_was_hidden_is_shown_again() -> None:
    source = comparison()
    file = vela_hidden.hidden(source)
    assert file is not None
    inside = decode(file)
    assert [op.title for op in inside.operators] == ["DeuteronHidden0"]
    assert [t.dtype for t in inside.tensors] == ["INT8", "INT8", "UINT8"]
    assert vela_hidden.shown(source, inside).operators == source.operators
    assert vela_hidden.shown(source, inside).tensors == source.tensors


def test_only_an_output_gets_the_values_that_vela_lost() -> None:
    source = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("y", (4,), "INT8", Q)])
    values = tensor("c", (4,), "INT8", Q)
    source = replace(source, tensors=(*source.tensors, replace(values, data=bytes(4))), outputs=(1, 2))
    lost = replace(source, tensors=(source.tensors[0], replace(source.tensors[1], name="c"), values), outputs=(2,))
    assert [each.data for each in vela_hidden.shown(source, lost).tensors] == [None, None, bytes(4)]


def test_a_custom_operator_with_the_name_of_a_hidden_one_is_refused(tmp_path: Path) -> None:
    source = model("RELU", [tensor("x", (4,), "INT8", Q)], [tensor("y", (4,), "INT8", Q)])
    path = tmp_path / "net.tflite"
    path.write_bytes(
        encode(replace(source, operators=(FlatOperator("CUSTOM", (0,), (1,), custom_code="DeuteronHidden7"),)))
    )
    with pytest.raises(UnsupportedError) as caught:
        build_of(path, "ethos-u55-128")
    assert str(caught.value) == (
        "operator 0 (DeuteronHidden7): the custom operator `DeuteronHidden7` has a name that builds for an Ethos-U use "
        "themselves\n\nhint: give it a name that does not start with DeuteronHidden"
    )
