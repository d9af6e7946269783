"""Writes convolutions whose weights depend on the model's inputs as matrix products with neighbourhoods."""

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.operators import reads_inputs
from deuteron.frontend.quantize import resampling
from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, numbers, value_of

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace the convolutions of images and signals in place; those with a padding mode stay."""
    apply(model, _DECOMPOSITIONS)
    resampling.write(model)


def _signal(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A convolution of a signal is one of an image with one row."""
    x, weight, *given = cast("tuple[fx.Node, fx.Node, Any]", node.args)
    if not _is_computed(node, 3):
        return None
    bias, stride, padding, dilation, groups = (*given, *(None, 1, 0, 1, 1)[len(given) :])
    rows = ([first, *numbers(one, 1)] for first, one in ((1, stride), (0, padding), (1, dilation)))
    image, kernel = (call(node, aten.unsqueeze.default, one, 2) for one in (x, weight))
    image = call(node, aten.conv2d.default, image, kernel, bias, *rows, groups)
    product = cast(fx.Node, _image(model, image))
    image.replace_all_uses_with(product)
    return call(node, aten.reshape.default, product, [*node.meta["val"].shape])


def _image(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The product of the weights with the columns of neighbourhoods, for each sample and group."""
    x, weight, *given = cast("tuple[fx.Node, fx.Node, Any]", node.args)
    if not _is_computed(node, 4):
        return None
    bias, stride, padding, dilation, groups = cast("tuple[Any, ...]", (*given, *(None, 1, 0, 1, 1)[len(given) :]))
    stride, padding, dilation = (numbers(one, 2) for one in (stride, padding, dilation))
    samples, channels = x.meta["val"].shape[:2]
    outputs, _, *window = weight.meta["val"].shape
    shape = [*node.meta["val"].shape]
    if (window, stride, padding) != ([1, 1], [1, 1], [0, 0]):
        x = call(node, aten.im2col.default, x, window, dilation, padding, stride)
    depth = channels // groups * math.prod(window)
    columns = call(node, aten.reshape.default, x, [samples * groups, depth, math.prod(shape[2:])])
    rows = call(node, aten.reshape.default, weight, [1, groups, outputs // groups, depth])
    if samples > 1:
        rows = call(node, aten.expand.default, rows, [samples, groups, outputs // groups, depth])
    rows = call(node, aten.reshape.default, rows, [samples * groups, outputs // groups, depth])
    result = call(node, aten.reshape.default, call(node, aten.bmm.default, rows, columns), shape)
    if bias is None:
        return result
    if bias.op == "get_attr":
        value = value_of(model, bias)
        bias = constant(model, node, f"{bias.target}_channels", value.reshape(1, -1, 1, 1), like=value)
    else:
        bias = call(node, aten.reshape.default, bias, [1, outputs, 1, 1])
    return call(node, aten.add.Tensor, result, bias)


def _is_computed(node: fx.Node, rank: int) -> bool:
    """True for a batch of samples and weights that depend on inputs."""
    x, weight = cast("tuple[fx.Node, fx.Node]", node.args[:2])
    return x.meta["val"].dim() == rank and reads_inputs(weight)


_DECOMPOSITIONS: Mapping[object, Decomposition] = {aten.conv1d.default: _signal, aten.conv2d.default: _image}
