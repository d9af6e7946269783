"""Writes sorts and order statistics as counts of comparisons, which all processors have.

An element's place in its sorted row is the number of elements that come before it: smaller ones, and equal ones with
a lower index. So the sort is stable. It takes the square of a row's length in comparisons. The few largest elements of
a longer row are found one after the other, and each is hidden from the search for the next.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import arguments_of
from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, constant_value

aten = torch.ops.aten

MOST = 16_384
"""The largest number of comparisons that are counted at once; each takes eight bytes meanwhile."""

_MOST_GROUPS = 16
"""The largest number of groups of rows that are sorted one after the other."""


_MOST_ROUNDS = 16
"""The largest number of elements that are searched one after the other."""


def search_long_rows(model: fx.GraphModule) -> bool:
    """Decompose `topk` of rows that are too long to be sorted; return True if there are any.

    The elements that were found are filled with infinities, which `fills.write` rewrites.
    """
    before = model.graph.find_nodes(op="call_function", target=aten.topk.default)
    apply(model, {aten.topk.default: _in_rounds})
    return model.graph.find_nodes(op="call_function", target=aten.topk.default) != before


def _in_rounds(_: fx.GraphModule, node: fx.Node) -> Sequence[fx.Node] | None:
    given = arguments_of(node)
    rest, dim, rounds = cast(fx.Node, given["self"]), cast(int, given["dim"]), cast(int, given["k"])
    value = cast(Tensor, rest.meta["val"])
    is_long = value.dim() > 0 and value.is_floating_point() and not _is_small(value, dim)
    if not is_long or not 0 < rounds <= _MOST_ROUNDS:
        return None
    search, find, hidden = (
        (aten.amax, aten.argmax, -math.inf) if given["largest"] else (aten.amin, aten.argmin, math.inf)
    )
    positions = call(node, aten.arange.default, value.shape[dim])
    positions = call(node, aten.reshape.default, positions, [-1, *[1] * (value.dim() - 1 - dim % value.dim())])
    values, indices = list[fx.Node](), list[fx.Node]()
    for last in range(rounds - 1, -1, -1):
        values.append(call(node, search.default, rest, [dim], True))
        indices.append(call(node, find.default, rest, dim, True))
        if last:
            is_found = call(node, aten.eq.Tensor, positions, indices[-1])
            rest = call(node, aten.masked_fill.Scalar, rest, is_found, hidden)
    return [call(node, aten.cat.default, parts, dim) for parts in (values, indices)]


def write(model: fx.GraphModule, *, has_topk: bool) -> None:
    """Decompose sorts, `median` and `kthvalue`, and `topk` unless the target has it; large ones stay as they are."""
    apply(model, _SORTS if has_topk else {**_SORTS, **_TOPK})


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The elements that an operator returns of each sorted row, by their places; `is_one` removes the dimension."""

    places: Sequence[int]
    descends: bool = False
    is_one: bool = False


def _sorted(wanted_of: Callable[[int, dict[str, Any]], _Wanted]) -> Decomposition:
    def decompose(model: fx.GraphModule, node: fx.Node) -> Sequence[fx.Node] | None:
        given = arguments_of(node)
        x, dim = cast(fx.Node, given["self"]), cast(int, given["dim"])
        value = cast(Tensor, x.meta["val"])
        if not value.dim() or not _is_small(value, dim):
            return None
        dim %= value.dim()
        wanted = wanted_of(value.shape[dim], given)
        index = _indices_in_groups(model, node, call(node, aten.transpose.int, x, dim, -1), wanted)
        index = call(node, aten.transpose.int, index, dim, -1)
        values = call(node, aten.gather.default, x, dim, index)
        return [call(node, aten.squeeze.dim, one, dim) if wanted.is_one else one for one in (values, index)]

    return decompose


def _is_small(value: Tensor, dim: int) -> bool:
    """True if the rows along a dimension are few enough to be compared in groups."""
    count = value.shape[dim]
    return not value.numel() or value.numel() // count <= _MOST_GROUPS * (MOST // count**2)


def _indices_in_groups(model: fx.GraphModule, node: fx.Node, rows: fx.Node, wanted: _Wanted) -> fx.Node:
    """Return the indices of the wanted elements of each row; many rows are compared in groups."""
    value = cast(Tensor, rows.meta["val"])
    *outer, count = value.shape
    if value.numel() * count <= MOST:
        return _indices(model, node, rows, wanted)
    size = MOST // count**2
    flat = call(node, aten.reshape.default, rows, [-1, count])
    starts = range(0, math.prod(outer), size)
    groups = [call(node, aten.slice.Tensor, flat, 0, start, start + size) for start in starts]
    index = call(node, aten.cat.default, [_indices(model, node, group, wanted) for group in groups])
    return call(node, aten.reshape.default, index, [*outer, len(wanted.places)])


def _indices(model: fx.GraphModule, node: fx.Node, rows: fx.Node, wanted: _Wanted) -> fx.Node:
    """Return the indices of the wanted elements of each row."""
    count = cast(Tensor, rows.meta["val"]).shape[-1]
    this, other = (call(node, aten.unsqueeze.default, rows, dim) for dim in (-1, -2))
    before, not_behind = (aten.gt.Tensor, aten.ge.Tensor) if wanted.descends else (aten.lt.Tensor, aten.le.Tensor)
    earlier = constant(model, node, f"{node.name}_earlier", torch.ones(count, count, dtype=torch.bool).tril(-1))
    is_equal = call(node, aten.logical_and.default, call(node, not_behind, other, this), earlier)
    is_ahead = call(node, aten.logical_or.default, call(node, before, other, this), is_equal)
    place = call(node, aten.sum.dim_IntList, call(node, aten.to.dtype, is_ahead, torch.int64), [-1])
    places = constant(model, node, f"{node.name}_wanted", torch.tensor([*wanted.places])[:, None])
    is_there = call(node, aten.eq.Tensor, call(node, aten.unsqueeze.default, place, -2), places)
    numbers = constant(model, node, f"{node.name}_numbers", torch.arange(count))
    chosen = call(node, aten.mul.Tensor, call(node, aten.to.dtype, is_there, torch.int64), numbers)
    return call(node, aten.sum.dim_IntList, chosen, [-1])


def _middle_of_all(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The median of all elements, as the middle of one row."""
    row = call(node, aten.reshape.default, node.args[0], [-1])
    count = cast(Tensor, row.meta["val"]).numel()
    if count**2 > MOST:
        return None
    index = _indices(model, node, row, _Wanted([(count - 1) // 2]))
    return call(node, aten.reshape.default, call(node, aten.gather.default, row, 0, index), [])


def _order(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """The indices of a sort alone."""
    both = _sorted(lambda count, given: _Wanted(range(count), given["descending"]))(model, node)
    return None if both is None else cast("Sequence[fx.Node]", both)[1]


def _quantile(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Quantiles at known shares, each between two places of the sorted row."""
    given = arguments_of(node)
    x, dim, q = cast(fx.Node, given["self"]), given["dim"], given["q"]
    shares = constant_value(model, q) if isinstance(q, fx.Node) else torch.tensor(q)
    if dim is None:
        x, dim = call(node, aten.reshape.default, x, [-1]), 0
    value = cast(Tensor, x.meta["val"])
    is_small = value.dim() > 0 and _is_small(value, dim)
    if shares is None or given["interpolation"] != "linear" or not is_small:
        return None
    rows = call(node, aten.transpose.int, x, dim, -1)
    place = shares.double().reshape(-1) * (value.shape[dim] - 1)
    below, above = place.floor(), place.ceil()
    index = _indices_in_groups(model, node, rows, _Wanted([*map(int, torch.cat([below, above]))]))
    found, count = call(node, aten.gather.default, rows, -1, index), len(place)
    low, high = (call(node, aten.slice.Tensor, found, -1, i, i + count) for i in (0, count))
    weight = constant(model, node, f"{node.name}_weights", place - below)
    rise = call(node, aten.mul.Tensor, call(node, aten.sub.Tensor, high, low), weight)
    result = call(node, aten.add.Tensor, low, rise) if bool((place > below).any()) else low
    if shares.dim():  # the shares come first, the row is gone
        rank = value.dim()
        result = call(node, aten.permute.default, result, [rank - 1, *range(rank - 1)])
        result = call(node, aten.unsqueeze.default, result, -1)
        result = call(node, aten.transpose.int, result, dim % rank + 1, -1)
    else:
        result = call(node, aten.transpose.int, result, dim, -1)
    return call(node, aten.reshape.default, result, [*node.meta["val"].shape])


_SORTS: Mapping[object, Decomposition] = {
    **dict.fromkeys(
        (aten.sort.default, aten.sort.stable), _sorted(lambda count, given: _Wanted(range(count), given["descending"]))
    ),
    **dict.fromkeys((aten.argsort.default, aten.argsort.stable), _order),
    **dict.fromkeys((aten.quantile.scalar, aten.quantile.default), _quantile),
    aten.median.default: _middle_of_all,
    aten.kthvalue.default: _sorted(lambda _, given: _Wanted([given["k"] - 1], is_one=not given["keepdim"])),
    aten.median.dim: _sorted(lambda count, given: _Wanted([(count - 1) // 2], is_one=not given["keepdim"])),
}

_TOPK: Mapping[object, Decomposition] = {
    aten.topk.default: _sorted(lambda _, given: _Wanted(range(given["k"]), given["largest"])),
}
