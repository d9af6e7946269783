"""Operators that Deuteron adds for int16 activations with the zero point 0 and int8 weights."""

from dataclasses import dataclass

from deuteron.operators.cortex_m import CpuOperator, PadParams
from deuteron.operators.kernel_params import (
    BroadcastParams,
    ExtremumParams,
    GroupedConvolutionParams,
    KernelParams,
    ReduceExtremumParams,
    ReduceSumParams,
    WindowParams,
)

BIAS_BITS = 10
"""Fraction bits of a bias, in steps of the output."""

TABLE_BITS = 8
"""Fraction bits of the entries of a table."""


SUM_BITS = 47
"""Elements of a sum times its multiplier are below 2^47: so a sum of int16 times the multiplier is below 2^62."""


@dataclass(frozen=True, slots=True)
class ConvolutionS16Params(GroupedConvolutionParams):
    """Convolution, NHWC; weights [out_c, kernel_h, kernel_w, in_c / groups]; a linear layer has 1 x 1 images.

        out = clamp(rne((sum(x * w) * multiplier + bias * 2^(shift - 10)) / 2^shift))

    Multipliers, 0..2^22 - 1, shifts, 10..40, and bias are int32, one per output channel. Dimensions, strides,
    dilations and pads are at most 32767, and a sum has at most 65536 products.
    """

    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class AddS16Params(BroadcastParams):
    """Broadcasting sum; strides are in elements, 0 repeats.

        out = clamp(rne((a * a_mult + b * b_mult) / 2^shift)), shift 1..62

    A difference has a negative b_mult.
    """

    a_mult: int
    b_mult: int
    shift: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class MulS16Params(BroadcastParams):
    """Broadcasting product; strides are in elements, 0 repeats: clamp(rne(a * b * mult / 2^shift)), shift 1..62."""

    mult: int
    shift: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class InterpolateS16Params(KernelParams):
    """Piecewise linear function; the table has its values at low + k * 2^bits, k = 0, 1 and so on.

    With v = clamp(x, low, high) - low, k = floor(v / 2^bits) and f the remainder:

        out = sat(rne((table[k] * 2^bits + (table[k + 1] - table[k]) * f) / 2^(bits + 8)))

    The table is int32 and has one value after the last piece; bits 0..15.
    """

    elements: int
    low: int
    high: int
    bits: int


@dataclass(frozen=True, slots=True)
class PoolS16Params(WindowParams):
    """Maximum (`maximum` 1) or mean, rounded to even, of each window, NHWC.

    Elements inside the map count, and each window has at least one. A mean's divisor is their number if `divisor` is
    0. Windows have at most 65535 elements.
    """

    pad_h: int
    pad_w: int
    maximum: int
    divisor: int


@dataclass(frozen=True, slots=True)
class ReduceSumS16Params(ReduceSumParams):
    """Sum or mean over the middle of [outer, reduced, inner]; `divisor` is 1 for a sum, `reduced` for a mean.

        out = sat(rne(sum(x) * mult / (divisor * 2^shift)))

    divisor * 2^shift is at most 2^61, reduced * mult below 2^47, and in_zp and out_zp are 0.
    """


@dataclass(frozen=True, slots=True)
class RequantizeParams(KernelParams):
    """Change of dtype and scale: sat(out_zp + rne((x - in_zp) * mult / 2^shift)), shift 1..62.

    The zero point of int16 is 0.
    """

    elements: int
    in_zp: int
    mult: int
    shift: int
    out_zp: int


INT16_OPERATORS: tuple[CpuOperator, ...] = (
    CpuOperator("convolution_s16", ("input", "weights", "multipliers", "shifts", "bias"), ConvolutionS16Params),
    CpuOperator("broadcast_add_s16", ("a", "b"), AddS16Params),
    CpuOperator("broadcast_mul_s16", ("a", "b"), MulS16Params),
    CpuOperator("interpolate_s16", ("input", "table"), InterpolateS16Params),
    CpuOperator("pool_s16", ("input",), PoolS16Params),
    CpuOperator("reduce_sum_s16", ("input",), ReduceSumS16Params),
    CpuOperator("reduce_extremum_s16", ("input",), ReduceExtremumParams),
    CpuOperator("extremum_s16", ("a", "b"), ExtremumParams),
    CpuOperator("pad_s16", ("input",), PadParams),
    CpuOperator("requantize_s16", ("input",), RequantizeParams),
    CpuOperator("requantize_s8", ("input",), RequantizeParams),
)
"""The last two convert int8 to int16, and int16 to int8."""
