"""Pools other dimensions before time, so that a stream keeps fewer numbers of each frame.

A mean over time and features becomes a mean over features, of each frame, and one over time.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from deuteron.frontend.operators import arguments_of, called
from deuteron.frontend.streaming.frame_alignment import dims_of, shape_of
from deuteron.frontend.streaming.frame_propagation import Plan

aten = torch.ops.aten

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "mean": aten.mean.dim,
    "sum": aten.sum.dim_IntList,
    "amax": aten.amax.default,
    "amin": aten.amin.default,
}
_POOLS = {"adaptive_avg_pool1d": 1, "adaptive_avg_pool2d": 2}


def split(window: fx.GraphModule, plan: Plan) -> bool:
    """Split the reductions of a window over time and other dimensions; return whether there are any."""
    found = False
    for (node, operand), frames in list(plan.wholes.items()):
        dims, keeps = _reduced(node, operand)
        others = [dim for dim in dims if dim != frames.axis and shape_of(operand)[dim] > 1]
        if frames.axis not in dims or not others:
            continue
        target = _REDUCTIONS.get(called(node) or "", aten.mean.dim)
        rest = [dim - (0 if keeps else sum(other < dim for other in others)) for dim in dims if dim not in others]
        with window.graph.inserting_before(node):
            made = [_added(window.graph, target, (operand, others, keeps), node)]
            made.append(_added(window.graph, target, (made[0], rest, keeps), node))
        node.replace_all_uses_with(made[1])
        window.graph.erase_node(node)
        found = True
    if found:
        window.graph.lint()
        window.recompile()
    return found


def _reduced(node: fx.Node, operand: fx.Node) -> tuple[tuple[int, ...], bool]:
    """Return the dimensions that an operator reduces alike, and whether they stay; none for another operator."""
    given, count, name = arguments_of(node), len(shape_of(operand)), called(node) or ""
    if name in _POOLS:
        is_one = given.get("output_size") in (1, [1] * _POOLS[name], (1,) * _POOLS[name])
        return (tuple(range(count - _POOLS[name], count)), True) if is_one else ((), False)
    if name not in _REDUCTIONS or given.get("dtype") is not None or operand is not node.args[0]:
        return (), False
    return dims_of(given.get("dim"), count), bool(given.get("keepdim", False))


def _added(graph: fx.Graph, target: Any, args: tuple[Any, ...], like: fx.Node) -> fx.Node:
    node = graph.call_function(target, args)
    node.meta = {key: one for key, one in like.meta.items() if key not in ("val", "tensor_meta")}
    node.meta["val"] = target(args[0].meta["val"], *args[1:])
    return node
