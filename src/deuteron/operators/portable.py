"""Operators of ExecuTorch's portable kernels in firmware: the values and parameter words of each call.

They are those that ExecuTorch's own runner for Cortex-M links: operators between int8 ones when its scripts lower a
program. This table is the one definition of `firmware/include/deuteron/aten.h` (`tools/gen_headers.py`).

Tensors may have any memory order: a call iterates over dimensions with a stride for each operand, in elements, from the
outermost of the output's memory. Results are in float32, each operation rounded once.
"""

from dataclasses import dataclass
from types import MappingProxyType

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.kernel_params import BroadcastParams, Dims4, Dims5, KernelParams

PREFIX = "dtn_op"
"""Prefix of the C functions."""


@dataclass(frozen=True, slots=True)
class BinaryParams(BroadcastParams):
    """Product, or quotient, of two float32 tensors along `dims`; a stride of 0 repeats an operand."""


@dataclass(frozen=True, slots=True)
class AddParams(BroadcastParams):
    """a + b * alpha, float32 along `dims`; `alpha` is the bits of a float32."""

    alpha: int


@dataclass(frozen=True, slots=True)
class CompareParams(BroadcastParams):
    """Comparison of two int8 or two float32 tensors along `dims`; the output is bool, 1 or 0.

    `relation` is 0 for a == b, 1 for a != b, 2 for a > b, 3 for a >= b; the others exchange their operands.
    """

    relation: int


@dataclass(frozen=True, slots=True)
class ClampParams(KernelParams):
    """Clamp: min(`high`, max(`low`, x)), int8 or float32; NaN is kept.

    The limits are numbers for int8, float32 bits for float32.
    """

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class AmaxParams(KernelParams):
    """Maximum over the dimensions `reduced` for each element along `kept`, int8 or float32; NaN wins.

    The output has the memory order of `kept`.
    """

    kept: Dims5
    kept_strides: Dims5
    reduced: Dims5
    reduced_strides: Dims5


@dataclass(frozen=True, slots=True)
class FullParams(KernelParams):
    """Fills the output with a value; `low` and `high` are its bits, as many as an element has."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ConvolutionParams(KernelParams):
    """Convolution of float32 maps.

    A sum adds channels, rows and columns in this order, then the bias. A transposed one starts with the bias, and
    adds the input's rows, columns and channels.

    Dimensions and strides are batches, channels, rows and columns; of the weights output channels (of all
    groups), input channels of a group, rows and columns. They, strides, dilations and pads are at most 32767.
    """

    input: Dims4
    output: Dims4
    input_strides: Dims4
    weight_strides: Dims4
    output_strides: Dims4
    groups: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    transposed: int
    has_bias: int


@dataclass(frozen=True, slots=True)
class MaxPoolParams(KernelParams):
    """Maximum of each window, int8 or float32, the first of equal ones; NaN wins.

    Dimensions and strides as in a convolution; indices are int64 and count the elements of a plane row by row.
    """

    input: Dims4
    output: Dims4
    input_strides: Dims4
    output_strides: Dims4
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int


ATEN_OPERATORS: tuple[CpuOperator, ...] = (
    CpuOperator("add", ("a", "b"), AddParams, prefix=PREFIX),
    CpuOperator("mul", ("a", "b"), BinaryParams, prefix=PREFIX),
    CpuOperator("div", ("a", "b"), BinaryParams, prefix=PREFIX),
    CpuOperator("compare", ("a", "b"), CompareParams, prefix=PREFIX),
    CpuOperator("clamp", ("input",), ClampParams, prefix=PREFIX),
    CpuOperator("amax", ("input",), AmaxParams, prefix=PREFIX),
    CpuOperator("full", (), FullParams, prefix=PREFIX),
    CpuOperator("convolution", ("input", "weights"), ConvolutionParams, ("bias",), prefix=PREFIX),
    CpuOperator("max_pool2d", ("input",), MaxPoolParams, scratch=("indices",), prefix=PREFIX),
)
BY_ATEN_OPERATOR = MappingProxyType({operator.name: operator for operator in ATEN_OPERATORS})
"""The operators by name."""
