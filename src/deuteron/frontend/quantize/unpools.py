"""Writes max-unpools as choices by masks, which say where the maximum of each window of the pool is.

Windows must not overlap. The first of equal values in a window is the maximum, as in PyTorch.
"""

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.quantize.decompositions import call, numbers, replace

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace the unpools in place; those of windows that overlap, or of other indices than a pool's, stay."""
    masks = dict[fx.Node, list[fx.Node]]()
    for node in model.graph.find_nodes(op="call_function", target=aten.max_unpool2d.default):
        pool = _pool(cast(fx.Node, node.args[1]))
        if pool is None:
            continue
        if pool.node not in masks:
            masks[pool.node] = _masks(pool)
        choices = masks[pool.node]
        replace(model, node, lambda _, node, pool=pool, choices=choices: _unpooled(node, pool, choices))
    model.graph.eliminate_dead_code()
    model.recompile()


@dataclass(frozen=True, slots=True)
class _Pool:
    """A max-pool of windows that do not overlap; a signal is an image of one column."""

    node: fx.Node
    window: Sequence[int]
    is_signal: bool


def _pool(indices: fx.Node) -> _Pool | None:
    """Return the pool that gives the indices."""
    is_signal = indices.target is aten.unsqueeze.default and indices.args[1] == -1
    item = cast(fx.Node, indices.args[0]) if is_signal else indices
    target = aten.max_pool1d_with_indices.default if is_signal else aten.max_pool2d_with_indices.default
    source = item.args[0] if item.target is operator.getitem and item.args[1] == 1 else None
    if not isinstance(source, fx.Node) or source.target is not target:
        return None
    given: list[Any] = [*source.args, *([], 0, 1, False)[len(source.args) - 2 :]]
    rank = 1 if is_signal else 2
    window, stride, padding, dilation = (
        numbers(one, rank) for one in (given[1], given[2] or given[1], given[3], given[4])
    )
    pooled = source.meta["val"][0].shape[-rank:]
    sizes = cast(fx.Node, source.args[0]).meta["val"].shape[-rank:]
    is_whole = all(count * step <= size for count, step, size in zip(pooled, window, sizes, strict=True))
    is_batch = len(source.meta["val"][0].shape) == rank + 2
    if window != stride or any(padding) or any(step != 1 for step in dilation) or not is_whole or not is_batch:
        return None
    return _Pool(source, [*window, 1] if is_signal else window, bool(is_signal))


def _masks(pool: _Pool) -> list[fx.Node]:
    """Return, for each place in a window, where it has the first maximum."""
    after = pool.node.next
    image, best = cast(fx.Node, pool.node.args[0]), call(after, operator.getitem, pool.node, 0)
    if pool.is_signal:
        image, best = (call(after, aten.unsqueeze.default, one, -1) for one in (image, best))
    counts = best.meta["val"].shape[-2:]
    found: fx.Node | None = None
    masks: list[fx.Node] = []
    for place in itertools.product(*map(range, pool.window)):
        if found is not None and len(masks) == math.prod(pool.window) - 1:
            masks.append(call(after, aten.logical_not.default, found))
            break
        part = image
        for dim, (start, step, count) in enumerate(zip(place, pool.window, counts, strict=True), 2):
            part = call(after, aten.slice.Tensor, part, dim, start, start + step * (count - 1) + 1, step)
        is_best = call(after, aten.eq.Tensor, part, best)
        if found is None:
            masks.append(is_best)
            found = is_best
        else:
            masks.append(call(after, aten.logical_and.default, is_best, call(after, aten.logical_not.default, found)))
            found = call(after, aten.logical_or.default, found, is_best)
    return masks


def _unpooled(node: fx.Node, pool: _Pool, masks: Sequence[fx.Node]) -> fx.Node:
    values = cast(fx.Node, node.args[0])
    samples, channels, high, wide = values.meta["val"].shape
    rows, columns = pool.window
    parts = [call(node, aten.where.ScalarOther, mask, values, 0.0) for mask in masks]
    whole = call(node, aten.stack.default, parts, 2)
    whole = call(node, aten.reshape.default, whole, [samples, channels, rows, columns, high, wide])
    whole = call(node, aten.permute.default, whole, [0, 1, 4, 2, 5, 3])
    whole = call(node, aten.reshape.default, whole, [samples, channels, high * rows, wide * columns])
    *_, most_high, most_wide = node.meta["val"].shape
    ends = [0, most_wide - wide * columns, 0, most_high - high * rows]
    return call(node, aten.pad.default, whole, ends) if any(ends) else whole
