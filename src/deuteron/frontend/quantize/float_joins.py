"""Leaves concatenations of small and large values in float, where only outputs of the model read them.

A detector that returns boxes, scores and classes in one tensor is an example: boxes have hundreds of pixels, scores are
below 1, and one step of a common scale is larger than most scores. In float, each part keeps a separate scale.
"""

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.inputs import Inputs
from deuteron.frontend.nodes import CPU_ONLY
from deuteron.frontend.quantize.largest_values import largest_values
from deuteron.frontend.quantize.split_concatenations import MOST_RATIO

aten = torch.ops.aten

_VIEWS = frozenset(
    {aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.squeeze.dim, aten.unsqueeze.default}
)
_JOINS = frozenset({aten.cat.default, aten.stack.default})
_REASON = "an output joins small and large values, which need separate scales"


def leave(model: fx.GraphModule, batches: Iterable[Inputs], states: int) -> None:
    """Mark such concatenations and the views of them, in place.

    Args:
        model: the exported float model.
        batches: float32 inputs of the model.
        states: the number of last outputs that are variables of the model, which keep their scales.
    """
    trees = [(tree, parts) for tree, parts in _trees(model, states) if any(one.target in _JOINS for one in tree)]
    if not trees:
        return
    largest = largest_values(model, {part for _, parts in trees for part in parts}, batches)
    for tree, parts in trees:
        sizes = [size for part in parts if (size := largest[part])]
        if sizes and max(sizes) > MOST_RATIO * min(sizes):
            for node in tree:
                node.meta["custom"] = {**node.meta.get("custom", {}), CPU_ONLY: _REASON}


def is_left(node: fx.Node) -> bool:
    """Return True for a marked node, whose values are not quantized."""
    return node.meta.get("custom", {}).get(CPU_ONLY) == _REASON


def _trees(model: fx.GraphModule, states: int) -> list[tuple[set[fx.Node], set[fx.Node]]]:
    """Return for each output the concatenations and views that only outputs read, and the values that they join."""
    output = model.graph.output_node()
    given = output.args[0]
    results = cast("list[Any]", list(given) if isinstance(given, tuple | list) else [given])
    kept = set(results[len(results) - states :])
    found: set[fx.Node] = set()
    for node in reversed(model.graph.nodes):
        is_read = all(user is output or user in found for user in node.users)
        value: object = node.meta.get("val")
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        if node.target in _VIEWS | _JOINS and node.users and is_read and is_float and node not in kept:
            found.add(node)
    trees: list[tuple[set[fx.Node], set[fx.Node]]] = []
    for result in results:
        pending = [result] if result in found else []
        tree, parts = set(pending), set[fx.Node]()
        for node in pending:
            new = [one for one in node.all_input_nodes if one not in tree]
            parts.update(one for one in new if one not in found)
            pending += [one for one in new if one in found]
            tree.update(pending)
        trees.append((tree, parts))
    return trees
