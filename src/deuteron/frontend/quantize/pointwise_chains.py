"""Quantizes chains of elementwise operators that depend on one tensor as one function.

`x * torch.sigmoid(x)` depends on one value, as `silu(x)` does. No values are rounded between such operators, so that a
table of 256 values can replace all of them.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY, QuantizationAnnotation

from deuteron.frontend.cortex_m.elementwise import BINARY, UNARY, is_number
from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantize import annotations


def annotate(model: fx.GraphModule, measured: Any) -> set[fx.Node]:
    """Annotate such chains, each as one function: only its operand and its result are measured. Return their nodes.

    Single operators that are annotated already do not change, nor do activations that are fused with a layer.
    """
    fused = {node for group in annotations.groups(model) if len(group) > 1 for node in group}
    annotated: set[fx.Node] = set()
    for tail in reversed(model.graph.nodes):
        if tail in annotated or tail in fused:
            continue
        chain = _chain(tail, fused)
        if not chain or (len(chain) == 1 and Q_ANNOTATION_KEY in tail.meta and len(tail.all_input_nodes) == 1):
            continue
        annotated |= chain
        for node in chain:
            outside = [arg for arg in node.all_input_nodes if arg not in chain and not is_number(arg)]
            spec = measured if node is tail else None
            node.meta[Q_ANNOTATION_KEY] = QuantizationAnnotation(
                dict.fromkeys(outside, measured), spec, _annotated=True
            )
    return annotated


def _chain(tail: fx.Node, fused: Collection[fx.Node]) -> set[fx.Node]:
    """The longest chain that ends in `tail` and is a function of one tensor; empty if there is none."""
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
    """True for an elementwise operator on floats; for an in-place operator only if its operand has no other reader."""
    if node.op != "call_function" or node.target not in UNARY | BINARY or _dtype(node) is not torch.float32:
        return False
    return not changes_operand(node) or len(node.all_input_nodes[0].users) == 1


def _dtype(node: fx.Node) -> torch.dtype | None:
    value: object = node.meta.get("val")
    return value.dtype if isinstance(value, Tensor) else None


def _shape(node: fx.Node) -> tuple[int, ...] | None:
    value: object = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, Tensor) else None
