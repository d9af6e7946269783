"""Operators of ExecuTorch's Cortex-M backend in firmware: the values and parameter words of each call.

This table is the one definition: `tools/gen_headers.py` generates `firmware/include/deuteron/cortex_m.h` from it; the
lowering to bundles and the registration with ExecuTorch's runtime fill its records. A value's offset is the negated
zero point, which is added. Multipliers and shifts are CMSIS-NN's: a factor is multiplier * 2^(shift - 31).
"""

from dataclasses import dataclass
from types import MappingProxyType

from deuteron.operators.kernel_params import (
    AveragePoolParams,
    Dims4,
    Dims6,
    ExtremumParams,
    GroupedConvolutionParams,
    KernelParams,
    LutParams,
    MaxPoolParams,
)
from deuteron.operators.limits import MAX_DIMENSION


@dataclass(frozen=True, slots=True)
class CpuOperator:
    """One C function, `<prefix>_<name>`.

    Attributes:
        name: operator name in its namespace, without the suffix of a layout.
        inputs: names of the values that it reads, in order.
        params: record of its parameter words; its docstring defines the function.
        optional: inputs that a call may omit; they are last, each has a parameter `has_<input>`.
        scratch: names of the values that it writes before the output.
        state: names of the values behind these that it reads and writes, and that keep their content between runs.
        prefix: prefix of the C function, its types and constants.
    """

    name: str
    inputs: tuple[str, ...]
    params: type[KernelParams]
    optional: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    prefix: str = "dtn_cm"

    @property
    def symbol(self) -> str:
        """Return the C function that runs it."""
        return f"{self.prefix}_{self.name}"


@dataclass(frozen=True, slots=True)
class QuantizedAddParams(KernelParams):
    """Sum of two tensors; the smaller has the last dimensions of the larger and repeats along the others.

    Each operand minus its zero point, times 2^20, is multiplied by its factor; the sum by the output's factor. A
    difference has a negative b_multiplier.
    """

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
class QuantizedConvolutionParams(GroupedConvolutionParams):
    """Convolution, NHWC: sums of (input + in_offset) * weight, and the bias, times the channel's factor.

    With a kernel sum instead of a bias (`quantized_conv2d` only), sums are of input * weight, padding has the value
    -in_offset, and the kernel sum, which includes the offset of all weights, is added.
    Weights are [out_c, kernel_h, kernel_w, in_c / groups]; of the depthwise operator [kernel_h, kernel_w, out_c],
    whose groups are in_c; of the transposed one [out_c, kernel_h, kernel_w, in_c], whose groups and dilations are 1.
    Multipliers, 0 or more, shifts and bias are int32, one per output channel. Dimensions, strides, dilations and pads
    are at most 32767. A run fails for factors out of range.
    """

    in_offset: int
    out_offset: int
    act_min: int
    act_max: int
    has_bias: int
    has_kernel_sum: int = 0


@dataclass(frozen=True, slots=True)
class WinogradConvolutionParams(QuantizedConvolutionParams):
    """`quantized_conv2d` of 3x3 with stride 1, one group and a kernel sum, by Winograd's algorithm F(4x4, 3x3).

    It gives the same results if all sums are from -2^25 to 2^25 - 1; `winograd.h` has the arithmetic. Weights are
    int16, transformed: G g G' of each input and output channel. Output channels are in groups of three, the last four,
    two or one in groups of two. A group is ordered by position (6x6), input channels, output channel. Input channels
    are in pairs: 0 and 2, then 1 and 3, of each four. Groups and fours are filled with zeros. With `channels`, weights
    are those of `quantized_conv2d`. A run transforms them for at most this number of output channels, then computes
    these, and so on; it is 2, for groups of two, or more. Inputs are transformed again for each part of the channels,
    or once if `keeps_tiles` is 1. Scratch memory has at least `winograd_bytes`.
    """

    channels: int = 0
    keeps_tiles: int = 0


@dataclass(frozen=True, slots=True)
class InterleavedConvolutionParams(QuantizedConvolutionParams):
    """`quantized_conv2d` of one group with a kernel sum, whose rows of weights are interleaved: the same results.

    Weights are [out_c / 2, kernel_h, kernel_w, in_c, 2], int8 or int16, in the order of `interleaved_weights.h`. out_c
    is even.
    """


@dataclass(frozen=True, slots=True)
class PackedConvolutionParams(QuantizedConvolutionParams):
    """Convolution with packed weights of four bits: the results of the operator with int8 weights.

    Weights are rows in pairs: a byte is the weight of the first row plus 16 times that of the second. Behind the last
    of an odd number of rows is a row of zeros. `quantized_conv2d_s4` has a kernel sum; its weights are
    [groups, ceil(out_c / groups / 2), kernel_h, kernel_w, in_c / groups], with a row for each output channel of a
    group. The depthwise operator has as many output channels as input channels and at most 512 positions of the kernel;
    its weights are [ceil(kernel_h * kernel_w / 2), out_c], with a row for each position.
    """


@dataclass(frozen=True, slots=True)
class DecompressParams(KernelParams):
    """Bytes in the form in which a bundle keeps them: form 0 is a palette, form 1 a Huffman code.

    A palette is 16 bytes, and an index of four bits for each byte, that of the even ones in the lower half. The other
    form begins with the length of the code of each of 256 bytes, four bits each in the same order; 0 is for bytes
    without a code. Codes are canonical, of at most 15 bits, and complete: each sequence of bits begins with one. The
    codes follow, first bits first, and fill the last byte with zeros. A run fails for other lengths, and for codes
    that end before the stream or behind it. This form needs 768 bytes of scratch memory.
    """

    form: int

    @property
    def text(self) -> str:
        """Return the form in words."""
        return "a palette of 16 values" if self.form == PALETTE else "a Huffman code"


@dataclass(frozen=True, slots=True)
class QuantizedLinearParams(KernelParams):
    """Linear layer: input [rows, in_features] by weights [out_features, in_features], one factor for all channels.

    Sums of (input + in_offset) * (weight + weight_offset), and the bias; with a kernel sum instead of a bias, of
    input * (weight + weight_offset), and the kernel sum. Both are int32, one per output channel.
    """

    rows: int
    in_features: int
    out_features: int
    in_offset: int
    weight_offset: int
    out_offset: int
    multiplier: int
    shift: int
    act_min: int
    act_max: int
    has_bias: int
    has_kernel_sum: int


@dataclass(frozen=True, slots=True)
class InterleavedLinearParams(QuantizedLinearParams):
    """Linear layer whose rows of weights are interleaved: the results of `quantized_linear`.

    Weights are [out_features / 2, in_features, 2]: out_features is even. Their offset is 0, and there is a kernel sum.
    `interleaved_weights.h` has their order.
    """


@dataclass(frozen=True, slots=True)
class PackedLinearParams(QuantizedLinearParams):
    """Linear layer with packed weights of four bits: the results of the operator with int8 weights.

    Weights are packed as those of `quantized_conv2d_s4`: [ceil(out_features / 2), in_features]. Their offset is 0, and
    there is a kernel sum.
    """


@dataclass(frozen=True, slots=True)
class QuantizedBatchMatmulParams(KernelParams):
    """Sums of (a + a_offset) * (b + b_offset), scaled; a [batches, rows, depth], b [batches, columns, depth]."""

    batches: int
    rows: int
    depth: int
    columns: int
    a_offset: int
    b_offset: int
    out_offset: int
    multiplier: int
    shift: int


@dataclass(frozen=True, slots=True)
class QuantizedMulParams(KernelParams):
    """Product of two tensors, the smaller repeated along the larger, times the output's factor."""

    a_zp: int
    b_zp: int
    out_zp: int
    out_multiplier: int
    out_shift: int


@dataclass(frozen=True, slots=True)
class QuantizedDivParams(KernelParams):
    """Quotient of two int8 or int16 tensors of one size, in float32, rounded to nearest even; division by zero gives 0.

    `scale` is the float32 bits of the factor of the quotient.
    """

    a_zp: int
    b_zp: int
    out_zp: int
    scale: int


@dataclass(frozen=True, slots=True)
class QuantizedSoftmaxParams(KernelParams):
    """Softmax over the middle of [outer, depth, inner]; the output has the scale 1/256 and the zero point -128.

    The input's scale is in_multiplier * 2^(in_shift - 57).
    """

    outer: int
    depth: int
    inner: int
    in_multiplier: int
    in_shift: int


@dataclass(frozen=True, slots=True)
class RegionCopyParams(KernelParams):
    """Strided copy of any type, for transposes and other operators that only move bytes.

    out[out_start + sum(i * out_strides)] = in[in_start + sum(i * in_strides)], i over `dims`; all count bytes. Input
    strides may be negative.
    """

    out_start: int
    in_start: int
    dims: Dims6
    in_strides: Dims6
    out_strides: Dims6


def whole_copies(nbytes: int) -> tuple[RegionCopyParams, ...]:
    """Return the copies of a whole tensor: rows as long as a dimension may be, and the rest."""
    rows, rest = divmod(nbytes, MAX_DIMENSION)
    strides = (0, 0, 0, 0, MAX_DIMENSION, 1)
    parts = [(0, (1, 1, 1, 1, rows, MAX_DIMENSION))] * (rows > 0) + [(nbytes - rest, (1, 1, 1, 1, 1, rest))] * (
        rest > 0
    )
    return tuple(RegionCopyParams(start, start, dims, strides, strides) for start, dims in parts)


@dataclass(frozen=True, slots=True)
class GatherParams(KernelParams):
    """Rows of a table of any type, [outer, rows, row_bytes], by int32 or int64 indices: [outer, count, row_bytes].

    A run fails for indices out of range.
    """

    outer: int
    rows: int
    row_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class PadParams(KernelParams):
    """Pads each dimension of a tensor with `value` before and after; dimensions from the outermost in memory.

    Negative padding of the second dimension crops rows, for calls that compute some rows only.
    """

    dims: Dims4
    before: Dims4
    after: Dims4
    value: int


def gather_bytes(params: QuantizedConvolutionParams) -> int:
    """Return the bytes of scratch memory with which `quantized_conv2d` is fast: 4 per window element, or none.

    It accepts any size. With less it reads windows in place, with the same results; the other operators here need no
    scratch memory.
    """
    kernel = params.kernel_h * params.kernel_w
    return 0 if (kernel, params.pad_h, params.pad_w) == (1, 0, 0) else 4 * kernel * (params.in_c // params.groups)


TILE, PRODUCTS = 4, 36
"""Outputs of a tile of `winograd_conv2d` in a row, and products of all of them for each input channel."""


def winograd_fours(in_c: int) -> int:
    """Return the number of fours of input channels of `winograd_conv2d`."""
    return -(-in_c // 4)


def winograd_tiles(params: QuantizedConvolutionParams) -> int:
    """Return the number of tiles of `winograd_conv2d`, which computes two at a time."""
    tiles = params.batches * -(-params.out_h // TILE) * -(-params.out_w // TILE)
    return tiles + tiles % 2


def winograd_bytes(params: WinogradConvolutionParams) -> int:
    """Return the bytes of scratch memory that `winograd_conv2d` needs."""
    fours = winograd_fours(params.in_c)
    pairs = winograd_tiles(params) // 2 if params.keeps_tiles else 1
    words = 4 * PRODUCTS * min(fours, 4) + 6 * PRODUCTS + fours
    return 4 * (words + 4 * PRODUCTS * fours * pairs + 2 * PRODUCTS * fours * params.channels)


PALETTE, HUFFMAN = 0, 1
"""The forms of `decompress`."""

DECOMPRESS_BYTES = 768
"""Bytes of scratch memory for the tables of a Huffman code."""

_CONVOLUTION = ("input", "weights", "multipliers", "shifts")

CPU_OPERATORS: tuple[CpuOperator, ...] = (
    CpuOperator("quantized_add", ("a", "b"), QuantizedAddParams),
    CpuOperator("quantized_mul", ("a", "b"), QuantizedMulParams),
    CpuOperator("quantized_div", ("a", "b"), QuantizedDivParams),
    CpuOperator("quantized_activation", ("input", "table"), LutParams),
    CpuOperator("minimum", ("a", "b"), ExtremumParams),
    CpuOperator("maximum", ("a", "b"), ExtremumParams),
    CpuOperator("softmax", ("input",), QuantizedSoftmaxParams),
    CpuOperator("copy", ("input",), RegionCopyParams),
    CpuOperator("decompress", ("stream",), DecompressParams, scratch=("scratch",)),
    CpuOperator("gather", ("table", "indices"), GatherParams),
    CpuOperator("pad", ("input",), PadParams),
    CpuOperator("quantized_avg_pool2d", ("input",), AveragePoolParams, scratch=("scratch",)),
    CpuOperator("quantized_max_pool2d", ("input",), MaxPoolParams),
    CpuOperator("quantized_conv2d", _CONVOLUTION, QuantizedConvolutionParams, ("bias", "kernel_sum"), ("scratch",)),
    CpuOperator("winograd_conv2d", (*_CONVOLUTION, "kernel_sum"), WinogradConvolutionParams, (), ("scratch",)),
    CpuOperator("interleaved_conv2d", (*_CONVOLUTION, "kernel_sum"), InterleavedConvolutionParams, (), ("scratch",)),
    CpuOperator("quantized_depthwise_conv2d", _CONVOLUTION, QuantizedConvolutionParams, ("bias",), ("scratch",)),
    CpuOperator("quantized_conv2d_s4", (*_CONVOLUTION, "kernel_sum"), PackedConvolutionParams, (), ("scratch",)),
    CpuOperator("quantized_depthwise_conv2d_s4", _CONVOLUTION, PackedConvolutionParams, ("bias",), ("scratch",)),
    CpuOperator(
        "quantized_transpose_conv2d",
        _CONVOLUTION,
        QuantizedConvolutionParams,
        ("bias",),
        ("scratch", "output_scratch"),
    ),
    CpuOperator("quantized_linear", ("input", "weights"), QuantizedLinearParams, ("bias", "kernel_sum")),
    CpuOperator("interleaved_linear", ("input", "weights", "kernel_sum"), InterleavedLinearParams),
    CpuOperator("quantized_linear_s4", ("input", "weights", "kernel_sum"), PackedLinearParams),
    CpuOperator("quantized_batch_matmul", ("a", "b"), QuantizedBatchMatmulParams, (), ("scratch",)),
)

BY_OPERATOR = MappingProxyType({operator.name: operator for operator in CPU_OPERATORS})
"""The operators by name."""
