"""Writes layers whose weights the model computes as products of matrices: backends take constant weights alone.

A convolution gets its windows side by side (im2col); a computed bias is added.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.operators import reads_inputs
from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, numbers

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace linear layers and convolutions with computed weights, and add computed biases, in place."""
    apply(model, _DECOMPOSITIONS)


def _linear(_: fx.GraphModule, layer: fx.Node) -> fx.Node | None:
    x, weight, bias = cast("tuple[fx.Node, fx.Node, fx.Node | None]", (*layer.args, None)[:3])
    if not _is_computed(weight, bias) or weight.meta["val"].dim() != 2:
        return None
    if not reads_inputs(weight):
        return call(layer, aten.add.Tensor, call(layer, aten.linear.default, x, weight), bias)
    product = call(layer, aten.matmul.default, x, call(layer, aten.transpose.int, weight, 0, 1))
    return product if bias is None else call(layer, aten.add.Tensor, product, bias)


def _convolution(model: fx.GraphModule, layer: fx.Node) -> fx.Node | None:
    """Replace a convolution of signals or images by products with each window."""
    x, weight, *given = cast("tuple[Any, ...]", layer.args)
    options: tuple[Any, ...] = (*given, *(None, 1, 0, 1, 1)[len(given) :])
    bias, stride, pads, steps, groups = options
    shape, dims = [*weight.meta["val"].shape], weight.meta["val"].dim() - 2
    batched = x.meta["val"].dim() == dims + 2
    if not _is_computed(weight, bias) or isinstance(pads, str) or not batched:
        return None
    if not reads_inputs(weight):
        product = call(layer, layer.target, x, weight, None, *given[1:])
    else:
        batch, wanted = x.meta["val"].shape[0], layer.meta["val"].shape
        windows = _windows(model, layer, x, shape[2:], *(numbers(one, dims) for one in (stride, pads, steps)))
        size = math.prod(shape[1:])
        columns = call(layer, aten.reshape.default, windows, [batch * groups, size, math.prod(wanted[2:])])
        rows = call(layer, aten.reshape.default, weight, [groups, shape[0] // groups, size])
        if batch > 1:
            rows = call(layer, aten.cat.default, [rows] * batch)
        product = call(layer, aten.reshape.default, call(layer, aten.bmm.default, rows, columns), [*wanted])
    if bias is None:
        return product
    return call(layer, aten.add.Tensor, product, call(layer, aten.reshape.default, bias, [-1, *[1] * dims]))


def _is_computed(*weights: fx.Node | None) -> bool:
    return any(one is not None and reads_inputs(one) for one in weights)


def _windows(
    model: fx.GraphModule,
    layer: fx.Node,
    x: fx.Node,
    sizes: Sequence[int],
    stride: Sequence[int],
    pads: Sequence[int],
    steps: Sequence[int],
) -> fx.Node:
    """The elements of each window: [batch, channels, window..., positions...]."""
    if any(pads):
        x = call(layer, aten.constant_pad_nd.default, x, [pad for one in reversed(pads) for pad in (one, one)], 0.0)
    shape, dims = [*x.meta["val"].shape], len(sizes)
    apart, positions = shape[:2], [*layer.meta["val"].shape[2:]]
    for dim in range(dims):
        starts = torch.arange(positions[dim]) * stride[dim]
        places = (torch.arange(sizes[dim])[:, None] * steps[dim] + starts).flatten()
        apart += [sizes[dim], positions[dim]]
        if not torch.equal(places, torch.arange(shape[2 + dim])):
            kept = constant(model, layer, f"{layer.name}_places_{dim}", places)
            x = call(layer, aten.index_select.default, x, 2 + dim, kept)
    x = call(layer, aten.reshape.default, x, apart)
    order = [0, 1, *range(2, 2 + 2 * dims, 2), *range(3, 3 + 2 * dims, 2)]
    return x if dims == 1 else call(layer, aten.permute.default, x, order)


_DECOMPOSITIONS: dict[object, Decomposition] = {
    aten.linear.default: _linear,
    aten.conv1d.default: _convolution,
    aten.conv2d.default: _convolution,
}
