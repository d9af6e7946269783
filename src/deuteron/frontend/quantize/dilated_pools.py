"""Writes max-pools with a dilation as maxima of selected rows and columns: neither NPUs nor int8 kernels have them."""

from collections.abc import Mapping
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant, numbers

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace the pools in place; those with a window of padding alone stay."""
    apply(model, _DECOMPOSITIONS)


def _selected(model: fx.GraphModule, pool: fx.Node) -> fx.Node | None:
    """Return the maxima over one dimension after the other."""
    given: tuple[Any, ...] = (*pool.args, *((), 0, 1, False)[len(pool.args) - 2 :])
    x, wanted = cast(fx.Node, given[0]), cast(Tensor, pool.meta["val"])
    dims = 2 if pool.target is aten.max_pool2d.default else 1
    sizes, pads, steps = (numbers(one, dims) for one in (given[1], given[3], given[4]))
    strides = numbers(given[2] or given[1], dims)
    if all(step == 1 for step in steps):
        return None
    taken: list[tuple[int, list[Tensor]]] = []
    for dim, size, stride, pad, step in zip(range(-dims, 0), sizes, strides, pads, steps, strict=True):
        starts = torch.arange(wanted.shape[dim]) * stride - pad
        places = starts[:, None] + torch.arange(size) * step
        is_inside = (places >= 0) & (places < x.meta["val"].shape[dim])
        if not bool(is_inside.any(1).all()):
            return None
        first = places.gather(1, is_inside.int().argmax(1, keepdim=True))
        places = torch.where(is_inside, places, first)  # an element that counts twice changes no maximum
        taken.append((dim, [*places.unbind(1)]))
    for dim, listed in taken:
        parts = [
            call(pool, aten.index_select.default, x, dim, constant(model, pool, f"{pool.name}_{-dim}_{i}", places))
            for i, places in enumerate(listed)
        ]
        x = reduce(lambda one, other: call(pool, aten.maximum.default, one, other), parts)
    return x


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    aten.max_pool1d.default: _selected,
    aten.max_pool2d.default: _selected,
}
