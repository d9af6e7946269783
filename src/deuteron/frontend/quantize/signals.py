"""Writes operators on signals as operators on images of one row, which quantizers and kernels support.

A signal [samples, channels, length] becomes the image [samples, channels, 1, length]. Operators between two such
operators work on images as well, so that no reshapes are needed there.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.quantize import singleton_dimensions
from deuteron.frontend.quantize.decompositions import call, constant, numbers, value_of
from deuteron.frontend.quantize.singleton_dimensions import UnsqueezedDecomposition

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace convolutions, pools and upsampling of signals, and the operators between them, by those of images."""
    singleton_dimensions.write(
        model, 2, {operator: (3, decomposition) for operator, decomposition in _DECOMPOSITIONS.items()}
    )


def _row(values: object, before: int) -> object:
    """Values for height and width, from those for a length; a word such as `same` stays."""
    return values if isinstance(values, str) else [before, *numbers(values, 1)]


def _convolution(model: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node | None:
    _, weight, bias, stride, padding, dilation, groups = (*node.args, *(None, 1, 0, 1, 1)[len(node.args) - 2 :])
    if (weights := _weights(model, cast(fx.Node, weight))) is None:
        return None
    operator = aten.conv2d.padding if isinstance(padding, str) else aten.conv2d.default
    return call(node, operator, x, weights, bias, _row(stride, 1), _row(padding, 0), _row(dilation, 1), groups)


def _transposed(model: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node | None:
    defaults = (None, 1, 0, 0, 1, 1)[len(node.args) - 2 :]
    _, weight, bias, stride, padding, more, groups, dilation = (*node.args, *defaults)
    if (weights := _weights(model, cast(fx.Node, weight))) is None:
        return None
    rows = _row(stride, 1), _row(padding, 0), _row(more, 0)
    return call(node, aten.conv_transpose2d.input, x, weights, bias, *rows, groups, _row(dilation, 1))


def _weights(model: fx.GraphModule, weight: fx.Node) -> fx.Node | None:
    """The weights for images; None for computed weights."""
    if weight.op != "get_attr":
        return None
    value = value_of(model, weight)
    return constant(model, weight, f"{weight.target}_row", value.unsqueeze(2), like=value)


def _max_pool(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
    window, stride, padding, dilation, up = cast("Any", (*node.args[1:], *((), 0, 1, False)[len(node.args) - 2 :]))
    rows = _row(window, 1), _row(stride or window, 1), _row(padding, 0), _row(dilation, 1)
    return call(node, aten.max_pool2d.default, x, *rows, up)


def _average_pool(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
    window, stride, padding, *rest = cast("Any", (*node.args[1:], *((), 0)[len(node.args) - 2 :]))
    return call(node, aten.avg_pool2d.default, x, _row(window, 1), _row(stride or window, 1), _row(padding, 0), *rest)


def _adaptive_pool(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
    return call(node, aten.adaptive_avg_pool2d.default, x, _row(node.args[1], 1))


def _upsampled(operator: object) -> UnsqueezedDecomposition:
    """Upsampling of a signal becomes upsampling of an image with one row."""

    def decomposition(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
        _, size, *corners, factors = cast("Any", node.args)
        return call(
            node,
            operator,
            x,
            None if size is None else [1, *size],
            *corners,
            None if factors is None else [1.0, *factors],
        )

    return decomposition


_DECOMPOSITIONS: Mapping[object, UnsqueezedDecomposition] = {
    aten.conv1d.default: _convolution,
    aten.conv1d.padding: _convolution,
    aten.conv_transpose1d.default: _transposed,
    aten.max_pool1d.default: _max_pool,
    aten.avg_pool1d.default: _average_pool,
    aten.adaptive_avg_pool1d.default: _adaptive_pool,
    aten.upsample_nearest1d.vec: _upsampled(aten.upsample_nearest2d.vec),
    aten.upsample_linear1d.vec: _upsampled(aten.upsample_bilinear2d.vec),
}
