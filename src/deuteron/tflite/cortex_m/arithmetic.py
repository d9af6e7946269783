"""ADD, SUB, MUL, DIV, SQUARED_DIFFERENCE, PRELU, MINIMUM and MAXIMUM of int8 and int16."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, CpuOperator, QuantizedAddParams, QuantizedMulParams
from deuteron.operators.custom_ops import ADDED
from deuteron.operators.kernel_params import ExtremumParams
from deuteron.operators.tflite import (
    BY_TFLITE_OPERATOR,
    BroadcastAddParams,
    BroadcastMulParams,
    DivideParams,
    PreluParams,
)
from deuteron.tflite.cortex_m import unquantized
from deuteron.tflite.cortex_m.broadcasting import broadcast_dims
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Temporary
from deuteron.tflite.cortex_m.comparison import chosen_extremum
from deuteron.tflite.cortex_m.fixed_point import Factor, factor
from deuteron.tflite.cortex_m.lowering import ACTIVATIONS, Lowering, by_type
from deuteron.tflite.cortex_m.operator_view import Site

_SUM, _DIFFERENCE, _SQUARE = range(3)
_EXTREMUM_S16 = next(operator for operator in ADDED if operator.name == "extremum_s16")
_WHOLE = (-128, 127)
_MOST_SHIFT = 13
"""Bits of an operand that a sum drops without rounding it twice."""

_COMPARED = ("INT8", "INT16", "INT32", "INT64", "FLOAT32")


def _repeats(site: Site, position: int) -> bool:
    """Return True if an operand is as large as the output, or repeats along its outer dimensions."""
    shape, out = site.input(position).shape, site.output().shape
    stripped = tuple(shape[next((i for i, d in enumerate(shape) if d != 1), len(shape)) :])
    return stripped == tuple(out[len(out) - len(stripped) :])


def _is_flat(site: Site) -> bool:
    """Return True if one operand is as large as the output, and the other repeats along the outer dimensions alone."""
    a, b, out = site.input(0).shape, site.input(1).shape, site.output().shape
    sizes = [int(np.prod(shape)) for shape in (a, b, out)]
    return max(sizes[:2]) == sizes[2] and _repeats(site, 0) and _repeats(site, 1)


def _sum_factors(site: Site, left_shift: int, *, squared: bool = False) -> tuple[Factor, Factor, Factor]:
    """The factors of both operands and of the output; scales are float32 and multiplied as such."""
    a, b, out = site.scale(site.input(0)), site.scale(site.input(1)), site.scale(site.output())
    twice = np.float64(np.float32(2) * max(a, b))
    unit = np.float64(np.float32(1 << (left_shift * 2 if squared else left_shift)) * out)
    whole = (twice * twice if squared else twice) / unit
    if whole >= 1 and not squared:
        raise site.unsupported(
            f"the scale {out} of `{site.output().name}` is too small for operands with scales {a} and {b}",
            "check the calibration data: the output's range does not fit its operands",
        )
    return factor(float(np.float64(a) / twice)), factor(float(np.float64(b) / twice)), factor(float(whole))


def _addition(kind: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        x, y, out = site.input(0), site.input(1), site.output()
        squared = kind == _SQUARE
        is_int16 = x.dtype == "INT16"
        if is_int16 and not squared and site.option("PotScaleInt16") and all(map(_is_power, (x, y, out))):
            shifts = [round(np.log2(float(site.scale(out)) / float(site.scale(t)))) for t in (x, y)]
            if any(shifts):
                return _shifted_sum(site, kind, shifts)
        left_shift = (0 if is_int16 else 7) if squared else 15 if is_int16 else 20
        (a_mult, a_shift), (b_mult, b_shift), (o_mult, o_shift) = _sum_factors(site, left_shift, squared=squared)
        act_min, act_max = site.stored_range(None, None) if squared else site.stored_activation()
        zero_points = [site.zero_point(t) for t in (x, y, out)]
        inputs = (site.ref(0), site.ref(1))
        if kind == _SUM and not is_int16 and _is_flat(site):
            flat = QuantizedAddParams(
                zero_points[0], a_mult, a_shift, zero_points[1], b_mult, b_shift,
                zero_points[2], o_mult, o_shift, act_min, act_max,
            )  # fmt: skip
            return (CpuCall(BY_OPERATOR["quantized_add"], inputs, (site.out(),), flat),)
        dims, (a_strides, b_strides) = broadcast_dims(site, x.shape, y.shape)
        params = BroadcastAddParams(
            dims, a_strides, b_strides, kind, left_shift, zero_points[0], a_mult, a_shift,
            zero_points[1], b_mult, b_shift, zero_points[2], o_mult, o_shift, act_min, act_max,
        )  # fmt: skip
        return (CpuCall(BY_TFLITE_OPERATOR["broadcast_add"], inputs, (site.out(),), params),)

    return lower


def _shifted_sum(site: Site, kind: int, shifts: list[int]) -> tuple[CpuCall, ...]:
    """A sum or difference by LiteRT's form for scales that are powers of two.

    The operand with the smaller scale is divided by a power of two and rounded, then added.
    """
    x, y, out = site.input(0), site.input(1), site.output()
    first = int(shifts[0] == 0)  # the operand that is divided
    if min(shifts) != 0 or max(shifts) > _MOST_SHIFT or x.shape != y.shape:
        raise site.unsupported(
            f"its int16 scales are powers of two, {shifts[0]} and {shifts[1]} below that of the output; 0 of one and "
            f"0 to {_MOST_SHIFT} of the other are allowed, for operands of one shape",
            "convert the model with a current converter",
        )
    dims, (strides, _) = broadcast_dims(site, x.shape, y.shape)
    half, back, whole = factor(0.5), factor(2.0**-14), (-(1 << 15), (1 << 15) - 1)
    divided = Temporary(out.shape, "int16")
    zero = Constant(np.zeros(1, np.int16))
    operator = BY_TFLITE_OPERATOR["broadcast_add"]
    division = BroadcastAddParams(
        dims, strides, (0, 0, 0, 0, 0), _SUM, 15, 0, *factor(2.0 ** -(shifts[first] + 1)), 0, *half, 0, *back, *whole
    )
    total = BroadcastAddParams(
        dims, strides, strides, kind, 15, 0, *half, 0, *half, 0, *back, *site.stored_activation()
    )
    inputs = (site.ref(0), divided) if first else (divided, site.ref(1))
    return (
        CpuCall(operator, (site.ref(first), zero), (divided,), division),
        CpuCall(operator, inputs, (site.out(),), total),
    )


def _is_power(tensor: object) -> bool:
    quant = getattr(tensor, "quant", None)
    return quant is not None and float(np.frexp(quant.scales[0])[0]) == 0.5


def multiply(site: Site) -> tuple[CpuCall, ...]:
    """Lower MUL."""
    x, y, out = site.input(0), site.input(1), site.output()
    real = site.scale(x) * site.scale(y) / site.scale(out)
    multiplier, shift = factor(float(real))
    act_min, act_max = site.stored_activation()
    a_zp, b_zp, out_zp = (site.zero_point(t) for t in (x, y, out))
    inputs = (site.ref(0), site.ref(1))
    if x.dtype == "INT8" and (act_min, act_max) == _WHOLE and _is_flat(site):
        flat = QuantizedMulParams(a_zp, b_zp, out_zp, multiplier, shift)
        return (CpuCall(BY_OPERATOR["quantized_mul"], inputs, (site.out(),), flat),)
    dims, (a_strides, b_strides) = broadcast_dims(site, x.shape, y.shape)
    params = BroadcastMulParams(dims, a_strides, b_strides, a_zp, b_zp, out_zp, multiplier, shift, act_min, act_max)
    return (CpuCall(BY_TFLITE_OPERATOR["broadcast_mul"], inputs, (site.out(),), params),)


def divide(site: Site) -> tuple[CpuCall, ...]:
    """Lower DIV."""
    x, y, out = site.input(0), site.input(1), site.output()
    site.require(y, x.dtype)
    multiplier, shift = factor(float(site.scale(x) / (site.scale(y) * site.scale(out))))
    dims, (a_strides, b_strides) = broadcast_dims(site, x.shape, y.shape)
    a_zp, b_zp, out_zp = (site.zero_point(t) for t in (x, y, out))
    limits = site.stored_activation()
    params = DivideParams(dims, a_strides, b_strides, a_zp, b_zp, out_zp, multiplier, shift, *limits)
    return (CpuCall(BY_TFLITE_OPERATOR["divide"], (site.ref(0), site.ref(1)), (site.out(),), params),)


def prelu(site: Site) -> tuple[CpuCall, ...]:
    """Lower PRELU."""
    x, alpha, out = site.input(0), site.input(1), site.output()
    if x.dtype == "INT16" and alpha.dtype != "INT8":
        raise site.unsupported(
            f"tensor `{alpha.name}` is {alpha.dtype}; with INT16 activations LiteRT reads alpha as INT8",
            "quantize alpha to int8",
        )
    slopes = site.ref(1) if x.dtype == "INT8" else Constant(site.constant(1).astype(np.int16))
    multiplier, shift = factor(float(site.scale(x) / site.scale(out)))
    below = factor(float(site.scale(x) * site.scale(alpha) / site.scale(out)))
    dims, (a_strides, b_strides) = broadcast_dims(site, x.shape, alpha.shape)
    a_zp, b_zp, out_zp = (site.zero_point(t) for t in (x, alpha, out))
    params = PreluParams(dims, a_strides, b_strides, a_zp, b_zp, out_zp, multiplier, shift, below[0], below[1])
    return (CpuCall(BY_TFLITE_OPERATOR["prelu"], (site.ref(0), slopes), (site.out(),), params),)


def _extremum(maximum: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        x, y = site.input(0), site.input(1)
        site.same_quant(x, y, site.output())
        if x.dtype not in ACTIVATIONS:
            return chosen_extremum(site, maximum)
        dims, (a_strides, b_strides) = broadcast_dims(site, x.shape, y.shape)
        operator: CpuOperator = BY_OPERATOR["maximum" if maximum else "minimum"]
        if x.dtype == "INT16":
            operator = _EXTREMUM_S16
        params = ExtremumParams(dims, a_strides, b_strides, maximum)
        return (CpuCall(operator, (site.ref(0), site.ref(1)), (site.out(),), params),)

    return lower


def _or_unquantized(
    lower: Callable[[Site], tuple[CpuCall, ...]], kind: int, types: tuple[str, ...] = ACTIVATIONS
) -> Lowering:
    return by_type({**dict.fromkeys(types, lower), **dict.fromkeys(unquantized.TYPES, unquantized.arithmetic(kind))})


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "ADD": _or_unquantized(_addition(_SUM), unquantized.ADD),
        "SUB": _or_unquantized(_addition(_DIFFERENCE), unquantized.SUB),
        "MUL": _or_unquantized(multiply, unquantized.MUL),
        "DIV": by_type(
            {
                "INT8": divide,
                **dict.fromkeys(("FLOAT32", "INT32"), unquantized.arithmetic(unquantized.DIV)),
            }
        ),
        "SQUARED_DIFFERENCE": by_type(
            {
                **dict.fromkeys(ACTIVATIONS, _addition(_SQUARE)),
                **dict.fromkeys(
                    ("FLOAT32", "INT32"), unquantized.arithmetic(unquantized.SQUARED_DIFFERENCE, activation=False)
                ),
            }
        ),
        "PRELU": by_type(
            {
                **dict.fromkeys(ACTIVATIONS, prelu),
                "FLOAT32": unquantized.arithmetic(unquantized.PRELU, activation=False),
            }
        ),
        "MAXIMUM": Lowering(_extremum(1), _COMPARED),
        "MINIMUM": Lowering(_extremum(0), _COMPARED),
    }
)
