"""Writes rows at computed positions, as ring buffers do, by a comparison per row: the CPU has no such int8 operator."""

from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import apply, call, constant

aten = torch.ops.aten

_MOST = 8
"""The largest number of rows; each becomes a selection from the whole tensor."""


def write(model: fx.GraphModule) -> None:
    """Replace `index_put` with one index, and `index_copy`."""
    apply(model, {aten.index_put.default: _put, aten.index_copy.default: _copied})


def _put(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, indices, values = cast("tuple[fx.Node, list[fx.Node | None], fx.Node]", node.args[:3])
    found = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if len(found) != 1 or (len(node.args) > 3 and node.args[3]):
        return None
    return _written(model, node, x, *found[0], values)


def _copied(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, dim, index, values = cast("tuple[fx.Node, int, fx.Node, fx.Node]", node.args)
    return _written(model, node, x, dim % max(1, x.meta["val"].dim()), index, values)


def _written(
    model: fx.GraphModule, node: fx.Node, x: fx.Node, dim: int, index: fx.Node, values: fx.Node
) -> fx.Node | None:
    """Return a tensor with the rows of `values` at the positions of `index` along a dimension."""
    whole, places, rows = (cast(Tensor, one.meta["val"]) for one in (x, index, values))
    count, size = places.numel(), whole.shape[dim]
    if places.dtype not in (torch.int64, torch.int32) or places.dim() > 1 or count > _MOST or not whole.dim():
        return None
    if rows.dtype != whole.dtype or (count > 1 and (rows.dim() != whole.dim() or rows.shape[dim] != count)):
        return None
    behind = whole.dim() - 1 - dim
    numbers = torch.arange(size).reshape(size, *[1] * behind)
    forward, backward = (
        constant(model, node, f"{node.name}_{name}", value)
        for name, value in (("places", numbers), ("places_from_end", numbers - size))
    )
    for number in range(count):
        place, row = index, values
        if count > 1:
            place = call(node, aten.slice.Tensor, index, 0, number, number + 1)
            row = call(node, aten.slice.Tensor, values, dim, number, number + 1)
        from_start, from_end = (call(node, aten.eq.Tensor, numbers, place) for numbers in (forward, backward))
        is_place = call(node, aten.logical_or.default, from_start, from_end)
        x = call(node, aten.where.self, is_place, row, x)
    return x
