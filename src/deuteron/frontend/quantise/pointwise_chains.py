"""Functions of one tensor, element by element, that are written with several operators: quantised as one.

`x * torch.sigmoid(x)` depends on one value alone, as `silu(x)` does. Between such operators nothing is rounded, so that
a table of 256 values can take the place of all of them.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY, QuantizationAnnotation

from deuteron.frontend.cortex_m.elementwise import BINARY, UNARY, is_number
from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantise import annotations


def annotate(model: fx.GraphModule, measured: Any) -> set[fx.Node]:
    """The nodes of such functions, marked as one each: a range is measured of what is read and given, not between.

    A single operator that is marked already stays as it is, and so do activations within the layer before them.
    """
    fused = {node for group in annotations.groups(model) if len(group) > 1 for node in group}
    taken: set[fx.Node] = set()
    for tail in reversed(model.graph.nodes):
        if tail in taken or tail in fused:
            continue
        chain = _chain(tail, fused)
        if not chain or (len(chain) == 1 and Q_ANNOTATION_KEY in tail.meta and len(tail.all_input_nodes) == 1):
            continue
        taken |= chain
        for node in chain:
            outside = [arg for arg in node.all_input_nodes if arg not in chain and not is_number(arg)]
            spec = measured if node is tail else None
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
                dict.fromkeys(outside, measured), spec, _annotated=True
            )
    return taken


def _chain(tail: fx.Node, fused: Collection[fx.Node]) -> set[fx.Node]:
    """The most operators that together are a function of one tensor, `tail` the last; none if it is none."""
    chain: set[fx.Node] = set()
    largest: set[fx.Node] = set()
    added = [tail] if _is_part(tail) else []
    while added:
        chain.update(added)
        sources = dict.fromkeys(arg for node in chain for arg in node.all_input_nodes if arg not in chain)
        tensors = [arg for arg in sources if not is_number(arg)]
        if len(tensors) == 1 and all(_shape(node) == _shape(tensors[0]) for node in chain):
            largest = set(chain)
        added = [arg for arg in tensors if _is_part(arg) and arg not in fused and chain.issuperset(arg.users)]
    return largest


def _is_part(node: fx.Node) -> bool:
    """True for an elementwise operator on floats; one that changes its operand only where nobody else reads that."""
    if node.op != "call_function" or node.target not in UNARY | BINARY or _dtype(node) is not torch.float32:
        return False
    return not changes_operand(node) or len(node.all_input_nodes[0].users) == 1


def _dtype(node: fx.Node) -> torch.dtype | None:
    value: object = node.meta.get("val")
    return value.dtype if isinstance(value, Tensor) else None


def _shape(node: fx.Node) -> tuple[int, ...] | None:
    value: object = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, Tensor) else None
