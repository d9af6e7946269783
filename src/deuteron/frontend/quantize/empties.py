"""Removes computations of tensors without elements: kernels have no such tensors."""

from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import call, constant

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Make constants of results without elements, and join only tensors that have some."""
    for node in list(model.graph.nodes):
        if node.op == "call_function" and _is_empty(node):
            value = cast(Tensor, node.meta["val"])
            node.replace_all_uses_with(
                constant(model, node, node.name, torch.empty(tuple(value.shape), dtype=value.dtype))
            )
        elif node.target is aten.cat.default:
            parts, *dim = cast("tuple[list[fx.Node], int]", node.args)
            left = [part for part in parts if not _is_empty(part)]
            if 0 < len(left) < len(parts):
                node.replace_all_uses_with(left[0] if len(left) == 1 else call(node, aten.cat.default, left, *dim))
    model.graph.eliminate_dead_code()
    model.recompile()


def _is_empty(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and not value.numel()
