"""Operators over maps: convolutions, pools, resizes."""

from math import prod

import numpy as np
from tests.graphs.builder import AWKWARD, MAX_ELEMENTS, Builder, Shape

from deuteron.npu.neutron.ir import shapes
from deuteron.npu.neutron.ir.ops import (
    AveragePool2D,
    Conv2D,
    DepthwiseConv2D,
    MaxPool2D,
    Pad,
    Pads,
    Pair,
    ResizeBilinear,
    ResizeNearest,
    TransposeConv,
)
from deuteron.npu.neutron.ir.types import Tensor
from deuteron.npu.neutron.tflite.attributes import same_pads
from deuteron.tflite.quantization import Quant


def weight_scales(build: Builder, channels: int, axis: int, fan_in: int) -> tuple[Quant, float]:
    """Weight quantization, per channel as often as not, and a step of the output, in steps of the input, to suit."""
    scales = np.exp2(build.rng.uniform(-10, -5, channels if build.chance(0.6) else 1)).astype(np.float32)
    quant = Quant(tuple(map(float, scales)), (0,) * len(scales), axis if len(scales) > 1 else None)
    if len(scales) == 1 and channels == 1 and build.chance(0.5):
        quant = Quant(quant.scales, (0,), axis)
    return quant, float(scales.max()) * 50 * fan_in**0.5 * build.factor(0.3, 3)


def conv2d(build: Builder, x: Tensor, target: Quant | None = None) -> None:
    """A convolution, whose result has the quantization `target` if given."""
    if len(x.type.shape) != 4:
        return
    _, height, width, channels = x.type.shape
    kernel, stride, dilation, pads = _window(build, (height, width))
    out_c = build.pick(AWKWARD)
    quant, step = weight_scales(build, out_c, 0, prod(kernel) * channels)
    weights = build.constant((out_c, *kernel, channels), quant)
    bias = build.bias(out_c, x.type.q, quant)
    out = target or build.quant(step * x.type.q.scale)
    outputs, origin = build.fields()
    op = Conv2D(
        inputs=(x.name, weights.name, bias.name), outputs=outputs, origin=origin,
        stride=stride, dilation=dilation, pads=pads, clamp=build.clamp(out),
    )  # fmt: skip
    build.emit(op, out)


def depthwise(build: Builder, x: Tensor) -> None:
    """A depthwise convolution, with a multiplier now and then."""
    if len(x.type.shape) != 4:
        return
    _, height, width, channels = x.type.shape
    kernel, stride, dilation, pads = _window(build, (height, width))
    multiplier = build.pick((1, 1, 1, 2, 3))
    out_c = channels * multiplier
    quant, step = weight_scales(build, out_c, 3, prod(kernel))
    weights = build.constant((1, *kernel, out_c), quant)
    bias = build.bias(out_c, x.type.q, quant)
    out = build.quant(step * x.type.q.scale)
    outputs, origin = build.fields()
    op = DepthwiseConv2D(
        inputs=(x.name, weights.name, bias.name), outputs=outputs, origin=origin,
        multiplier=multiplier, stride=stride, dilation=dilation, pads=pads, clamp=build.clamp(out),
    )  # fmt: skip
    build.emit(op, out)


def transpose_conv(build: Builder, x: Tensor) -> None:
    """A transposed convolution; its output may lack rows that the kernel reaches, or have some that it does not."""
    if len(x.type.shape) != 4:
        return
    batches, height, width, channels = x.type.shape
    kernel = build.pick((1, 2, 3, 5)), build.pick((1, 2, 3, 4))
    stride = build.pick((1, 2, 2, 3)), build.pick((1, 2, 2, 3))
    same = build.chance(0.5)
    top, bottom, rows = _crop(build, height, kernel[0], stride[0], same=same)
    left, right, columns = _crop(build, width, kernel[1], stride[1], same=same)
    out_c = build.pick(AWKWARD)
    if batches * rows * columns * max(out_c, channels) > MAX_ELEMENTS:
        return
    quant, step = weight_scales(build, out_c, 0, prod(kernel) * channels)
    weights = build.constant((out_c, *kernel, channels), quant)
    bias = build.bias(out_c, x.type.q, quant)
    out = build.quant(step * x.type.q.scale)
    outputs, origin = build.fields()
    op = TransposeConv(
        inputs=(x.name, weights.name, bias.name), outputs=outputs, origin=origin,
        stride=stride, pads=Pads(top, bottom, left, right), clamp=build.clamp(out),
    )  # fmt: skip
    build.emit(op, out)


def _crop(build: Builder, size: int, kernel: int, stride: int, *, same: bool) -> tuple[int, int, int]:
    """Both pads and the size of the result along one dimension, as TFLite's SAME or VALID make them."""
    full = (size - 1) * stride + kernel
    if not build.stock:
        before, after = build.between(0, kernel - 1), build.between(1 - stride, kernel - 1)
        if full - before - after >= 1:
            return before, after, full - before - after
    if same:
        rows = build.between((size - 1) * stride + 1, size * stride)
        before = max(0, full - rows) // 2
        return before, full - rows - before, rows
    rows = full + build.between(0, stride - 1)
    return 0, full - rows, rows


def average_pool(build: Builder, x: Tensor) -> None:
    """An average pool; TFLite's keeps the quantization."""
    if len(x.type.shape) != 4:
        return
    window, stride, _, pads = _window(build, (x.type.shape[1], x.type.shape[2]), dilated=False)
    other = build.quant(x.type.q.scale * build.factor(0.3, 1.5))
    out = x.type.q if build.stock or build.chance(0.5) else other
    outputs, origin = build.fields()
    op = AveragePool2D(
        inputs=(x.name,), outputs=outputs, origin=origin, window=window, stride=stride, pads=pads,
        clamp=build.clamp(out),
    )  # fmt: skip
    build.emit(op, out)


def max_pool(build: Builder, x: Tensor) -> None:
    """A max pool."""
    if len(x.type.shape) != 4:
        return
    window, stride, _, pads = _window(build, (x.type.shape[1], x.type.shape[2]), dilated=False)
    outputs, origin = build.fields()
    op = MaxPool2D(
        inputs=(x.name,), outputs=outputs, origin=origin, window=window, stride=stride, pads=pads,
        clamp=build.clamp(x.type.q),
    )  # fmt: skip
    build.emit(op, x.type.q)


def padded_window(build: Builder, x: Tensor) -> None:
    """A padding that the op after it could do itself, as ExecuTorch's converter writes it."""
    if len(x.type.shape) != 4 or x.type.numel > MAX_ELEMENTS // 4:
        return
    pool = build.chance(0.3)
    paddings = ((0, 0), (build.between(0, 2), 1), (build.between(0, 2), 1), (0, 0))
    outputs, origin = build.fields()
    value = -128 if pool else x.type.q.zero_point
    op = Pad(inputs=(x.name,), outputs=outputs, origin=origin, paddings=paddings, value=value)
    padded = build.emit(op, x.type.q)
    make = build.pick((max_pool, average_pool)) if pool else build.pick((conv2d, depthwise))
    make(build, padded)


def resize_bilinear(build: Builder, x: Tensor) -> None:
    """A bilinear resize, mostly up."""
    if (size := _resized(build, x)) is None:
        return
    align = build.chance(0.4)
    outputs, origin = build.fields()
    op = ResizeBilinear(
        inputs=(x.name,), outputs=outputs, origin=origin,
        align_corners=align, half_pixel_centers=not align and build.chance(0.6),
    )  # fmt: skip
    build.emit(op, x.type.q, size)


def resize_nearest(build: Builder, x: Tensor) -> None:
    """A nearest-neighbour resize, mostly up."""
    if (size := _resized(build, x)) is None:
        return
    outputs, origin = build.fields()
    build.emit(ResizeNearest(inputs=(x.name,), outputs=outputs, origin=origin), x.type.q, size)


def _resized(build: Builder, x: Tensor) -> Shape | None:
    """The shape of a resized map, None when it would be too large."""
    if len(x.type.shape) != 4:
        return None
    n, h, w, c = x.type.shape
    rows, columns = (d * build.pick((1, 2, 2, 4)) if build.chance(0.7) else build.between(1, 9) for d in (h, w))
    return (n, rows, columns, c) if n * rows * columns * c <= MAX_ELEMENTS else None


def _window(build: Builder, size: Pair, *, dilated: bool = True) -> tuple[Pair, Pair, Pair, Pads]:
    """Kernel, stride, dilation and pads, such that at least one window fits the map."""
    while True:
        kernel = build.pick((1, 2, 3, 3, 5)), build.pick((1, 2, 3, 3, 5))
        dilation = (build.pick((1, 1, 1, 2, 3)), build.pick((1, 1, 1, 2, 3))) if dilated else (1, 1)
        stride = build.pick((1, 1, 2, 3)), build.pick((1, 1, 2, 3))
        pads = same_pads(size, kernel, stride, dilation) if build.chance(0.5) else Pads()
        if not build.stock and build.chance(0.6):
            rows, columns = (shapes.extent(k, d) - 1 for k, d in zip(kernel, dilation, strict=True))
            pads = Pads(*(build.between(0, limit) for limit in (rows, rows, columns, columns)))
        before_after = (pads.top, pads.bottom), (pads.left, pads.right)
        windows = map(shapes.window_count, size, kernel, stride, dilation, before_after)
        if min(windows) >= 1:
            return kernel, stride, dilation, pads
