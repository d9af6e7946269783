"""Writes operators that repeat or reorder elements along a dimension as selections by index."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.nn import functional

from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.eager.embeddings import ONCE
from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, constant_value

aten = torch.ops.aten


def padded(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A pad with own values: reflected, replicated or circular; or one with a constant, of more than four axes."""
    x, pads, mode = cast("tuple[fx.Node, list[int], str]", (*node.args, "constant")[:3])
    rank = x.meta["val"].dim()
    if mode == "constant":
        return _padded_axes(node, x, pads) if rank > _AXES else None
    for i, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        if before or after:
            dim = rank - 1 - i
            indices = torch.arange(x.meta["val"].shape[dim])
            chosen = functional.pad(indices[None, None].double(), (before, after), mode)[0, 0].long()
            x = _chosen(model, node, x, dim, chosen)
    return x


_AXES = 4
"""The most axes of a pad on a Cortex-M."""


def _padded_axes(node: fx.Node, x: fx.Node, pads: Sequence[int]) -> fx.Node:
    """Pad one axis after the other, with the axes before and behind it as one each."""
    value = node.args[3] if len(node.args) > 3 else node.kwargs.get("value")
    for i, ends in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        shape = [*x.meta["val"].shape]
        dim = len(shape) - 1 - i
        if any(ends):
            planes = [math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])]
            plane = call(node, aten.reshape.default, x, planes)
            plane = call(node, aten.pad.default, plane, [0, 0, *ends], "constant", value)
            shape[dim] += sum(ends)
            x = call(node, aten.reshape.default, plane, shape)
    return x


_EXACT = (aten._upsample_nearest_exact1d.vec, aten._upsample_nearest_exact2d.vec)  # noqa: SLF001


def upsampled(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Nearest-neighbour upsampling repeats or drops rows and columns."""
    x, output = cast(fx.Node, node.args[0]), cast(Tensor, node.meta["val"])
    for dim in range(2, output.dim()):
        size = x.meta["val"].shape[dim]
        factors = cast("Sequence[float] | None", node.args[2])
        indices = torch.arange(size, dtype=torch.double)[None, None]
        nearest = aten._upsample_nearest_exact1d.vec if node.target in _EXACT else aten.upsample_nearest1d.vec  # noqa: SLF001
        chosen = _nearest(nearest, indices, output.shape[dim], None if factors is None else factors[dim - 2])
        if not torch.equal(chosen, torch.arange(size)):
            x = _chosen(model, node, x, dim, chosen)
    return x


def embedded(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """An embedding selects rows of a table by indices of any shape."""
    table, indices = cast("tuple[fx.Node, fx.Node]", node.args[:2])
    listed = call(node, aten.reshape.default, indices, [indices.meta["val"].numel()])
    rows = call(node, aten.index_select.default, table, 0, listed)
    return call(node, aten.reshape.default, rows, [*node.meta["val"].shape])


_BAGS = (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default)
"""By the mode of the operator."""

_MEAN, _MAX = 1, 2


def _bagged(model: fx.GraphModule, node: fx.Node) -> Sequence[fx.Node | None] | None:
    """Bags of rows of a table: their sums, which may be weighted, means or maxima. Rows of padding do not count."""
    defaults = (False, 0, False, None, False, None)
    table, indices, offsets, _, mode, _, weights, has_end, padding = (*node.args, *defaults)[:9]
    starts = constant_value(model, cast(fx.Node, offsets))
    if starts is None or any(item.args[1] != 0 and item.users for item in node.users):
        return None
    total = cast(fx.Node, indices).meta["val"].numel()
    ends = cast("list[int]", cast(Any, starts).tolist()) + ([] if has_end else [total])
    sizes = {end - start for start, end in pairwise(ends)}
    if not sizes or min(sizes) < 1 or (ends[0], ends[-1]) != (0, total) or (padding is not None and mode == _MAX):
        return None
    rows, factors = call(node, aten.embedding.default, table, indices), weights
    if padding is not None:
        is_kept = call(node, aten.ne.Scalar, indices, padding % cast(fx.Node, table).meta["val"].shape[0])
        factors = call(node, aten.to.dtype, is_kept, torch.float32)
        factors = factors if weights is None else call(node, aten.mul.Tensor, factors, weights)
    if factors is not None:
        factors = call(node, aten.unsqueeze.default, factors, -1)
        rows = call(node, aten.mul.Tensor, rows, factors)
    is_counted = padding is not None and mode == _MEAN
    operator = _BAGS[0 if is_counted else cast(int, mode)]
    bags = _reduced(node, operator, rows, ends, sizes)
    if is_counted:
        counts = _reduced(node, operator, cast(fx.Node, factors), ends, sizes)
        bags = call(node, aten.div.Tensor, bags, call(node, aten.clamp.default, counts, 1))
    return [bags, None, None, None]


def _reduced(node: fx.Node, operator: object, rows: fx.Node, ends: Sequence[int], sizes: set[int]) -> fx.Node:
    """Reduce the rows of each bag; bags of one size at once."""
    width = rows.meta["val"].shape[-1]
    if len(sizes) == 1:
        return call(node, operator, call(node, aten.reshape.default, rows, [-1, *sizes, width]), [1])
    bags = [call(node, aten.slice.Tensor, rows, 0, start, end) for start, end in pairwise(ends)]
    return call(node, aten.cat.default, [call(node, operator, bag, [0], True) for bag in bags])


def flipped(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    """A flip reverses the elements of some dimensions."""
    x, dims = cast("tuple[fx.Node, list[int]]", node.args)
    for dim in dims:
        x = _chosen(model, node, x, dim, torch.arange(x.meta["val"].shape[dim]).flip(0))
    return x


def write(model: fx.GraphModule) -> None:
    """Replace one-hot codes by comparisons, embeddings with a maximum norm by plain ones, and extrema with indices.

    Bags of embeddings become reductions; interpolation by exact nearest neighbours selects rows and columns. PyTorch's
    later decomposition of one-hot codes would check the indices. A maximum with its index becomes two operators.
    """
    extremes = {
        aten.max.dim: _with_index(aten.amax.default, aten.argmax.default),
        aten.min.dim: _with_index(aten.amin.default, aten.argmin.default),
    }
    others = {
        aten.embedding_renorm.default: _shortened,
        aten.scatter.value: _marked,
        aten.embedding_bag.padding_idx: _bagged,
        **dict.fromkeys(_EXACT, upsampled),
    }
    apply(model, {aten.one_hot.default: _one_hot, **others, **extremes})


def _with_index(extreme: object, index: object) -> Decomposition:
    def decompose(_: fx.GraphModule, node: fx.Node) -> Sequence[fx.Node | None]:
        x, dim, *keeps = cast("tuple[fx.Node, int, bool]", node.args)
        read = {cast(int, item.args[1]) for item in node.users}
        values = call(node, extreme, x, [dim], *keeps) if 0 in read else None
        return values, call(node, index, x, dim, *keeps) if 1 in read else None

    return decompose


def _shortened(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    table, _, most, order = cast("tuple[fx.Node, fx.Node, float, float]", node.args)
    value = constant_value(model, table)
    if value is None:
        raise refusal(node, "shortens rows of a table in each run, and other operators read it", ONCE)
    return constant(model, node, f"{node.name}_rows", torch.renorm(value, order, 0, most))


def _one_hot(model: fx.GraphModule, node: fx.Node) -> fx.Node:
    indices, codes = cast(fx.Node, node.args[0]), cast(Tensor, node.meta["val"])
    classes = constant(model, node, f"{node.name}_classes", torch.arange(codes.shape[-1]))
    is_class = call(node, aten.eq.Tensor, call(node, aten.unsqueeze.default, indices, -1), classes)
    return call(node, aten.to.dtype, is_class, codes.dtype)


def _marked(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """A number at one computed place of each row, as a choice by comparison of the place with all places."""
    x, dim, index, number = cast("tuple[fx.Node, int, fx.Node, float]", node.args)
    shape = [*x.meta["val"].shape]
    if [*index.meta["val"].shape] != [*shape[:dim], 1, *shape[dim % len(shape) + 1 :]]:
        return None
    line = [size if i == dim % len(shape) else 1 for i, size in enumerate(shape)]
    places = constant(model, node, f"{node.name}_places", torch.arange(shape[dim]).reshape(line))
    return call(node, aten.where.ScalarSelf, call(node, aten.eq.Tensor, index, places), number, x)


def _nearest(operator: Any, indices: Tensor, size: int, factor: float | None) -> Tensor:
    """The indices that PyTorch selects, which depend on the factor if there is one."""
    values: Tensor = operator(indices, None if factor is not None else [size], None if factor is None else [factor])
    return values[0, 0].long()


def _chosen(model: fx.GraphModule, node: fx.Node, x: fx.Node, dim: int, indices: Tensor) -> fx.Node:
    name = f"{node.name}_{dim}_indices"
    return call(node, aten.index_select.default, x, dim, constant(model, node, name, indices))
