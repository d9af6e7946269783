"""Operators of float32 and of plain whole numbers in the order of TFLite's reference kernels.

A part of the table of `tflite.py`. Words that hold a float32 have its bits.
"""

from dataclasses import dataclass
from types import MappingProxyType

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.kernel_params import (
    BroadcastParams,
    ChannelMapParams,
    Dims5,
    Dims6,
    GroupedConvolutionParams,
    KernelParams,
    WindowParams,
)

PREFIX = "dtn_tfl"
"""Prefix of the C functions."""


@dataclass(frozen=True, slots=True)
class ArithmeticParams(BroadcastParams):
    """Broadcasting operator of two tensors of float32, int32 or int64, or of int8 and int16 as they are stored.

    `kind` 0 is a + b, 1 a - b, 2 a * b, 3 a / b, 4 floor(a / b), 5 a - b * floor(a / b), 6 (a - b)^2. Kind 7 is a,
    or a * b where a is below 0. The result is clamped; with int64, limits that are those of int32 do not count. Kind 7
    is of float32. Whole numbers keep their low bits; a quotient of 0 is 0.
    """

    kind: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class LogicalParams(BroadcastParams):
    """Broadcasting operator of two bools: `kind` 0 is and, 1 or, 2 not b."""

    kind: int


@dataclass(frozen=True, slots=True)
class ConvolutionF32Params(GroupedConvolutionParams):
    """Convolution of float32, NHWC, with weights [out_c, kernel_h, kernel_w, in_c / groups].

    Products are added from 0 on in the order of rows, columns and channels of the input, then the bias; the sum is
    clamped. With `transposed` 1 the input's elements are `stride` apart in the output, and dilations are 1.
    """

    transposed: int
    act_min: int
    act_max: int
    has_bias: int


@dataclass(frozen=True, slots=True)
class PoolF32Params(WindowParams):
    """Windows of float32, NHWC: `kind` 0 is the mean, 1 the largest value, 2 the root of the mean of squares.

    Elements are added row by row; those outside the map do not count.
    """

    pad_h: int
    pad_w: int
    kind: int
    act_min: int
    act_max: int


@dataclass(frozen=True, slots=True)
class ReduceParams(KernelParams):
    """A reduction of float32, int32, int64 or bool along `reduced` for each element along `kept`.

    `kind` 0 is the sum, 1 the sum divided by the number of elements, of float32 alone, 2 the product, 3 the largest
    and 4 the least. Elements are in memory order. For bool, 3 is any and 4 is all.
    """

    kept: Dims5
    kept_strides: Dims5
    reduced: Dims5
    reduced_strides: Dims5
    kind: int


@dataclass(frozen=True, slots=True)
class CumsumParams(KernelParams):
    """Running sums of [outer, length, inner] of float32, int32 or int64.

    With `exclusive` 1 an element is the sum of those before it; with `reverse` 1 the last one comes first.
    """

    outer: int
    length: int
    inner: int
    exclusive: int
    reverse: int


@dataclass(frozen=True, slots=True)
class SvdfF32Params(KernelParams):
    """SVDF of float32, as SvdfParams: the newest value of a filter is sum(x * feature weight).

    The output is the clamped bias + the sums over time of a unit's filters; all sums begin with 0, and keep their
    order.
    """

    batches: int
    in_features: int
    units: int
    rank: int
    steps: int
    act_min: int
    act_max: int
    has_bias: int


@dataclass(frozen=True, slots=True)
class UpdateSliceParams(KernelParams):
    """A tensor of any type of which a slice is replaced: `dims` of the tensor, `slice_dims` of the new values.

    The starts, int32 or int64, are those of the last `rank` dimensions; a start is held within 0 and the last place at
    which the slice fits.
    """

    rank: int
    dims: Dims6
    slice_dims: Dims6


@dataclass(frozen=True, slots=True)
class LogSoftmaxParams(KernelParams):
    """Log-softmax over rows of `depth` int8 elements, to int8 with scale 16/256 and zero point 127.

    The table has exp(-k * scale) in steps of 2^-19 for differences k from the largest element, 0..255; beyond its
    `entries` they are 0. A difference times the factor of `multiplier` is one in steps of 2^-26; less the logarithm of
    the sum it is rounded to steps of 2^-4. Where a difference is below `diff_min`, or below what 32 bits hold of the
    result, which the other factor says, the output is -128.
    """

    rows: int
    depth: int
    entries: int
    multiplier: int
    shift: int
    reverse_multiplier: int
    reverse_shift: int
    diff_min: int


@dataclass(frozen=True, slots=True)
class LogSoftmaxF32Params(KernelParams):
    """Log-softmax over rows of `depth` float32 elements: (x - largest) - ln(sum of exp)."""

    rows: int
    depth: int


@dataclass(frozen=True, slots=True)
class DetectionParams(KernelParams):
    """Boxes by anchors and non-maximum suppression: places, classes, scores and their number, all float32.

    A box has `codes` numbers, of which the first are y, x, h and w relative to its anchor, and `scores` scores, of
    which the first `label_offset` do not count. Its centre is y / y_scale * h_anchor + y_anchor, its height
    exp(h / h_scale) * h_anchor, in float64. Boxes are taken by their largest scores, those of at least
    `score_threshold`; a box that is taken removes the others whose intersection over union with it is above
    `iou_threshold`. With `per_class` above 0 this is done for each class by itself, for so many boxes of it, and the
    best of all classes stay. Entries after the number of detections are 0.
    """

    boxes: int
    codes: int
    scores: int
    label_offset: int
    detections: int
    score_threshold: int
    iou_threshold: int
    y_scale: int
    x_scale: int
    h_scale: int
    w_scale: int
    per_class: int


@dataclass(frozen=True, slots=True)
class BatchMatmulF32Params(KernelParams):
    """a [batches, rows, depth] by b [batches, columns, depth], of float32; products are added from 0 on, in order."""

    batches: int
    rows: int
    depth: int
    columns: int


@dataclass(frozen=True, slots=True)
class ResizeBilinearF32Params(ChannelMapParams):
    """Bilinear interpolation in float32, NHWC, of float32, or of int8 that is uint8 in the file, stored 128 lower.

    Output row i is at i * scale_h, or with `half_pixel_centers` 1 at (i + 1/2) * scale_h - 1/2; columns have the same
    rule. The four neighbours count with their shares of the height, then of the width; the sum of uint8 is rounded to
    nearest.
    """

    scale_h: int
    scale_w: int
    half_pixel_centers: int


UNQUANTIZED_OPERATORS: tuple[CpuOperator, ...] = (
    CpuOperator("arithmetic", ("a", "b"), ArithmeticParams, prefix=PREFIX),
    CpuOperator("logical", ("a", "b"), LogicalParams, prefix=PREFIX),
    CpuOperator("convolution_f32", ("input", "weights"), ConvolutionF32Params, ("bias",), prefix=PREFIX),
    CpuOperator("pool_f32", ("input",), PoolF32Params, prefix=PREFIX),
    CpuOperator("reduce", ("input",), ReduceParams, prefix=PREFIX),
    CpuOperator("cumsum", ("input",), CumsumParams, prefix=PREFIX),
    CpuOperator(
        "svdf_f32", ("input", "features", "times"), SvdfF32Params, ("bias",), state=("activation_state",), prefix=PREFIX
    ),
    CpuOperator("update_slice", ("input", "slice", "starts"), UpdateSliceParams, prefix=PREFIX),
    CpuOperator("log_softmax", ("input", "table"), LogSoftmaxParams, prefix=PREFIX),
    CpuOperator("log_softmax_f32", ("input",), LogSoftmaxF32Params, prefix=PREFIX),
    CpuOperator("batch_matmul_f32", ("a", "b"), BatchMatmulF32Params, prefix=PREFIX),
    CpuOperator("resize_bilinear_f32", ("input",), ResizeBilinearF32Params, prefix=PREFIX),
    CpuOperator(
        "detection",
        ("boxes", "scores", "anchors"),
        DetectionParams,
        scratch=("workspace",),
        prefix=PREFIX,
    ),
)

BY_UNQUANTIZED = MappingProxyType({operator.name: operator for operator in UNQUANTIZED_OPERATORS})
"""The operators by their name."""
