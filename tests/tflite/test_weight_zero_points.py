"""Layers by weights with a zero point: LiteRT heeds those of uint8, and of int8 in FULLY_CONNECTED with one scale."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.tflite.cortex_m.models import constant, f32, model, tensor
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.graph_check import built

from deuteron.errors import InputError, UnsupportedError
from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator
from deuteron.tflite.normalize import normalized
from deuteron.tflite.quantization import Quant

LAYERS = ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"]


def _layer(name: str, dtype: str, *, groups: int = 1, padding: int = 1, channels: int = 1) -> FlatModel:
    """A layer with zero points everywhere; its weights have a scale for each output channel if `channels` > 1."""
    rng, kernel, depth = np.random.default_rng(3), (3, 2), 4
    in_c, out_c = groups * depth, 6
    if name == "DEPTHWISE_CONV_2D":
        in_c, dims = out_c, (1, *kernel, out_c)
    elif name == "FULLY_CONNECTED":
        dims = (out_c, in_c)
    else:
        dims = (out_c, *kernel, in_c // groups)
    rows, columns = (7, 6) if padding == 0 else (5, 5)
    zero_points = {"INT8": (9, 7, -3), "UINT8": (150, 120, 99), "INT16": (0, 7, 0)}[dtype]
    points = (zero_points[1],) * channels
    x = Quant((f32(0.05 if dtype != "INT16" else 0.0004),), zero_points[:1])
    axis = (3 if name == "DEPTHWISE_CONV_2D" else 0) if channels > 1 else None
    w = Quant(tuple(f32(0.01 + 0.001 * i) for i in range(channels)), points, axis)
    products = math.prod(dims[1:]) if name != "DEPTHWISE_CONV_2D" else 6
    y = Quant((f32(x.scales[0] * 0.01 * math.sqrt(products) * (60 if dtype != "INT16" else 150)),), zero_points[2:])
    low, high = (0, 256) if dtype == "UINT8" else (-128, 128)
    weights = constant("w", rng.integers(low, high, dims), "UINT8" if dtype == "UINT8" else "INT8", w)
    of_bias = Quant(tuple(f32(x.scales[0] * s) for s in w.scales), (0,) * channels, 0 if channels > 1 else None)
    bias = constant("b", rng.integers(-900, 900, out_c), "INT64" if dtype == "INT16" else "INT32", of_bias)
    ends = [tensor("x", (2, 7, 6, in_c), dtype, x), tensor("y", (2, rows, columns, out_c), dtype, y)]
    if name == "FULLY_CONNECTED":
        ends = [tensor("x", (3, in_c), dtype, x), tensor("y", (3, out_c), dtype, y)]
    options = {"Padding": padding, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": 0}
    inputs = [ends[0], weights, bias]
    kind = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}.get(name, "")
    if kind:
        options |= {"DilationHFactor": 1, "DilationWFactor": 1}
    if name == "DEPTHWISE_CONV_2D":
        options["DepthMultiplier"] = 1
    elif name == "TRANSPOSE_CONV":
        kind, ends = "TransposeConvOptions", [tensor("x", (2, 5, 5, in_c), dtype, x), ends[1]]
        ends[1] = tensor("y", (2, 7, 6, out_c), dtype, y) if padding else tensor("y", (2, 5, 5, out_c), dtype, y)
        inputs = [constant("shape", ends[1].shape), weights, ends[0], bias]
    elif name == "FULLY_CONNECTED":
        kind, options = "FullyConnectedOptions", {"FusedActivationFunction": 0, "KeepNumDims": 0, "WeightsFormat": 0}
    return model(name, inputs, ends[1:], kind, options)


CASES: list[tuple[str, str, dict[str, int]]] = [
    ("CONV_2D", "UINT8", {"groups": 2, "padding": 0}),
    ("CONV_2D", "UINT8", {"groups": 3}),
    *((name, "UINT8", {}) for name in LAYERS),
    *((name, dtype, {}) for name in LAYERS[1:] for dtype in ("INT8", "INT16")),
    *((name, dtype, {"channels": 6}) for name in LAYERS[1:] for dtype in ("INT8", "INT16")),
]


@pytest.mark.parametrize(("name", "dtype", "options"), CASES)
def test_layers_by_weights_with_a_zero_point_equal_litert(name: str, dtype: str, options: dict[str, int]) -> None:
    source = _layer(name, dtype, **options)
    inputs = random_inputs(source, np.random.default_rng(0))
    (theirs,) = Litert(encode(source)).run(inputs)
    assert len(np.unique(theirs)) > 5
    np.testing.assert_array_equal(built("cortex-m55")(source, inputs)[0], theirs)


@pytest.mark.parametrize("name", ["DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"])
def test_a_zero_point_that_counts_for_nothing_is_noted(name: str) -> None:
    source = _layer(name, "INT8", channels=6)
    found = normalized(encode(source), source)
    assert found.notes == (f"weights `w` have zero point 7: as in LiteRT, {name} takes it for 0",)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
def test_a_convolution_that_litert_refuses_is_refused(dtype: str, groups: int) -> None:
    source = _layer("CONV_2D", dtype, groups=groups)
    with pytest.raises(InputError, match="zero_point"):
        Litert(encode(source))
    with pytest.raises(UnsupportedError) as caught:
        normalized(encode(source), source)
    assert (caught.value.where, caught.value.message) == (
        "op 0 CONV_2D, output `y`",
        "weights `w` have zero point 7; LiteRT allows 0 in CONV_2D of int8 and int16",
    )


def test_weights_with_a_zero_point_are_shared_with_layers_that_heed_it() -> None:
    """A depthwise layer, which takes the zero point for 0, and a fully connected one by the same weights."""
    source = _layer("DEPTHWISE_CONV_2D", "INT8")
    (x, w, b, y), (op,) = source.tensors, source.operators
    options = {"Axis": 0, "BatchDims": 0}
    tensors = (x, w, b, y, constant("row", 0), replace(w, name="z", shape=w.shape[1:], data=None))
    gather = FlatOperator("GATHER", (1, 4), (5,), "GatherOptions", options)
    shared = replace(source, tensors=tensors, outputs=(3, 5), operators=(op, gather))
    inputs = random_inputs(shared, np.random.default_rng(0))
    for ours, theirs in zip(built("cortex-m55")(shared, inputs), Litert(encode(shared)).run(inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    found = normalized(encode(shared), shared).model
    points = [
        (found.tensors[op.inputs[at]].quant or Quant((1,), (99,))).zero_points
        for op, at in zip(found.operators, (1, 0), strict=True)
    ]
    assert points == [(0,), (7,)]
