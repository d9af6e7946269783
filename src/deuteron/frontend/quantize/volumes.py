"""Writes layers over three dimensions as layers over two, whose batch is the frames: the slices of the first dimension.

A convolution joins the frames under its kernel as channels; a transposed one first puts zeros between the frames.
Elementwise operators between such layers compute with frames too, so that none are rearranged there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.frontend.quantize.decompositions import call, constant, numbers, value_of

aten = torch.ops.aten

_RANK = 5
"""Samples, channels, frames, height and width."""


def write(model: fx.GraphModule) -> None:
    """Replace the layers in place; those with computed weights or divisors of their own stay."""
    if not any(node.target in _LAYERS or node.target is aten.conv3d.padding for node in model.graph.nodes):
        return
    frames = dict[fx.Node, fx.Node]()
    for node in list(model.graph.nodes):
        if node.target is aten.conv3d.padding:
            _pad(node)
        elif node.target in _LAYERS:
            _add_batch(node)
    for node in list(model.graph.nodes):
        layer = _LAYERS.get(node.target, _elementwise if _is_elementwise(node) else None)
        if layer is None or _shape(node) is None or (node.target not in _LAYERS and not _reads(node, frames)):
            continue
        for x in node.all_input_nodes:
            if x not in frames and _shape(x) is not None:
                frames[x] = _to_frames(node, x)
        result = layer(model, node, frames)
        if result is not None:
            volume = _from_frames(node, result)
            frames[volume] = result
            node.replace_all_uses_with(volume)
    model.graph.eliminate_dead_code()
    model.recompile()


Layer = Callable[[fx.GraphModule, fx.Node, Mapping[fx.Node, fx.Node]], "fx.Node | None"]


def _shape(node: fx.Node) -> tuple[int, ...] | None:
    """Return the shape of a volume; None for another value, such as a weight."""
    value: object = node.meta.get("val")
    is_volume = isinstance(value, Tensor) and value.dim() == _RANK and node.op != "get_attr"
    return tuple(cast(Tensor, value).shape) if is_volume else None


def _add_batch(layer: fx.Node) -> None:
    """Let a layer compute a batch of one, if its volume has no batch."""
    x = cast(fx.Node, layer.args[0])
    if cast(Tensor, x.meta["val"]).dim() != _RANK - 1:
        return
    batch = call(layer, layer.target, call(layer, aten.unsqueeze.default, x, 0), *layer.args[1:], **layer.kwargs)
    layer.replace_all_uses_with(call(layer, aten.squeeze.dim, batch, 0))


def _pad(layer: fx.Node) -> None:
    """Write the padding of a convolution, given by name, as numbers; the zeros of an odd one are a layer."""
    x, weight, *given = cast("tuple[fx.Node, fx.Node, Any]", layer.args)
    bias, stride, padding, dilation, groups = (*given, *(None, [1], "valid", [1], 1)[len(given) :])
    sizes = cast(Tensor, weight.meta["val"]).shape[2:]
    zeros = [step * (size - 1) for step, size in zip(numbers(dilation, 3), sizes, strict=True)]
    zeros = [0] * 3 if padding == "valid" else zeros
    if any(count % 2 for count in zeros):
        ends = [end for count in reversed(zeros) for end in (count // 2, count - count // 2)]
        x, zeros = call(layer, aten.pad.default, x, ends), [0] * 3
    settings = (stride, [count // 2 for count in zeros], dilation, groups)
    same = call(layer, aten.conv3d.default, x, weight, bias, *settings)
    layer.replace_all_uses_with(same)
    _add_batch(same)


def _is_elementwise(node: fx.Node) -> bool:
    """True for batch norms, and for pointwise operators whose tensors all have one shape."""
    if node.target is aten.batch_norm.default:
        return True
    is_pointwise = torch.Tag.pointwise in getattr(node.target, "tags", ()) or node.target is aten.dropout.default
    return is_pointwise and all(_shape(x) == _shape(node) for x in node.all_input_nodes)


def _reads(node: fx.Node, frames: Mapping[fx.Node, fx.Node]) -> bool:
    return any(x in frames for x in node.all_input_nodes)


def _to_frames(before: fx.Node, x: fx.Node) -> fx.Node:
    """Rearrange a volume as images, one for each frame of each sample."""
    samples, channels, depth, *sizes = cast("tuple[int, ...]", _shape(x))
    if channels > 1 and depth > 1:
        x = call(before, aten.permute.default, x, [0, 2, 1, 3, 4])
    return call(before, aten.reshape.default, x, [samples * depth, channels, *sizes])


def _from_frames(node: fx.Node, images: fx.Node) -> fx.Node:
    samples, channels, depth, *sizes = cast("tuple[int, ...]", _shape(node))
    x = call(node, aten.reshape.default, images, [samples, depth, channels, *sizes])
    if channels > 1 and depth > 1:
        return call(node, aten.permute.default, x, [0, 2, 1, 3, 4])
    return call(node, aten.reshape.default, x, [samples, channels, depth, *sizes])


def _elementwise(_: fx.GraphModule, node: fx.Node, frames: Mapping[fx.Node, fx.Node]) -> fx.Node:
    args, kwargs = map_arg(cast(Any, (node.args, node.kwargs)), lambda one: frames.get(one, one))
    return call(node, node.target, *args, **kwargs)


def _convolution(model: fx.GraphModule, node: fx.Node, frames: Mapping[fx.Node, fx.Node]) -> fx.Node | None:
    x, weight, *given = cast("tuple[fx.Node, fx.Node, Any]", node.args)
    bias, stride, padding, dilation, groups = (*given, *(None, 1, 0, 1, 1)[len(given) :])
    if weight.op != "get_attr" or isinstance(padding, str):
        return None
    stride, padding, dilation = (numbers(one, 3) for one in (stride, padding, dilation))
    value, shape = value_of(model, weight), cast("tuple[int, ...]", _shape(x))
    flat = constant(model, node, f"{weight.target}_frames", value.flatten(1, 2), like=value)
    count = cast("tuple[int, ...]", _shape(node))[2]
    images = _under(node, frames[x], shape, (value.shape[2], stride[0], padding[0], dilation[0]), count)
    return call(node, aten.conv2d.default, images, flat, bias, stride[1:], padding[1:], dilation[1:], groups)


def _transposed(model: fx.GraphModule, node: fx.Node, frames: Mapping[fx.Node, fx.Node]) -> fx.Node | None:
    x, weight, *given = cast("tuple[fx.Node, fx.Node, Any]", node.args)
    bias, stride, padding, further, groups, dilation = (*given, *(None, 1, 0, 0, 1, 1)[len(given) :])
    if weight.op != "get_attr":
        return None
    stride, padding, further, dilation = (numbers(one, 3) for one in (stride, padding, further, dilation))
    value, (samples, channels, depth, *sizes) = value_of(model, weight), cast("tuple[int, ...]", _shape(x))
    reach = dilation[0] * (value.shape[2] - 1) - padding[0]
    if reach < 0 or further[0] >= stride[0]:
        return None
    joined = value.flip(2).transpose(1, 2).flatten(0, 1)
    flat = constant(model, node, f"{weight.target}_frames", joined, like=value)
    images, count = frames[x], cast("tuple[int, ...]", _shape(node))[2]
    if stride[0] > 1:
        rows = call(node, aten.reshape.default, images, [samples, depth, 1, channels * math.prod(sizes)])
        rows = call(node, aten.pad.default, rows, [0, 0, 0, stride[0] - 1])
        images = call(node, aten.reshape.default, rows, [samples * depth * stride[0], channels, *sizes])
    shape = (samples, channels, depth * stride[0], *sizes)
    images = _under(node, images, shape, (value.shape[2], 1, reach, dilation[0]), count)
    settings = (stride[1:], padding[1:], further[1:], groups, dilation[1:])
    return call(node, aten.conv_transpose2d.input, images, flat, bias, *settings)


def _under(
    node: fx.Node, images: fx.Node, shape: Sequence[int], window: tuple[int, int, int, int], count: int
) -> fx.Node:
    """Join, for each of `count` positions of a kernel, the frames under it: channels of one image."""
    samples, channels, depth, *sizes = shape
    size, stride, padding, dilation = window
    if (size, stride, padding) == (1, 1, 0):
        return images
    area = math.prod(sizes)
    rows = call(node, aten.reshape.default, images, [samples, depth, channels * area])
    if padding:
        rows = call(node, aten.pad.default, rows, [0, 0, padding, padding])
    parts: list[fx.Node] = []
    for start in range(0, size * dilation, dilation):
        part = call(node, aten.slice.Tensor, rows, 1, start, start + (count - 1) * stride + 1, stride)
        parts.append(call(node, aten.reshape.default, part, [samples * count, channels, area]))
    joined = call(node, aten.cat.default, parts, 2) if size > 1 else parts[0]
    return call(node, aten.reshape.default, joined, [samples * count, channels * size, *sizes])


def _average(_: fx.GraphModule, node: fx.Node, frames: Mapping[fx.Node, fx.Node]) -> fx.Node | None:
    x, window, *given = cast("tuple[fx.Node, Any]", node.args)
    stride, padding, ceils, includes, divisor = (*given, *((), 0, False, True, None)[len(given) :])
    window, stride, padding = numbers(window, 3), numbers(stride or window, 3), numbers(padding, 3)
    if divisor is not None or (window[0] > 1 and window[1:] == [1, 1] and given[:1] == [[1, 1, 1]]):
        return None  # the second is an average of adjacent channels
    ends = (ceils, includes)
    images = frames[x]
    if window[1:] != [1, 1] or stride[1:] != [1, 1]:
        images = call(node, aten.avg_pool2d.default, images, window[1:], stride[1:], padding[1:], *ends)
    planes = _planes(node, images, cast("tuple[int, ...]", _shape(x)))
    depth = call(node, aten.avg_pool2d.default, planes, [window[0], 1], [stride[0], 1], [padding[0], 0], *ends)
    return _images(node, depth)


def _adaptive_average(_: fx.GraphModule, node: fx.Node, frames: Mapping[fx.Node, fx.Node]) -> fx.Node:
    x = cast(fx.Node, node.args[0])
    depth, *sizes = cast("tuple[int, ...]", _shape(node))[2:]
    images = call(node, aten.adaptive_avg_pool2d.default, frames[x], sizes)
    planes = _planes(node, images, cast("tuple[int, ...]", _shape(x)))
    return _images(node, call(node, aten.adaptive_avg_pool2d.default, planes, [depth, planes.meta["val"].shape[-1]]))


def _enlarged(_: fx.GraphModule, node: fx.Node, frames: Mapping[fx.Node, fx.Node]) -> fx.Node:
    """Enlarge each frame, and then the frames, which are the rows of an image, along their dimension."""
    x = cast(fx.Node, node.args[0])
    depth, *sizes = cast("tuple[int, ...]", _shape(node))[2:]
    flags = node.args[2:-1]
    factors = cast("Sequence[float] | None", node.args[-1])
    operator = _ENLARGED[node.target]
    in_frames, along = (None, None) if factors is None else (factors[1:], [factors[0], 1.0])
    images = call(node, operator, frames[x], None if factors else sizes, *flags, in_frames)
    planes = _planes(node, images, cast("tuple[int, ...]", _shape(x)))
    columns = planes.meta["val"].shape[-1]
    return _images(node, call(node, operator, planes, None if factors else [depth, columns], *flags, along))


_ENLARGED: Mapping[object, object] = {
    aten.upsample_nearest3d.vec: aten.upsample_nearest2d.vec,
    aten.upsample_trilinear3d.vec: aten.upsample_bilinear2d.vec,
}


def _planes(node: fx.Node, images: fx.Node, shape: Sequence[int]) -> fx.Node:
    """Rearrange frames as one image per sample, of which they are the rows."""
    return call(node, aten.reshape.default, images, [shape[0], 1, shape[2], math.prod(images.meta["val"].shape[1:])])


def _images(node: fx.Node, planes: fx.Node) -> fx.Node:
    samples, channels, depth, *sizes = cast("tuple[int, ...]", _shape(node))
    return call(node, aten.reshape.default, planes, [samples * depth, channels, *sizes])


_LAYERS: Mapping[object, Layer] = {
    aten.conv3d.default: _convolution,
    aten.conv_transpose3d.input: _transposed,
    aten.avg_pool3d.default: _average,
    aten.adaptive_avg_pool3d.default: _adaptive_average,
    **dict.fromkeys(_ENLARGED, _enlarged),
}
