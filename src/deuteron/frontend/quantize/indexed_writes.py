"""Writes rows at computed positions, as ring buffers do, by a comparison per row: the CPU has no such int8 operator."""

from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.quantize.decompositions import apply, call, constant, constant_value

aten = torch.ops.aten

_MOST = 8
"""The largest number of rows; each becomes a selection from the whole tensor."""


def write(model: fx.GraphModule) -> None:
    """Replace `index_put` with one index or sums, and `index_copy`."""
    apply(model, {aten.index_put.default: _put, aten.index_copy.default: _copied})


def write_sums(model: fx.GraphModule) -> None:
    """Replace `index_put` that adds to the places of its indices."""
    apply(model, {aten.index_put.default: _put_sums})


def check_sums(model: fx.GraphModule) -> None:
    """Refuse sums that `write_sums` has left: ExecuTorch's Ethos-U backend adds to each place once.

    Raises:
        UnsupportedError: naming the first.
    """
    for node in model.graph.find_nodes(op="call_function", target=aten.index_put.default):
        indices = [one for one in cast("list[fx.Node | None]", node.args[1]) if one is not None]
        if _accumulates(node) and not any(one.meta["val"].dtype == torch.bool for one in indices):
            raise refusal(
                node,
                "with `accumulate=True` has indices that the NPU's backend would add only once where they are equal",
                "flatten indices and values, and index adjacent dimensions: `y.index_put((i.flatten(),), v, True)`",
            )


def _accumulates(node: fx.Node) -> bool:
    return len(node.args) > 3 and bool(node.args[3])


def _put(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    x, indices, values = cast("tuple[fx.Node, list[fx.Node | None], fx.Node]", node.args[:3])
    found = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    if _accumulates(node):
        return _put_sums(model, node)
    if len(found) == 2:
        return _put_by_rows(model, node, x, found, values)
    return _written(model, node, x, *found[0], values) if len(found) == 1 else None


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


def _put_sums(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Return a tensor to whose rows others are added; several adjacent indexed dimensions become one."""
    x, indices, values = cast("tuple[fx.Node, list[fx.Node | None], fx.Node]", node.args[:3])
    shape = [*cast(Tensor, x.meta["val"]).shape]
    found = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    start, end, count = found[0][0], found[-1][0] + 1, len(found)
    kinds = {(one.meta["val"].shape, one.meta["val"].dtype == torch.bool) for _, one in found}
    (given, is_mask), *others = kinds
    if not _accumulates(node) or others or is_mask or len(given) != 1 or end - start != count:
        return None
    index = _from_start(model, node, *found[0], shape)
    for dim, other in found[1:]:
        index = call(node, aten.mul.Tensor, index, shape[dim])
        index = call(node, aten.add.Tensor, index, _from_start(model, node, dim, other, shape))
    wanted = [*shape[:start], given[0], *shape[end:]]
    if [*values.meta["val"].shape] != wanted:
        values = call(node, aten.expand.default, values, wanted)
    if count > 1:
        x = call(node, aten.reshape.default, x, [*shape[:start], -1, *shape[end:]])
    total = call(node, aten.index_add.default, x, start, index, values)
    return call(node, aten.reshape.default, total, shape) if count > 1 else total


def _from_start(model: fx.GraphModule, node: fx.Node, dim: int, index: fx.Node, shape: list[int]) -> fx.Node:
    """Return an index along a dimension with none of its negative numbers, which count from the end."""
    places = constant_value(model, index)
    if places is not None:
        return constant(model, node, f"{node.name}_places_{dim}", places % shape[dim])
    return call(node, aten.remainder.Scalar, index, shape[dim])


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
