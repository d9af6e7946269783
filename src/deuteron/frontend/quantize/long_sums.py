"""Splits layers that add more products than the CPU's int8 kernels can, so that no sum exceeds 32 bits."""

import itertools
from collections.abc import Mapping
from functools import partial, reduce
from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, value_of

aten = torch.ops.aten

MAX_PRODUCTS = 32768
"""`DTN_CM_MAX_PRODUCTS` of the kernels: products of an int8 weight and a number below 256 that one sum has."""


def write(model: fx.GraphModule) -> None:
    """Replace such layers with constant weights, and matrix products, by sums of parts of their terms, in place."""
    apply(model, _DECOMPOSITIONS)


def _split(model: fx.GraphModule, layer: fx.Node, *, dim: int, axis: int) -> fx.Node | None:
    """The sum of layers; input channels are dimension `dim` of the input, and `axis` of the weights."""
    x, weight, *rest = cast("tuple[fx.Node, fx.Node]", layer.args)
    channels = cast(Tensor, x.meta["val"]).shape[dim]
    if weight.op != "get_attr":
        return None
    value = value_of(model, weight)
    products = value.numel() // value.shape[1 - axis]
    if value.shape[axis] != channels:
        return _of_groups(model, layer, channels // value.shape[axis]) if products > MAX_PRODUCTS and axis else None
    each = MAX_PRODUCTS * channels // products
    if not 0 < each < channels:
        return None
    parts: list[fx.Node] = []
    for at in range(0, channels, each):
        size = min(each, channels - at)
        weights = constant(
            model, layer, f"{weight.target}_{at}_{size}", value.narrow(axis, at, size).contiguous(), like=value
        )
        one = call(layer, aten.slice.Tensor, x, dim, at, at + size)
        parts.append(call(layer, layer.target, one, weights, *(rest if at == 0 else [None, *rest[1:]])))
    return reduce(lambda one, other: call(layer, aten.add.Tensor, one, other), parts)


def _of_groups(model: fx.GraphModule, layer: fx.Node, groups: int) -> fx.Node:
    """The results of the groups of a convolution, each of which is split."""
    x, weight, bias, *rest = cast("tuple[fx.Node, fx.Node, fx.Node | None]", (*layer.args, None)[:7])
    value = value_of(model, weight)
    inputs, outputs = x.meta["val"].shape[-3] // groups, value.shape[0] // groups
    parts: list[fx.Node] = []
    for at in range(groups):
        rows = value.narrow(0, at * outputs, outputs).contiguous()
        weights = constant(model, layer, f"{weight.target}_group_{at}", rows, like=value)
        image = call(layer, aten.slice.Tensor, x, -3, at * inputs, (at + 1) * inputs)
        own = call(layer, aten.slice.Tensor, bias, 0, at * outputs, (at + 1) * outputs) if bias else None
        part = call(layer, layer.target, image, weights, own, *rest[:3])
        split = _split(model, part, dim=-3, axis=1)
        parts.append(part if split is None else split)
    return call(layer, aten.cat.default, parts, -3)


def _product(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The sum of products of some columns with the same rows."""
    x, y = cast("tuple[fx.Node, fx.Node]", node.args)
    terms, rank = x.meta["val"].shape[-1], y.meta["val"].dim()
    if terms <= MAX_PRODUCTS:
        return None
    count = -(-terms // MAX_PRODUCTS)
    ends = [terms * part // count for part in range(count + 1)]
    parts: list[fx.Node] = []
    for first, end in itertools.pairwise(ends):
        columns = call(node, aten.slice.Tensor, x, -1, first, end)
        rows = call(node, aten.slice.Tensor, y, -2 if rank > 1 else 0, first, end)
        parts.append(call(node, node.target, columns, rows))
    return reduce(lambda one, other: call(node, aten.add.Tensor, one, other), parts)


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    **dict.fromkeys((aten.bmm.default, aten.matmul.default, aten.mm.default, aten.mv.default), _product),
    aten.linear.default: partial(_split, dim=-1, axis=1),
    aten.conv2d.default: partial(_split, dim=-3, axis=1),
    aten.conv2d.padding: partial(_split, dim=-3, axis=1),
    aten.conv_transpose2d.input: partial(_split, dim=-3, axis=0),
}
