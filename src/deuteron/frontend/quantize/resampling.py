"""Writes resampling operators without kernels as convolutions, linear layers with constant weights, and sums."""

import math
from collections.abc import Mapping
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, constant_value, numbers

aten = torch.ops.aten


def write(model: fx.GraphModule, *, weights: bool = True) -> None:
    """Decompose unfolding, folding, fixed grids, and interpolation whose kernel is cubic or antialiased, in place.

    `weights` says that weights are constants, so that a grid which they decide is fixed.
    """
    apply(model, _DECOMPOSITIONS)
    if weights or not any(value.requires_grad for value in model.parameters()):
        apply(model, _OF_GRIDS)


def _unfolded(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The neighbourhoods of an image: a depthwise convolution copies each of their elements to a channel."""
    x = cast(fx.Node, node.args[0])
    size, steps, pads, stride = (numbers(arg, 2) for arg in node.args[1:5])
    shape = [*x.meta["val"].shape]
    image = x if len(shape) == 4 else call(node, aten.reshape.default, x, [1, *shape])
    if _is_even(size, steps, pads, stride) and not any(n % size[0] for n in shape[-2:]):
        parts = call(node, aten.pixel_unshuffle.default, image, size[0])
    else:
        channels = shape[-3]
        weight = constant(model, node, f"{node.name}_weight", _copies(size, channels))
        parts = call(node, aten.conv2d.default, image, weight, None, stride, pads, steps, channels)
    return call(node, aten.reshape.default, parts, [*node.meta["val"].shape])


def _folded(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    """The sum of neighbourhoods: cut into parts that lie side by side, whose images are added."""
    x = cast(fx.Node, node.args[0])
    outputs, size, steps, pads, stride = (numbers(arg, 2) for arg in node.args[1:6])
    *_, rows, _ = shape = [*x.meta["val"].shape]
    batch, channels = shape[0] if len(shape) == 3 else 1, rows // (size[0] * size[1])
    ends = [step * (n - 1) + 1 - 2 * pad for step, n, pad in zip(steps, size, pads, strict=True)]
    counts = [(n - end) // move + 1 for n, end, move in zip(outputs, ends, stride, strict=True)]
    more = [n - end - (count - 1) * move for n, end, count, move in zip(outputs, ends, counts, stride, strict=True)]
    if steps != [1, 1]:
        image = call(node, aten.reshape.default, x, [batch, rows, *counts])
        weight = constant(model, node, f"{node.name}_weight", _copies(size, channels))
        whole = call(node, aten.conv_transpose2d.input, image, weight, None, stride, pads, more, channels, steps)
    elif _is_even(size, steps, pads, stride) and not any(more):
        whole = call(
            node, aten.pixel_shuffle.default, call(node, aten.reshape.default, x, [batch, rows, *counts]), size[0]
        )
    else:
        windows = call(node, aten.reshape.default, x, [batch * channels, *size, *counts])
        windows = call(node, aten.permute.default, windows, [0, 2, 4, 3, 1])
        columns = _added(node, windows, stride[0], pads[0], outputs[0])
        columns = call(node, aten.permute.default, columns, [0, 3, 2, 1])
        whole = _added(node, columns, stride[1], pads[1], outputs[1])
    return call(node, aten.reshape.default, whole, [*node.meta["val"].shape])


def _added(node: fx.Node, x: fx.Node, stride: int, pad: int, length: int) -> fx.Node:
    """Add windows [..., count, size] of a line at their places; return its elements from `pad`."""
    *outer, count, size = x.meta["val"].shape
    parts = -(-size // stride)
    x = _extended(node, x, 0, parts * stride)
    starts = range(0, parts * stride, stride)
    cut = [call(node, aten.slice.Tensor, x, -1, at, at + stride) for at in starts] if parts > 1 else [x]
    images = [call(node, aten.reshape.default, part, [*outer, count * stride]) for part in cut]
    moved = [
        _extended(node, image, at - pad, length)
        for at, image in zip(starts, images, strict=True)
        if -count * stride < at - pad < length
    ]
    return reduce(lambda one, other: call(node, aten.add.Tensor, one, other), moved)


def _extended(node: fx.Node, x: fx.Node, first: int, length: int) -> fx.Node:
    """A line of `length` zeros, with the elements of `x` from `first` on."""
    have = x.meta["val"].shape[-1]
    begin, end = max(0, -first), min(have, length - first)
    if (begin, end) != (0, have):
        x = call(node, aten.slice.Tensor, x, -1, begin, end)
    zeros = [max(0, first), length - max(0, first) - (end - begin)]
    return call(node, aten.constant_pad_nd.default, x, zeros) if any(zeros) else x


def _is_even(size: list[int], steps: list[int], pads: list[int], stride: list[int]) -> bool:
    """True for square neighbourhoods that lie side by side."""
    return size[0] == size[1] and size == stride and steps == [1, 1] and not any(pads)


def _copies(size: list[int], channels: int) -> Tensor:
    """Weights of a grouped convolution that copy each element of a window to its own channel."""
    count = size[0] * size[1]
    return torch.eye(count).reshape(count, 1, *size).repeat(channels, 1, 1, 1)


def _interpolated(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Interpolation computes each row, and each column, as a product with a constant matrix."""
    x = cast(fx.Node, node.args[0])
    for dim, back in ((3, 2), (2, 3)):
        size = x.meta["val"].shape[dim]
        identity = torch.eye(size).reshape(1, size, 1, size).expand(1, size, x.meta["val"].shape[back], size)
        image = identity if dim == 3 else identity.transpose(2, 3)
        # Where all columns are equal, or all rows, the results are too.
        weight = cast(Any, node.target)(image, *node.args[1:], **node.kwargs).select(back, 0)[0].t()
        kept = constant(model, node, f"{node.name}_{dim}_weight", weight.contiguous())
        rows = call(node, aten.linear.default, call(node, aten.transpose.int, x, 2, 3) if dim == 2 else x, kept)
        x = call(node, aten.transpose.int, rows, 2, 3) if dim == 2 else rows
    return x


def _sampled(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Each sample of a fixed grid is a sum of pixels with constant weights: a column of a matrix."""
    x, grid = cast("tuple[fx.Node, fx.Node]", node.args[:2])
    places = constant_value(model, grid)
    samples, channels, *sizes = cast("list[int]", [*x.meta["val"].shape])
    pixels, outputs = math.prod(sizes), math.prod(node.meta["val"].shape[2:])
    if places is None or len(sizes) != 2 or pixels * outputs > _MOST_WEIGHTS or bool((places != places[:1]).any()):
        return None
    images = torch.eye(pixels).reshape(1, pixels, *sizes)
    columns = cast(Any, node.target)(images, places[:1], *node.args[2:], **node.kwargs).reshape(pixels, outputs)
    kept = constant(model, node, f"{node.name}_weight", columns.t().contiguous())
    rows = call(node, aten.reshape.default, x, [samples, channels, pixels])
    return call(node, aten.reshape.default, call(node, aten.linear.default, rows, kept), [*node.meta["val"].shape])


_MOST_WEIGHTS = 1 << 20
"""Weights of a fixed grid that is written as a matrix."""

_INTERPOLATIONS = (
    aten.upsample_bicubic2d.vec,
    aten._upsample_bicubic2d_aa.vec,  # noqa: SLF001
    aten._upsample_bilinear2d_aa.vec,  # noqa: SLF001
)

_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    aten.im2col.default: _unfolded,
    aten.col2im.default: _folded,
    **dict.fromkeys(_INTERPOLATIONS, _interpolated),
}

_OF_GRIDS: Mapping[object, Decomposition] = {
    aten.grid_sampler.default: _sampled,
    aten.grid_sampler_2d.default: _sampled,
}
