"""Operators that slide a window over an NHWC map, and those that resize one."""

from collections.abc import Callable

from deuteron.errors import counted
from deuteron.npu.neutron.ir.ops import (
    AveragePool2D,
    Conv2D,
    DepthwiseConv2D,
    MaxPool2D,
    Op,
    Pads,
    ResizeBilinear,
    ResizeNearest,
    TransposeConv,
)
from deuteron.npu.neutron.tflite.attributes import same_pads
from deuteron.npu.neutron.tflite.operator_view import Site

_DILATION = ("DilationHFactor", "DilationWFactor", 1)
_STRIDE = ("StrideH", "StrideW")


def conv_2d(site: Site) -> Op:
    """Weights are symmetric and constant, per tensor or output channel, in one group; the bias is INT32 or left out."""
    weights = site.input_tensor(1)
    stride, dilation = site.pair(*_STRIDE), site.pair(*_DILATION)
    pads = site.pads(site.image_size(1), stride, dilation)
    site.image_size(0)
    channels, read = site.input_tensor(0).shape[3], weights.shape[3]
    if 0 < read < channels and channels % read == 0:
        raise site.unsupported(f"{channels // read} groups of {counted(read, 'input channel')}; one group is allowed")
    return Conv2D(
        inputs=(site.operand(0), site.weights(), site.bias(2, weights.shape[0])),
        outputs=(site.output(),),
        origin=(site.index,),
        stride=stride,
        dilation=dilation,
        pads=pads,
        clamp=site.clamp(),
    )


def depthwise_conv_2d(site: Site) -> Op:
    """Weights are symmetric and constant, per tensor or per channel; the bias is INT32 or left out."""
    weights = site.input_tensor(1)
    stride, dilation = site.pair(*_STRIDE), site.pair(*_DILATION)
    window = site.image_size(1)
    site.image_size(0)
    channels, results = site.input_tensor(0).shape[3], weights.shape[3]
    if channels < 1 or results % channels:
        raise site.malformed(f"{results} output channels are no multiple of {channels} input channels")
    multiplier = results // channels
    if (said := site.option("DepthMultiplier")) not in (0, multiplier):
        raise site.malformed(f"depth multiplier {said} where {channels} input channels give {results}")
    return DepthwiseConv2D(
        inputs=(site.operand(0), site.weights(), site.bias(2, results)),
        outputs=(site.output(),),
        origin=(site.index,),
        multiplier=multiplier,
        stride=stride,
        dilation=dilation,
        pads=site.pads(window, stride, dilation),
        clamp=site.clamp(),
    )


def transpose_conv(site: Site) -> Op:
    """Weights are symmetric and constant, per tensor or per output channel; the output's shape is constant."""
    weights, result = site.input_tensor(1), site.output_tensor().shape
    if site.integers(0, "output shape") != result:
        raise site.malformed(
            f"output shape {list(site.integers(0, 'output shape'))} is asked for, the output has {list(result)}"
        )
    (kernel_h, kernel_w), (height, width) = site.image_size(1), site.image_size(2)
    if len(result) != 4:
        raise site.malformed(f"the output has {len(result)} dimensions instead of 4")
    stride = site.pair(*_STRIDE)
    before = same_pads(result[1:3], (kernel_h, kernel_w), stride) if site.pads_same() else Pads()
    pads = Pads(
        top=before.top,
        bottom=(height - 1) * stride[0] + kernel_h - before.top - result[1],
        left=before.left,
        right=(width - 1) * stride[1] + kernel_w - before.left - result[2],
    )
    return TransposeConv(
        inputs=(site.operand(2), site.weights(), site.bias(3, weights.shape[0])),
        outputs=(site.output(),),
        origin=(site.index,),
        stride=stride,
        pads=pads,
        clamp=site.clamp(),
    )


def pool(kind: type[AveragePool2D] | type[MaxPool2D]) -> Callable[[Site], Op]:
    """The reader of one kind of pooling."""

    def lower(site: Site) -> Op:
        """SAME or VALID padding; fused activations as listed."""
        site.image_size(0)
        window, stride = site.pair("FilterHeight", "FilterWidth"), site.pair(*_STRIDE)
        return kind(
            inputs=(site.moved(0) if kind is MaxPool2D else site.operand(0),),
            outputs=(site.output(),),
            origin=(site.index,),
            window=window,
            stride=stride,
            pads=site.pads(window, stride),
            clamp=site.clamp(),
        )

    return lower


def resize_bilinear(site: Site) -> Op:
    """The size is constant; aligned corners, half-pixel centres, or neither."""
    _need_size(site)
    corners, centres = bool(site.option("AlignCorners")), bool(site.option("HalfPixelCenters"))
    if corners and centres:
        raise site.malformed("aligned corners and half-pixel centres exclude each other")
    return ResizeBilinear(
        inputs=(site.moved(0),),
        outputs=(site.output(),),
        origin=(site.index,),
        align_corners=corners,
        half_pixel_centers=centres,
    )


def resize_nearest(site: Site) -> Op:
    """The size is constant; no aligned corners; half-pixel centres where the size grows by whole factors."""
    _need_size(site)
    if site.option("AlignCorners"):
        raise site.unsupported("aligned corners; they are not allowed")
    sizes = tuple(zip(site.image_size(0), site.output_tensor().shape[1:3], strict=True))
    # There floor((i + 1/2) * in / out), which centres ask for, is floor(i * in / out) for all i; nowhere else.
    if site.option("HalfPixelCenters") and any(after % before for before, after in sizes):
        raise site.unsupported(
            f"half-pixel centres where {' and '.join(f'{before} become {after}' for before, after in sizes)}; "
            "they are allowed where the size grows by whole factors"
        )
    return ResizeNearest(inputs=(site.moved(0),), outputs=(site.output(),), origin=(site.index,))


def _need_size(site: Site) -> None:
    """The constant size must be the output's, and both tensors NHWC."""
    site.image_size(0)
    size, result = site.integers(1, "size"), site.output_tensor().shape
    if len(result) != 4 or size != result[1:3]:
        raise site.malformed(f"size {list(size)} is asked for, the output has {list(result)}")
