"""Operators with the arithmetic of TFLite's reference kernels: the values and parameter words of each call.

This table is the one definition of `firmware/include/deuteron/tflite.h` (`tools/gen_headers.py`). It has the operators
that round otherwise than those of `cortex_m.py` and `custom_ops.py`, and those that these lack.

A factor is multiplier * 2^(shift - 31), multiplier 0 or more, shift -31..30. R(x) is TFLite's product with a factor,
`MultiplyByQuantizedMultiplier`: it rounds to nearest after the multiplication, and after the shift to the right again,
there with ties away from zero. Strides are in elements; 0 repeats an operand.
"""

from dataclasses import dataclass
from types import MappingProxyType

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.kernel_params import (
    BroadcastParams,
    ChannelMapParams,
    Dims5,
    GroupedConvolutionParams,
    KernelParams,
    ReductionParams,
    WindowParams,
)
from deuteron.operators.recurrent import LstmParams, LstmS16Params
from deuteron.operators.tflite_signal import SIGNAL_OPERATORS
from deuteron.operators.tflite_unquantized import UNQUANTIZED_OPERATORS

PREFIX = "dtn_tfl"
"""Prefix of the C functions."""


@dataclass(frozen=True, slots=True)
class BroadcastAddParams(BroadcastParams):
    """Sum of two int8 or two int16 tensors; with `kind` 1 their difference, with 2 the square of that.

    out = clamp(out_zp + R(R((a - a_zp) * 2^left_shift) + R((b - b_zp) * 2^left_shift))), each with its own factor.
    """

    kind: int
    left_shift: int
    a_zp: int
    a_multiplier: int
    a_shift: int
    b_zp: int
    b_multiplier: int
    b_shift: int
    out_zp: int
    out_multiplier: int
    out_shift: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class BroadcastMulParams(BroadcastParams):
    """Product of two int8 or two int16 tensors: out = clamp(out_zp + R((a - a_zp) * (b - b_zp)))."""

    a_zp: int
    b_zp: int
    out_zp: int
    out_multiplier: int
    out_shift: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class DivideParams(BroadcastParams):
    """Quotient of two int8 tensors: out = clamp(out_zp + R((a - a_zp) / (b - b_zp))).

    The reciprocal of the divisor has 31 bits. The divisor 0 gives the quotient 0.
    """

    a_zp: int
    b_zp: int
    out_zp: int
    out_multiplier: int
    out_shift: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class FullyConnectedParams(KernelParams):
    """Input [rows, in_features] by int8 weights [out_features, in_features]; activations are int8 or int16.

    out = clamp(out_zp + (sum((x - in_zp) * (w - weight_zp)) + bias) * factor), rounded once, ties away from zero. A
    factor has the three int32 words high, 0..2^21 - 1, low, unsigned, and shift, 1..127:
    (high * 2^32 + low) / 2^shift. There is one for all channels, or one for each. The bias is int32 or int64.
    """

    rows: int
    in_features: int
    out_features: int
    in_zp: int
    weight_zp: int
    out_zp: int
    act_min: int
    act_max: int
    per_channel: int
    has_bias: int


@dataclass(frozen=True, slots=True)
class ConvolutionParams(GroupedConvolutionParams):
    """Convolution of int8 or int16, NHWC; int8 weights [out_c, kernel_h, kernel_w, in_c / groups].

    out = clamp(out_zp + (sum((x - in_zp) * (w - weight_zp)) + bias) * factor): with `narrow` 1 sums of 32 bits and R,
    else sums of 64 bits and the factor's multiplier in 15 bits, rounded once, ties up. Multipliers and shifts are
    int32, one per output channel; the bias is int32 or int64. Dimensions, strides, dilations and pads are at most
    32767.
    """

    in_zp: int
    weight_zp: int
    out_zp: int
    act_min: int
    act_max: int
    narrow: int
    has_bias: int


@dataclass(frozen=True, slots=True)
class MatmulParams(KernelParams):
    """a [batches, rows, depth] of int16 by b [batches, columns, depth] of int8 or int16, to int16.

    Sums have 64 bits; the factor's multiplier has 15, and the product is rounded once, ties up.
    """

    batches: int
    rows: int
    depth: int
    columns: int
    multiplier: int
    shift: int


@dataclass(frozen=True, slots=True)
class PreluParams(BroadcastParams):
    """PReLU of int8 or int16: out = sat(out_zp + R(x - a_zp)), or R((x - a_zp) * (alpha - b_zp)) below a_zp.

    The second has the factor of `alpha_multiplier` and `alpha_shift`. Both operands have one type.
    """

    a_zp: int
    b_zp: int
    out_zp: int
    multiplier: int
    shift: int
    alpha_multiplier: int
    alpha_shift: int


@dataclass(frozen=True, slots=True)
class RequantizeParams(KernelParams):
    """Another scale, or another one of the types int8, uint8, int16 and int32: out = clamp(out_zp + R(x - in_zp))."""

    elements: int
    in_zp: int
    multiplier: int
    shift: int
    out_zp: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class QuantizeParams(KernelParams):
    """float32 to int8, uint8 or int16: out = sat(zero_point + x / scale), the quotient rounded, ties away from zero.

    `scale` has the bits of a float32. NaN counts as 0.
    """

    elements: int
    scale: int
    zero_point: int


@dataclass(frozen=True, slots=True)
class PoolParams(WindowParams):
    """The largest value or the mean of each window, NHWC, of int8 or int16; elements outside the map do not count.

    The mean is rounded to nearest, ties away from zero, or with `ties_up` 1 up. Each window has at least one element.
    """

    pad_h: int
    pad_w: int
    act_min: int
    act_max: int
    ties_up: int = 0


@dataclass(frozen=True, slots=True)
class ReduceSumParams(KernelParams):
    """Sum or mean of int8 or int16 along `reduced` for each element along `kept`, the dimensions of the output.

    A mean, `real` 0, is sat(out_zp + R(sum(x - in_zp))) with the divisor in its factor. A sum, `real` 1, is
    sat(out_zp + (sum(x) * scale + bias)) in float32, rounded to nearest, ties away from zero: multiplier and shift have
    the bits of scale and bias.
    """

    kept: Dims5
    kept_strides: Dims5
    reduced: Dims5
    reduced_strides: Dims5
    real: int
    in_zp: int
    multiplier: int
    shift: int
    out_zp: int


@dataclass(frozen=True, slots=True)
class SoftmaxParams(KernelParams):
    """Softmax over rows of `depth` int8 elements, to int8 with scale 1/256 or int16 with scale 1/65536.

    The table has exp(-k * scale) in steps of 2^-31 for differences k from the largest element, 0..255; beyond its
    `entries` they are 0. The output's zero point is its type's least value.
    """

    rows: int
    depth: int
    entries: int


@dataclass(frozen=True, slots=True)
class ResizeBilinearParams(ChannelMapParams):
    """Bilinear interpolation, NHWC, of int8 or int16: positions have 10 bits behind the point.

    Output row i is at i * step_h + start_h; columns follow the same rule. The result is rounded to
    nearest, ties away from zero.
    """

    start_h: int
    step_h: int
    start_w: int
    step_w: int


@dataclass(frozen=True, slots=True)
class SoftmaxS16Params(KernelParams):
    """Softmax over rows of `depth` int16 elements, to int16 with scale 1/32768.

    Differences from the largest element times the factor are looked up in the first table, which has exp from -10 to 0;
    the second has 1 / (1 + x) from 0 to 1. Both are those of `lookup_s16`.
    """

    rows: int
    depth: int
    multiplier: int
    shift: int


@dataclass(frozen=True, slots=True)
class LookupS16Params(KernelParams):
    """A function of int16 by 512 pieces of straight lines: the table has 513 int16 values, 128 numbers apart."""

    elements: int


@dataclass(frozen=True, slots=True)
class SigmoidS16Params(KernelParams):
    """The logistic function, or with `tanh` 1 the hyperbolic tangent, of int16, to int16 with scale 1/32768.

    The table has 256 int32 values: 65536 / (1 + exp(-i / 24)). The input is x * multiplier / 2^shift in steps of
    1/12288; the multiplier is at most 65535, the shift 0..31.
    """

    elements: int
    multiplier: int
    shift: int
    tanh: int


@dataclass(frozen=True, slots=True)
class L2NormalizeParams(KernelParams):
    """Rows of `depth` int8 elements divided by their length, to int8 with scale 1/128 and zero point 0."""

    rows: int
    depth: int
    in_zp: int


@dataclass(frozen=True, slots=True)
class CompareParams(BroadcastParams):
    """Broadcasting comparison of two tensors of one type, to bool: `kind` 0 is a < b, 1 a <= b, 2 a == b, 3 a != b.

    With `scaled` 1, for int8 and int16 only, the compared numbers are R((x - zp) * 2^8), each with its own factor.
    """

    kind: int
    scaled: int
    a_zp: int
    a_multiplier: int
    a_shift: int
    b_zp: int
    b_multiplier: int
    b_shift: int


@dataclass(frozen=True, slots=True)
class SelectParams(KernelParams):
    """Broadcasting choice of any type: a where the condition, a bool, is true, else b."""

    dims: Dims5
    condition_strides: Dims5
    a_strides: Dims5
    b_strides: Dims5


@dataclass(frozen=True, slots=True)
class CastParams(KernelParams):
    """Another type of bool, uint8, int8, int16, int32, uint32, int64 and float32; whole numbers keep their low bits.

    float32 is truncated to an integer and clamped to the type; NaN becomes the largest.
    """

    elements: int


@dataclass(frozen=True, slots=True)
class ArgExtremumParams(ReductionParams):
    """Place of the first largest (`maximum` 1) or least (0) of [outer, reduced, inner], to int32 or int64.

    The input is int8, uint8, int16, int32 or float32.
    """

    maximum: int


@dataclass(frozen=True, slots=True)
class SoftmaxF32Params(KernelParams):
    """Softmax over rows of `depth` float32 elements; `beta` has the bits of a float32."""

    rows: int
    depth: int
    beta: int


@dataclass(frozen=True, slots=True)
class FunctionF32Params(KernelParams):
    """A function of float32: `kind` 0 logistic, 1 tanh, 2 exp, 3 sqrt, 4 1 / sqrt, 5 abs, 6 -x, 7 x^2, 8 floor.

    9 is ceil, 10 round with ties to even, 11 sin, 12 cos, 13 ln, 14 ELU, 15 hard swish, 16 GELU, 17 GELU by tanh,
    18 sign. The exponential function and others that no sums and products give are computed in float64 and rounded
    once. Beyond 2^29 sin and cos are 0.
    """

    elements: int
    kind: int


@dataclass(frozen=True, slots=True)
class SvdfParams(KernelParams):
    """Singular value decomposition filter (SVDF) over a stream: input [batches, in_features], output [batches, units].

    Unit u has the filters u * rank to u * rank + rank - 1. The state [batches, units * rank, steps], int8 or int16,
    moves by one step; the newest value of a filter is state_zp + sat(R(sum((x - in_zp) * feature weight))). The output
    is sat(out_zp + R(bias + sum((state - state_zp) * time weight))), over the steps of a unit's filters. Feature
    weights are int8 [units * rank, in_features], time weights [units * rank, steps] have the state's type, the bias is
    int32. Sums keep their low 32 bits.
    """

    batches: int
    in_features: int
    units: int
    rank: int
    steps: int
    in_zp: int
    state_zp: int
    state_multiplier: int
    state_shift: int
    out_zp: int
    out_multiplier: int
    out_shift: int
    has_bias: int


@dataclass(frozen=True, slots=True)
class DequantizeParams(KernelParams):
    """(x - zero_point) * scale of int8, uint8 or int16, in float32; `scale` has its bits."""

    scale: int
    zero_point: int


DEQUANTIZE = CpuOperator("dequantize_per_tensor", ("input",), DequantizeParams, prefix="dtn_op")
"""An operator of `deuteron/operators.h`, which gives the bytes of the reference kernel."""

TFLITE_OPERATORS: tuple[CpuOperator, ...] = (
    CpuOperator("fully_connected", ("input", "weights", "factors"), FullyConnectedParams, ("bias",), prefix=PREFIX),
    CpuOperator(
        "convolution", ("input", "weights", "multipliers", "shifts"), ConvolutionParams, ("bias",), prefix=PREFIX
    ),
    CpuOperator("broadcast_add", ("a", "b"), BroadcastAddParams, prefix=PREFIX),
    CpuOperator("broadcast_mul", ("a", "b"), BroadcastMulParams, prefix=PREFIX),
    CpuOperator("divide", ("a", "b"), DivideParams, prefix=PREFIX),
    CpuOperator("prelu", ("input", "alpha"), PreluParams, prefix=PREFIX),
    CpuOperator("requantize", ("input",), RequantizeParams, prefix=PREFIX),
    CpuOperator("quantize", ("input",), QuantizeParams, prefix=PREFIX),
    CpuOperator("average_pool", ("input",), PoolParams, prefix=PREFIX),
    CpuOperator("max_pool_s16", ("input",), PoolParams, prefix=PREFIX),
    CpuOperator("reduce_sum", ("input",), ReduceSumParams, prefix=PREFIX),
    CpuOperator("softmax", ("input", "table"), SoftmaxParams, prefix=PREFIX),
    CpuOperator("resize_bilinear", ("input",), ResizeBilinearParams, prefix=PREFIX),
    CpuOperator("batch_matmul_s16", ("a", "b"), MatmulParams, prefix=PREFIX),
    CpuOperator("softmax_s16", ("input", "exponentials", "reciprocals"), SoftmaxS16Params, prefix=PREFIX),
    CpuOperator("lookup_s16", ("input", "table"), LookupS16Params, prefix=PREFIX),
    CpuOperator("sigmoid_s16", ("input", "table"), SigmoidS16Params, prefix=PREFIX),
    CpuOperator("l2_normalize", ("input",), L2NormalizeParams, prefix=PREFIX),
    CpuOperator("compare", ("a", "b"), CompareParams, prefix=PREFIX),
    CpuOperator("select", ("condition", "a", "b"), SelectParams, prefix=PREFIX),
    CpuOperator("cast", ("input",), CastParams, prefix=PREFIX),
    CpuOperator("arg_extremum", ("input",), ArgExtremumParams, prefix=PREFIX),
    CpuOperator("softmax_f32", ("input",), SoftmaxF32Params, prefix=PREFIX),
    CpuOperator("function_f32", ("input",), FunctionF32Params, prefix=PREFIX),
    CpuOperator(
        "svdf", ("input", "features", "times"), SvdfParams, ("bias",), state=("activation_state",), prefix=PREFIX
    ),
    CpuOperator(
        "lstm",
        ("input", "input_weights", "hidden_weights", "starts"),
        LstmParams,
        scratch=("gates",),
        state=("hidden_state", "cell_state"),
        prefix=PREFIX,
    ),
    CpuOperator(
        "lstm_s16",
        ("input", "weights", "biases", "table"),
        LstmS16Params,
        scratch=("gates",),
        state=("hidden_state", "cell_state"),
        prefix=PREFIX,
    ),
    *UNQUANTIZED_OPERATORS,
    *SIGNAL_OPERATORS,
)

BY_TFLITE_OPERATOR = MappingProxyType({operator.name: operator for operator in TFLITE_OPERATORS})
"""The operators by their name."""
