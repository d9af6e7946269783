"""Operators of ExecuTorch's portable kernels as firmware has them: the values and parameter words of each call.

They are those that ExecuTorch's own runner for Cortex-M links: what stays between int8 operators when a program is
lowered by its scripts. This table is the one definition of `firmware/include/deuteron/aten.h` (`tools/gen_headers.py`).

Tensors may lie in memory in any order: a call walks along dimensions with a stride for each operand, in elements, from
the outermost in the output's memory on. Results are float32's own, each operation rounded once.
"""

from dataclasses import dataclass
from types import MappingProxyType

from deuteron.npu.neutron.kernels.params import Dims4, Dims5, KernelParams
from deuteron.operators.cortex_m import CpuOperator

PREFIX = "dtn_op"
"""Of the C functions."""


@dataclass(frozen=True, slots=True)
class BinaryParams(KernelParams):
    """Product, or quotient, of two float32 tensors along `dims`; strides of what repeats are 0."""

    dims: Dims5
    a_strides: Dims5
    b_strides: Dims5


@dataclass(frozen=True, slots=True)
class AddParams(KernelParams):
    """a + b * alpha, float32 along `dims`; `alpha` has the bits of a float32."""

    dims: Dims5
    a_strides: Dims5
    b_strides: Dims5
    alpha: int


@dataclass(frozen=True, slots=True)
class CompareParams(KernelParams):
    """Whether a relation holds between two int8 or two float32 tensors along `dims`: 1 or 0, of the type bool.

    `relation` is 0 for a == b, 1 for a != b, 2 for a > b, 3 for a >= b; the others have their operands exchanged.
    """

    dims: Dims5
    a_strides: Dims5
    b_strides: Dims5
    relation: int


@dataclass(frozen=True, slots=True)
class ClampParams(KernelParams):
    """The smaller of `high` and the larger of `low` and x, int8 or float32; NaN stays.

    The limits are numbers for int8, the bits of them for float32.
    """

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class AmaxParams(KernelParams):
    """The largest of the elements along `reduced` for each element along `kept`, int8 or float32; NaN wins.

    The output lies along `kept` as that is.
    """

    kept: Dims5
    kept_strides: Dims5
    reduced: Dims5
    reduced_strides: Dims5


@dataclass(frozen=True, slots=True)
class FullParams(KernelParams):
    """A value in each element of the output; `low` and `high` have its bits, as many as an element takes."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ConvolutionParams(KernelParams):
    """Convolution of float32 maps.

    A sum takes channels, rows and columns in this order, then the bias. A transposed one starts with the bias, and
    takes the input's rows, columns and channels.

    Dimensions and strides are those of batches, channels, rows and columns; of the weights output channels (of all
    groups), input channels of a group, rows and columns. They, steps, dilations and pads are at most 32767.
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
    """The largest element under each window, int8 or float32, the first of equal ones. NaN is larger than nothing.

    Dimensions and strides as in a convolution; indices, of the type int64, count the elements of a plane row by row.
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
"""The operators by their name."""
