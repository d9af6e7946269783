"""Writes rows at computed positions, as ring buffers do, by a comparison per row: the CPU has no such int8 operator."""

from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import apply, call, constant, constant_value

aten = torch.ops.aten

_MOST = 8
"""The largest number of rows; each becomes a selection from the whole tensor."""


def write(model: fx.GraphModule) -> None:
    """Replace `index_put` with one index, and `index_copy`."""
    apply(model, {aten.index_put.default: _put, aten.index_copy.default: _copied})


def _put(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, indices, values = cast("tuple[fx.Node, list[fx.Node | None], fx.Node]", node.args[:3])
    found = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    accumulates = len(node.args) > 3 and node.args[3]
    if len(found) == 2 and not accumulates:
        return _put_by_rows(model, node, x, found, values)
    if len(found) != 1:
        return None
    if accumulates:
        return _put_sums(model, node, x, *found[0], values)
    return _written(model, node, x, *found[0], values)


def _put_by_rows(
    model: fx.GraphModule, node: fx.Node, x: fx.Node, indices: list[tuple[int, fx.Node]], values: fx.Node
) -> fx.Node | None:
    """Return a matrix with one element of each row replaced, or of each column."""
    whole = cast(Tensor, x.meta["val"])
    for (dim, lines), (other, index) in (indices, indices[::-1]):
        counted, count = constant_value(model, lines), whole.shape[dim]
        is_each = counted is not None and torch.equal(counted.flatten(), torch.arange(count)) and counted.dim() == 1
        if whole.dim() == 2 and is_each and tuple(index.meta["val"].shape) == (count,):
            size = whole.shape[other]
            line = [1, size] if other else [size, 1]
            new = call(node, aten.unsqueeze.default, values, other) if values.meta["val"].dim() else values
            at = call(node, aten.unsqueeze.default, index, other)
            return call(node, aten.where.self, _is_place(model, node, at, torch.arange(size).reshape(line)), new, x)
    return None


def _put_sums(
    model: fx.GraphModule, node: fx.Node, x: fx.Node, dim: int, index: fx.Node, values: fx.Node
) -> fx.Node | None:
    """Return a tensor to whose rows others are added."""
    whole, rows = cast(Tensor, x.meta["val"]), cast(Tensor, values.meta["val"])
    if index.meta["val"].dim() != 1 or not whole.is_floating_point():
        return None
    wanted = [len(index.meta["val"]) if i == dim else size for i, size in enumerate(whole.shape)]
    if [*rows.shape] != wanted:
        values = call(node, aten.expand.default, values, wanted)
    places = constant_value(model, index)
    if places is not None:
        index = constant(model, node, f"{node.name}_rows", places % whole.shape[dim])
    else:
        index = call(node, aten.remainder.Scalar, index, whole.shape[dim])
    return call(node, aten.index_add.default, x, dim, index, values)


def _copied(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, dim, index, values = cast("tuple[fx.Node, int, fx.Node, fx.Node]", node.args)
    return _written(model, node, x, dim % max(1, x.meta["val"].dim()), index, values)


def _written(
    model: fx.GraphModule, node: fx.Node, x: fx.Node, dim: int, index: fx.Node, values: fx.Node
) -> fx.Node | None:
    """Return a tensor with the rows of `values` at the positions of `index` along a dimension."""
    whole, given, rows = (cast(Tensor, one.meta["val"]) for one in (x, index, values))
    count, size = given.numel(), whole.shape[dim]
    if given.dtype not in (torch.int64, torch.int32) or given.dim() > 1 or count > _MOST or not whole.dim():
        return None
    if rows.dtype != whole.dtype or (count > 1 and (rows.dim() != whole.dim() or rows.shape[dim] != count)):
        return None
    places = torch.arange(size).reshape(size, *[1] * (whole.dim() - 1 - dim))
    for number in range(count):
        place, row = index, values
        if count > 1:
            place = call(node, aten.slice.Tensor, index, 0, number, number + 1)
            row = call(node, aten.slice.Tensor, values, dim, number, number + 1)
        x = call(node, aten.where.self, _is_place(model, node, place, places), row, x)
    return x


def _is_place(model: fx.GraphModule, node: fx.Node, index: fx.Node, places: Tensor) -> fx.Node:
    """Compare an index with all places along a dimension; a negative one counts from the end."""
    from_start, from_end = (
        call(node, aten.eq.Tensor, constant(model, node, f"{node.name}_{name}", value), index)
        for name, value in (("places", places), ("places_from_end", places - places.numel()))
    )
    return call(node, aten.logical_or.default, from_start, from_end)
