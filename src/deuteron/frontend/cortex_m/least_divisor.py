"""Rounds divisors that are never negative to at least one step of their scale.

A divisor such as `x.norm(dim=1) + 1e-8` rounds to 0 in int8 where it is small, and PyTorch then divides by 0. With one
step as the least divisor, the quantized model and the program have the same finite quotient.
"""

import torch
from torch import fx

from deuteron.frontend.nodes import CPU_ONLY, MARK

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed


def keep_from_zero(module: fx.GraphModule) -> None:
    """Clamp, in place, the divisors of a quantized model that the CPU divides by and that have no negative values."""
    clamped: dict[fx.Node, fx.Node] = {}
    for node in module.graph.find_nodes(op="call_function", target=aten.div.Tensor):
        divisor = node.args[1]
        if MARK in node.meta.get("custom", {}) or not _is_never_negative(divisor):
            continue
        stored = divisor.all_input_nodes[0]
        if stored not in clamped:
            clamped[stored] = _clamp(node, divisor)
        node.update_arg(1, clamped[stored])
    module.recompile()


def _is_never_negative(divisor: object) -> bool:
    """Return True for a dequantized value whose smallest stored value is 0."""
    if not isinstance(divisor, fx.Node) or divisor.target is not quantized.dequantize_per_tensor.default:
        return False
    _, _, zero_point, least, *_ = divisor.args
    return bool(zero_point == least)


def _clamp(division: fx.Node, divisor: fx.Node) -> fx.Node:
    affine = divisor.args[1:]
    graph = division.graph
    with graph.inserting_before(division):
        least = graph.call_function(aten.clamp.default, (divisor, affine[0]))
        stored = graph.call_function(quantized.quantize_per_tensor.default, (least, *affine))
        value = graph.call_function(quantized.dequantize_per_tensor.default, (stored, *affine))
    for node, source in ((least, divisor), (stored, divisor.all_input_nodes[0]), (value, divisor)):
        node.meta = {key: data for key, data in division.meta.items() if key != "custom"}
        node.meta["custom"] = {CPU_ONLY: "the CPU divides by it"}
        if "val" in source.meta:
            node.meta["val"] = source.meta["val"]
    return value
