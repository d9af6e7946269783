"""Splits layers that add more products than the CPU's int8 kernels can, so that no sum exceeds 32 bits."""

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
    """Replace such layers with constant weights by sums of layers, each of a part of the input channels, in place."""
    apply(model, _DECOMPOSITIONS)


def _split(model: fx.GraphModule, layer: fx.Node, *, dim: int, axis: int) -> fx.Node | None:
    """The sum of layers; input channels are dimension `dim` of the input, and `axis` of the weights."""
    x, weight, *rest = cast("tuple[fx.Node, fx.Node]", layer.args)
    channels = cast(Tensor, x.meta["val"]).shape[dim]
    if weight.op != "get_attr" or (value := value_of(model, weight)).shape[axis] != channels:
        return None  # a layer with computed weights, or with groups
    products = value.numel() // value.shape[1 - axis]
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


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    aten.linear.default: partial(_split, dim=-1, axis=1),
    aten.conv2d.default: partial(_split, dim=-3, axis=1),
    aten.conv2d.padding: partial(_split, dim=-3, axis=1),
    aten.conv_transpose2d.input: partial(_split, dim=-3, axis=0),
}
