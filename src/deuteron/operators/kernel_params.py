"""Parameters of each NPU kernel: the fields, in this order, are the 32-bit words of its call in the microcode.

These classes are the one definition: `spec/microcode.md` prints them, the C header `firmware/include/deuteron/
microcode.h` is generated from them (`tools/gen_headers.py`), and encoder, decoder and disassembler use their
fields.
All values are signed 32-bit. Sizes count elements; one element is one byte unless said.
"""

from dataclasses import astuple, dataclass, fields
from typing import Self, cast

RANK = 6
"""Dimensions of the strided kernels (copy); outer dimensions that a tensor lacks are 1."""

BINARY_RANK = 5
"""Dimensions of the broadcasting kernels (add, mul)."""

Dims6 = tuple[int, int, int, int, int, int]
Dims3 = tuple[int, int, int]
Dims4 = tuple[int, int, int, int]
Dims5 = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class KernelParams:
    """Base of all parameter records; a field is one word, a tuple field is one word per item."""

    def words(self) -> tuple[int, ...]:
        """The words of the record in encoding order."""
        flat: list[int] = []
        for value in cast(tuple[int | tuple[int, ...], ...], astuple(self)):
            flat.extend(value if isinstance(value, tuple) else (value,))
        return tuple(flat)

    @classmethod
    def field_words(cls) -> tuple[tuple[str, int], ...]:
        """(field name, number of words) in encoding order."""
        lengths: dict[object, int] = {int: 1, Dims3: 3, Dims4: 4, Dims5: BINARY_RANK, Dims6: RANK}
        return tuple((f.name, lengths[f.type]) for f in fields(cls))

    @classmethod
    def word_count(cls) -> int:
        """Number of words of the record."""
        return sum(n for _, n in cls.field_words())

    @classmethod
    def from_words(cls, words: tuple[int, ...]) -> Self:
        """The record that `words` encode; there must be exactly `word_count()` of them."""
        values: list[int | tuple[int, ...]] = []
        at = 0
        for _, n in cls.field_words():
            values.append(words[at] if n == 1 else words[at : at + n])
            at += n
        if at != len(words):
            raise ValueError(f"{cls.__name__} takes {at} words, found {len(words)}")
        return cls(*values)


@dataclass(frozen=True, slots=True)
class BroadcastParams(KernelParams):
    """First words of operators on two operands that broadcast over `dims`; strides are in elements, 0 repeats."""

    dims: Dims5
    a_strides: Dims5
    b_strides: Dims5


@dataclass(frozen=True, slots=True)
class ReductionParams(KernelParams):
    """First words of reductions over the middle of [outer, reduced, inner]."""

    outer: int
    reduced: int
    inner: int


@dataclass(frozen=True, slots=True)
class MapParams(KernelParams):
    """First words of convolutions: NHWC maps."""

    batches: int
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    out_c: int


@dataclass(frozen=True, slots=True)
class GroupedConvolutionParams(MapParams):
    """First words of convolutions with groups."""

    groups: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int


@dataclass(frozen=True, slots=True)
class ChannelMapParams(KernelParams):
    """First words of operators on each channel of an NHWC map."""

    batches: int
    in_h: int
    in_w: int
    channels: int
    out_h: int
    out_w: int


@dataclass(frozen=True, slots=True)
class WindowParams(ChannelMapParams):
    """First words of pools, before their padding."""

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int


@dataclass(frozen=True, slots=True)
class BinaryParams(BroadcastParams):
    """First words of the NPU's kernels on two operands that broadcast."""


@dataclass(frozen=True, slots=True)
class PoolParams(WindowParams):
    """First words of the NPU's pools."""

    pad_top: int
    pad_left: int


@dataclass(frozen=True, slots=True)
class Conv2DParams(MapParams):
    """Convolution, NHWC with OHWI weights; padding below and right follows from the output size.

    Padded positions contribute nothing (the input there equals its zero point). `requant_count` is 1 (one multiplier
    for all channels) or out_c. Output positions start `out_pitch` bytes apart, so that a call may compute some of the
    channels of a map; the bytes between are left as they are.
    """

    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_top: int
    pad_left: int
    requant_count: int
    in_zp: int
    out_zp: int
    act_min: int
    act_max: int
    out_pitch: int


@dataclass(frozen=True, slots=True)
class DepthwiseConv2DParams(MapParams):
    """Depthwise convolution, weights [kernel_h, kernel_w, out_c], out_c = in_c * multiplier."""

    multiplier: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_top: int
    pad_left: int
    requant_count: int
    in_zp: int
    out_zp: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class FullyConnectedParams(KernelParams):
    """rows x in_features by weights [out_features, in_features]."""

    rows: int
    in_features: int
    out_features: int
    requant_count: int
    in_zp: int
    out_zp: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class AddParams(BinaryParams):
    """Broadcasting sum over `dims`; input strides are in elements, 0 repeats; the output is contiguous.

    out = clamp(out_zp + rne(((a - a_zp) * a_mult + (b - b_zp) * b_mult) / 2^shift)), shift 1..62; a difference has a
    negative b_mult.
    """

    a_zp: int
    b_zp: int
    a_mult: int
    b_mult: int
    shift: int
    out_zp: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class MulParams(BinaryParams):
    """Broadcasting product over `dims`; strides are in elements, 0 repeats.

    out = clamp(out_zp + rne((a - a_zp) * (b - b_zp) * mult / 2^shift)).
    """

    a_zp: int
    b_zp: int
    mult: int
    shift: int
    out_zp: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class AveragePoolParams(PoolParams):
    """Mean over each window, NHWC; only the n elements inside the map count, and each window has at least one.

    out = clamp(out_zp + rne(sum(x - in_zp) * mult / (n * 2^shift))); kernel_h * kernel_w * 2^shift is at most 2^61.
    """

    in_zp: int
    mult: int
    shift: int
    out_zp: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class MaxPoolParams(PoolParams):
    """Maximum over each window, NHWC; only elements inside the map count, and each window has at least one."""

    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class ReduceSumParams(ReductionParams):
    """Sum or mean over the middle of [outer, reduced, inner]; `divisor` is 1 for a sum, `reduced` for a mean.

    out = sat(out_zp + rne(sum(x - in_zp) * mult / (divisor * 2^shift))); divisor * 2^shift is at most 2^61.
    """

    divisor: int
    in_zp: int
    mult: int
    shift: int
    out_zp: int


@dataclass(frozen=True, slots=True)
class SoftmaxParams(KernelParams):
    """Softmax over rows of `depth` elements; e[k] = round(2^30 * exp(-k * beta * scale)), k = max - x.

    out = sat(out_zp + rne(e * mult / (sum(e) * 2^shift))), shift 0..16.
    """

    rows: int
    depth: int
    mult: int
    shift: int
    out_zp: int


@dataclass(frozen=True, slots=True)
class CopyParams(KernelParams):
    """Strided copy over `dims`: out[sum(i * out_strides)] = in[in_start + sum(i * in_strides)]; strides are in bytes.

    Input strides may be negative, to read backwards from `in_start`.
    """

    in_start: int
    dims: Dims6
    in_strides: Dims6
    out_strides: Dims6


@dataclass(frozen=True, slots=True)
class FillParams(KernelParams):
    """`size` bytes set to `value`."""

    size: int
    value: int


@dataclass(frozen=True, slots=True)
class LutParams(KernelParams):
    """`size` elements through a 256-entry table: out = table[x + 128]."""

    size: int


@dataclass(frozen=True, slots=True)
class ExtremumParams(BinaryParams):
    """Broadcasting maximum (`maximum` 1) or minimum (0) over `dims`; strides are in elements, 0 repeats."""

    maximum: int


@dataclass(frozen=True, slots=True)
class ReduceExtremumParams(ReductionParams):
    """Maximum (`maximum` 1) or minimum (0) of stored values over the middle of [outer, reduced, inner]."""

    maximum: int


@dataclass(frozen=True, slots=True)
class MatMulParams(KernelParams):
    """x [batches, rows, depth] by y [batches, depth, columns], contiguous.

    out = clamp(out_zp + rne(sum((x - x_zp) * (y - y_zp)) * mult / 2^shift)), shift 1..62.
    """

    batches: int
    rows: int
    depth: int
    columns: int
    x_zp: int
    y_zp: int
    mult: int
    shift: int
    out_zp: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class ResizeBilinearParams(ChannelMapParams):
    """Bilinear interpolation, NHWC; input and output have the same quantization.

    Output row i is at (start_h + i * step_h) / unit_h rows of the input, clamped to 0..in_h - 1; columns follow the
    same rule. Each output is zero_point + rne(sum of four weighted x - zero_point / (unit_h * unit_w)).
    """

    start_h: int
    step_h: int
    unit_h: int
    start_w: int
    step_w: int
    unit_w: int
    zero_point: int


@dataclass(frozen=True, slots=True)
class PreluParams(BinaryParams):
    """Broadcasting parametric relu over `dims`; strides are in elements, 0 repeats: a is x, b is alpha.

    out = sat(out_zp + rne((a - a_zp) * mult / 2^shift)) where a >= a_zp, else
    sat(out_zp + rne((a - a_zp) * (b - b_zp) * alpha_mult / 2^alpha_shift)).
    """

    a_zp: int
    b_zp: int
    mult: int
    shift: int
    alpha_mult: int
    alpha_shift: int
    out_zp: int


def row_copy(count: int, nbytes: int) -> CopyParams:
    """The copy of `count` rows of `nbytes` bytes."""
    strides = (0, 0, 0, 0, nbytes, 1)
    return CopyParams(0, (1, 1, 1, 1, count, nbytes), strides, strides)
