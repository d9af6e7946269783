"""Rewrites max-pools over three dimensions as max-pools over two and maxima of slices.

Max-pools that read pads without a value repeat edges, before other passes write operators between pads and pools.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.errors import UnsupportedError
from deuteron.frontend.quantize.decompositions import call, replace, with_repeated_edges
from deuteron.frontend.source_lines import source_of

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Rewrite the pools in place; those whose indices are read stay."""
    for node in list(model.graph.nodes):
        source = node.args[0] if node.target is operator.getitem else node
        has_indices = isinstance(source, fx.Node) and source.target is aten.max_pool3d_with_indices.default
        if node.target is aten.max_pool3d.default or (has_indices and node is not source and _reads_values(source)):
            replace(model, node, _pooled)
        elif node.target in (aten.max_pool1d.default, aten.max_pool2d.default):
            replace(model, node, with_repeated_edges)
    model.graph.eliminate_dead_code()
    model.recompile()


def _reads_values(pool: fx.Node) -> bool:
    """True if nothing reads the indices of a pool."""
    return all(user.target is operator.getitem and user.args[1] == 0 for user in pool.users)


def _pooled(_: fx.GraphModule, node: fx.Node) -> fx.Node:
    """Insert the pools of height and width, and the maxima over the depth, before a node."""
    pool = cast(fx.Node, node.args[0]) if node.target is operator.getitem else node
    given: list[Any] = [*pool.args, *([], 0, 1, False)[max(len(pool.args) - 2, 0) :]]
    x, ceils = cast(fx.Node, given[0]), bool(given[5])
    kernel, stride, padding, dilation = (_three(one) for one in (given[1], given[2] or given[1], given[3], given[4]))
    value: Tensor = x.meta["val"]
    batches = value.shape[:-4]
    # Channels and depth are one dimension of the pool over height and width, which treats each slice alone.
    flat = call(node, aten.flatten.using_ints, x, 0, 1) if batches else x
    flat = call(node, aten.max_pool2d.default, flat, kernel[1:], stride[1:], padding[1:], dilation[1:], ceils)
    if batches:
        flat = call(node, aten.unflatten.int, flat, 0, list(value.shape[:2]))
    axis, depth = value.dim() - 3, value.shape[-3]
    if kernel[0] == 1 and not padding[0]:
        return flat if stride[0] == 1 else call(node, aten.slice.Tensor, flat, axis, 0, depth, stride[0])
    slices = [call(node, aten.slice.Tensor, flat, axis, at, at + 1) for at in range(depth)]
    results: list[fx.Node] = []
    for number in range(cast(Tensor, node.meta["val"]).shape[-3]):
        start = number * stride[0] - padding[0]
        window = [slices[at] for at in range(start, start + kernel[0] * dilation[0], dilation[0]) if 0 <= at < depth]
        if not window:
            source = source_of(node)
            raise UnsupportedError(
                "`max_pool3d` has windows of padding alone, whose maximum is minus infinity",
                where=str(source) if source else None,
                hint="choose a padding below the kernel's size, with its dilation",
            )
        results.append(reduce(lambda one, other: call(node, aten.maximum.default, one, other), window))
    return call(node, aten.cat.default, results, axis)


def _three(size: int | Sequence[int]) -> list[int]:
    """Return the sizes of depth, height and width."""
    values = [size] if isinstance(size, int) else [*size]
    return values * 3 if len(values) == 1 else values
