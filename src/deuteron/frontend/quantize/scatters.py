"""Writes scatters at computed places as comparisons of the place with all places along the dimension."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, constant_value, extremum

aten = torch.ops.aten

_MOST = 16
"""The largest number of elements that are written one after the other; each becomes a selection from all."""


def write(model: fx.GraphModule) -> None:
    """Decompose scatters of which each row writes into the same row of the target."""
    apply(model, _DECOMPOSITIONS)


def write_missing(model: fx.GraphModule) -> None:
    """Decompose scattered extremes and means alone, which ExecuTorch's portable kernels do not have."""
    apply(model, {aten.scatter_reduce.two: _reduced, aten.index_reduce.default: _reduced_rows})


@dataclass(frozen=True, slots=True)
class _Scatter:
    """A scatter along the last dimension, as tensors of [..., places to write, 1] and the target of [..., places].

    `is_place` compares each index with each place.
    """

    target: fx.Node
    source: fx.Node
    is_place: fx.Node


def _scatter(model: fx.GraphModule, node: fx.Node, index: fx.Node) -> _Scatter | None:
    """Return the scatter of a node; None if its index has other rows than its target."""
    x, dim, _, source = cast("tuple[fx.Node, int, fx.Node, fx.Node]", node.args[:4])
    shape, wanted, given = ([*cast(Tensor, one.meta["val"]).shape] for one in (x, index, source))
    if not shape or len(wanted) != len(shape):
        return None
    dim %= len(shape)
    if [*wanted[:dim], *wanted[dim + 1 :]] != [*shape[:dim], *shape[dim + 1 :]]:
        return None
    for i, size in enumerate(wanted):  # only so many elements of the source are read
        source = source if given[i] == size else call(node, aten.slice.Tensor, source, i, 0, size)
    target, source, index = (call(node, aten.transpose.int, one, dim, -1) for one in (x, source, index))
    source, index = (call(node, aten.unsqueeze.default, one, -1) for one in (source, index))
    places = constant(model, node, f"{node.name}_places", torch.arange(shape[dim]))
    return _Scatter(target, source, call(node, aten.eq.Tensor, index, places))


def _back(node: fx.Node, rows: fx.Node) -> fx.Node:
    return call(node, aten.transpose.int, rows, node.args[1], -1)


def _written(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Elements that replace others, in the order of their indices."""
    x, dim, index, value = cast("tuple[fx.Node, int, fx.Node, fx.Node | float]", node.args)
    shape, wanted = ([*cast(Tensor, one.meta["val"]).shape] for one in (x, index))
    dim = dim % len(shape) if shape else 0
    count = wanted[dim] if wanted else 0
    if not 1 <= count <= _MOST or [*shape[:dim], *shape[dim + 1 :]] != [*wanted[:dim], *wanted[dim + 1 :]]:
        return None
    line = [size if i == dim else 1 for i, size in enumerate(shape)]
    places = constant(model, node, f"{node.name}_places", torch.arange(shape[dim]).reshape(line))
    for number in range(count):
        at = call(node, aten.slice.Tensor, index, dim, number, number + 1)
        is_place = call(node, aten.eq.Tensor, at, places)
        if isinstance(value, fx.Node):
            new = value
            for i, size in enumerate(wanted):
                start, end = (number, number + 1) if i == dim else (0, size)
                new = call(node, aten.slice.Tensor, new, i, start, end)
            x = call(node, aten.where.self, is_place, new, x)
        elif x.meta["val"].dtype == torch.bool:  # `where` with a number would make integers of them
            is_other = call(node, aten.logical_not.default, is_place)
            changed = (aten.logical_or.default, is_place) if value else (aten.logical_and.default, is_other)
            x = call(node, *changed, x)
        else:
            x = call(node, aten.where.ScalarSelf, is_place, value, x)
    return x


def _sum(model: fx.GraphModule, node: fx.Node, index: fx.Node) -> fx.Node | None:
    """Elements that are added to those at their places."""
    found = _scatter(model, node, index)
    if found is None or not cast(Tensor, found.source.meta["val"]).is_floating_point():
        return None
    parts = call(node, aten.where.ScalarOther, found.is_place, found.source, 0.0)
    total = _back(node, call(node, aten.sum.dim_IntList, parts, [-2]))
    x = cast(fx.Node, node.args[0])
    value = constant_value(model, x)
    return total if value is not None and not value.any() else call(node, aten.add.Tensor, x, total)


def _added(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    return _sum(model, node, cast(fx.Node, node.args[2]))


def _added_rows(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Rows that are added at the places of one index."""
    index = _of_rows(node)
    return None if index is None or node.kwargs.get("alpha", 1) != 1 else _sum(model, node, index)


def _of_rows(node: fx.Node) -> fx.Node | None:
    """Return the index of rows for each of their elements; None if it is a scalar."""
    _, dim, index, source = cast("tuple[fx.Node, int, fx.Node, fx.Node]", node.args[:4])
    shape = [*cast(Tensor, source.meta["val"]).shape]
    if cast(Tensor, index.meta["val"]).dim() != 1:
        return None
    line = [size if i == dim % len(shape) else 1 for i, size in enumerate(shape)]
    return call(node, aten.expand.default, call(node, aten.reshape.default, index, line), shape)


_EXTREMES = {"amax": (aten.amax.default, aten.amin.default, aten.maximum.default),
             "amin": (aten.amin.default, aten.amax.default, aten.minimum.default)}  # fmt: skip


def _reduced(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    return _reduction(model, node, cast(fx.Node, node.args[2]))


def _reduced_rows(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Rows that are reduced at the places of one index."""
    index = _of_rows(node)
    return None if index is None else _reduction(model, node, index)


def _reduction(model: fx.GraphModule, node: fx.Node, index: fx.Node) -> fx.Node | None:
    """The sum, mean, or largest or smallest of the elements at a place, with or without the one that was there."""
    how, keeps = cast(str, node.args[4]), bool(node.kwargs.get("include_self", True))
    if how == "sum" and keeps:
        return _sum(model, node, index)
    found = _scatter(model, node, index) if how in (*_EXTREMES, "mean") else None
    if found is None:
        return None
    if how == "mean":
        reduced = _mean(node, found, keeps=keeps)
    else:
        extreme, opposite, both = _EXTREMES[how]
        others = call(node, opposite, found.source, [-2], True)  # changes no extreme
        reduced = call(node, extreme, call(node, aten.where.self, found.is_place, found.source, others), [-2])
        if keeps:
            reduced = call(node, both, found.target, reduced)
            reduced = extremum(model, reduced) or reduced
    if reduced is None:
        return None
    is_written = call(node, aten.any.dim, found.is_place, -2)
    known = constant_value(model, is_written)
    if known is None or not known.all():
        reduced = call(node, aten.where.self, is_written, reduced, found.target)
    return _back(node, reduced)


def _mean(node: fx.Node, found: _Scatter, *, keeps: bool) -> fx.Node | None:
    """The mean of the elements at a place; None for integers, whose mean is rounded down."""
    dtype = cast(Tensor, found.source.meta["val"]).dtype
    if not dtype.is_floating_point:
        return None
    total = call(
        node, aten.sum.dim_IntList, call(node, aten.where.ScalarOther, found.is_place, found.source, 0.0), [-2]
    )
    count = call(node, aten.sum.dim_IntList, call(node, aten.to.dtype, found.is_place, dtype), [-2])
    if keeps:
        total, count = call(node, aten.add.Tensor, found.target, total), call(node, aten.add.Scalar, count, 1.0)
    else:
        count = call(node, aten.clamp.default, count, 1.0)
    return call(node, aten.div.Tensor, total, count)


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    **dict.fromkeys((aten.scatter.src, aten.scatter.value), _written),
    aten.scatter_add.default: _added,
    aten.index_add.default: _added_rows,
    aten.index_reduce.default: _reduced_rows,
    aten.scatter_reduce.two: _reduced,
}
