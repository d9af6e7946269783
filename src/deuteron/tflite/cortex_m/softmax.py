"""SOFTMAX and L2_NORMALIZATION."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.tflite import (
    BY_TFLITE_OPERATOR,
    FunctionF32Params,
    L2NormalizeParams,
    SoftmaxF32Params,
    SoftmaxParams,
    SoftmaxS16Params,
)
from deuteron.operators.tflite_unquantized import ArithmeticParams, LogSoftmaxF32Params, LogSoftmaxParams, ReduceParams
from deuteron.tflite.cortex_m import float32
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of, divided_by_power, exponential_on_negative, factor, product
from deuteron.tflite.cortex_m.lookup_s16 import piecewise_table
from deuteron.tflite.cortex_m.lowering import Lowering, by_type
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.unquantized import DIV, SUM

_WHOLE_BITS = 5
"""Integer bits of the fixed-point differences."""

_MOST_ELEMENTS = 4095
_LEAST_LENGTH = 1e-6


def _scaled(site: Site, beta: float) -> float:
    """The scale of differences in fixed point with five whole bits."""
    return min(beta * float(site.scale(site.input())) * (1 << (31 - _WHOLE_BITS)), (1 << 31) - 1.0)


def scaled_differences(site: Site, beta: float) -> tuple[tuple[int, int], int]:
    """Return the factor of differences to fixed point with five whole bits, and the largest difference that fits."""
    multiplier, shift = factor(_scaled(site, beta))
    if shift < 0 or not multiplier:
        raise site.unsupported(
            f"the scale of `{site.input().name}` times beta is {float(site.scale(site.input())) * beta:g}; "
            "at least 2^-26 is allowed",
            "check the calibration data: the input's range is degenerate",
        )
    radius = ((1 << _WHOLE_BITS) - 1) * (1 << (31 - _WHOLE_BITS)) >> shift
    return (multiplier, shift), radius


def softmax(site: Site) -> tuple[CpuCall, ...]:
    """Lower SOFTMAX of int8."""
    x, out = site.input(), site.output()
    site.require(out, "INT8", "INT16")
    depth = x.shape[-1] if x.shape else 1
    if depth > _MOST_ELEMENTS:
        raise site.unsupported(f"a row has {depth} elements; at most {_MOST_ELEMENTS} are allowed", "split the rows")
    beta = float(np.float32(site.op.options.get("Beta", 1.0)))
    only_largest = (0, 0), 0  # no other difference fits
    by, radius = only_largest if _scaled(site, beta) >= 1 << 30 else scaled_differences(site, beta)
    entries = min(255, radius) + 1
    table = exponential_on_negative(product(-np.arange(entries), by), _WHOLE_BITS)
    nonzero = np.flatnonzero(table)
    table = table[: int(nonzero[-1]) + 1].astype(np.int32)
    params = SoftmaxParams(math.prod(x.shape) // depth, depth, len(table))
    inputs = (site.ref(), Constant(table))
    return (CpuCall(BY_TFLITE_OPERATOR["softmax"], inputs, (site.out(),), params),)


def softmax_s16(site: Site) -> tuple[CpuCall, ...]:
    """Lower SOFTMAX of int16: two tables, whose lines are those of the reference kernel in float64."""
    x = site.input()
    site.require(site.output(), "INT16")
    depth = x.shape[-1] if x.shape else 1
    steps = 65535.0
    exponentials = piecewise_table(np.float64, (10.0 / steps, 32767), (2.0 / steps, 0), np.exp)
    reciprocals = piecewise_table(np.float64, (1.0 / steps, -32768), (2.0 / steps, 0), lambda v: 1.0 / (1.0 + v))
    beta = np.float32(site.op.options.get("Beta", 1.0))
    multiplier, shift = factor(float(np.float64(site.scale(x) * beta) / (10.0 / steps)))
    params = SoftmaxS16Params(math.prod(x.shape) // depth, depth, multiplier, shift)
    inputs = (site.ref(), Constant(exponentials), Constant(reciprocals))
    return (CpuCall(BY_TFLITE_OPERATOR["softmax_s16"], inputs, (site.out(),), params),)


def softmax_f32(site: Site) -> tuple[CpuCall, ...]:
    """Lower SOFTMAX of float32."""
    shape = site.input().shape
    depth = shape[-1] if shape else 1
    params = SoftmaxF32Params(math.prod(shape) // depth, depth, bits_of(float(site.op.options.get("Beta", 1.0))))
    return (CpuCall(BY_TFLITE_OPERATOR["softmax_f32"], (site.ref(),), (site.out(),), params),)


def l2_normalize(site: Site) -> tuple[CpuCall, ...]:
    """Lower L2_NORMALIZATION of int8."""
    x, out = site.input(), site.output()
    if float(site.scale(out)) != 1 / 128 or site.zero_point(out) != 0:
        raise site.unsupported(
            f"tensor `{out.name}` has the scale {site.scale(out)} and zero point {site.zero_point(out)}; "
            "1/128 and 0 are allowed"
        )
    depth = x.shape[-1]
    params = L2NormalizeParams(math.prod(x.shape) // depth, depth, site.zero_point(x))
    return (CpuCall(BY_TFLITE_OPERATOR["l2_normalize"], (site.ref(),), (site.out(),), params),)


def l2_normalize_f32(site: Site) -> tuple[CpuCall, ...]:
    """Lower L2_NORMALIZATION of float32: each row divided by its length, which is at least 1e-6."""
    if site.option("FusedActivationFunction"):
        raise site.unsupported(
            "it has a fused activation function; NONE is allowed", "write the activation as an operator of its own"
        )
    shape = site.input().shape
    rows, depth = math.prod(shape) // shape[-1], shape[-1]
    squares, lengths = Temporary(shape, "float32"), [Temporary((rows,), "float32") for _ in range(3)]
    sums = ReduceParams((1, 1, 1, 1, rows), (0, 0, 0, 0, depth), (1, 1, 1, 1, depth), (0, 0, 0, 0, 1), SUM)
    quotient = ArithmeticParams(
        (1, 1, 1, rows, depth), (0, 0, 0, depth, 1), (0, 0, 0, 1, 0), DIV, bits_of(-math.inf), bits_of(math.inf)
    )
    function = BY_TFLITE_OPERATOR["function_f32"]
    return (
        CpuCall(function, (site.ref(),), (squares,), FunctionF32Params(math.prod(shape), float32.SQUARE)),
        CpuCall(BY_TFLITE_OPERATOR["reduce"], (squares,), (lengths[0],), sums),
        CpuCall(function, (lengths[0],), (lengths[1],), FunctionF32Params(rows, float32.SQRT)),
        float32.clamp(lengths[1], lengths[2], _LEAST_LENGTH, None),
        CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (site.ref(), lengths[2]), (site.out(),), quotient),
    )


def log_softmax(site: Site) -> tuple[CpuCall, ...]:
    """Lower LOG_SOFTMAX of int8."""
    x, out = site.input(), site.output()
    if float(site.scale(out)) != 16 / 256 or site.zero_point(out) != 127:
        raise site.unsupported(
            f"tensor `{out.name}` has the scale {site.scale(out)} and zero point {site.zero_point(out)}; "
            "16/256 and 127 are allowed"
        )
    depth = x.shape[-1]
    if depth > _MOST_ELEMENTS:
        raise site.unsupported(f"a row has {depth} elements; at most {_MOST_ELEMENTS} are allowed", "split the rows")
    (multiplier, shift), radius = scaled_differences(site, 1.0)
    reverse = factor((1 << (31 - shift)) / multiplier)
    differences = product(-np.arange(min(255, radius) + 1), (multiplier, shift))
    table = divided_by_power(exponential_on_negative(differences, _WHOLE_BITS), 12).astype(np.int32)
    params = LogSoftmaxParams(math.prod(x.shape) // depth, depth, len(table), multiplier, shift, *reverse, -radius)
    inputs = (site.ref(), Constant(table))
    return (CpuCall(BY_TFLITE_OPERATOR["log_softmax"], inputs, (site.out(),), params),)


def log_softmax_f32(site: Site) -> tuple[CpuCall, ...]:
    """Lower LOG_SOFTMAX of float32."""
    shape = site.input().shape
    params = LogSoftmaxF32Params(math.prod(shape) // shape[-1], shape[-1])
    return (CpuCall(BY_TFLITE_OPERATOR["log_softmax_f32"], (site.ref(),), (site.out(),), params),)


_BY_TYPE = MappingProxyType({"INT8": softmax, "INT16": softmax_s16, "FLOAT32": softmax_f32})

OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "LOG_SOFTMAX": by_type(
            {"INT8": log_softmax, "FLOAT32": log_softmax_f32}, note="int8: output scale 16/256, zero point 127"
        ),
        "SOFTMAX": Lowering(lambda site: _BY_TYPE[site.input().dtype](site), tuple(_BY_TYPE)),
        "L2_NORMALIZATION": by_type(
            {"INT8": l2_normalize, "FLOAT32": l2_normalize_f32}, note="int8: output scale 1/128, zero point 0"
        ),
    }
)
