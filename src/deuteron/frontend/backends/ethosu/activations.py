"""Keeps bounds of activations that ExecuTorch's Arm backend would lose.

Its quantizer gives a layer and the activation after it one rounding. Its passes then apply a lower bound of 0 by the
least stored value, which is correct only if that value represents 0. A result that shares its quantization with
negative values, such as an operand of `cat`, has another least value. An activation with an upper bound below the
largest stored value stays on the CPU. Here the operand of such an activation is rounded with the result's quantization.
Rounding is monotone, so the result does not change.

The passes also clamp stored values without regard to scales. An activation of which the operand is quantized otherwise
than the result, as the Cortex-M's quantizer does it, gets the same rounding.
"""

from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.nodes import MARK, QUANTIZED
from deuteron.frontend.operators import base_name, is_dequantize, is_qdq, is_quantize

_ACTIVATIONS = ("relu", "hardtanh")
_CLAMPS = (*_ACTIVATIONS, "clamp")


def keep_bounds(module: fx.GraphModule) -> bool:
    """Round the operands of such activations in an edge program; true if there are any."""
    wanted = [node for node in module.graph.nodes if _loses_a_bound(node) or _has_two_scales(node)]
    for node in wanted:
        _round(module, node)
    module.recompile()
    return bool(wanted)


def _loses_a_bound(node: fx.Node) -> bool:
    if node.op != "call_function" or base_name(node.target) not in _ACTIVATIONS or _is_for_cpu(node):
        return False
    layer, readers = node.all_input_nodes[0], list(node.users)
    if layer.op != "call_function" or is_qdq(layer) or len(readers) != 1 or not is_quantize(readers[0]):
        return False
    scale, zero_point, least, most = cast("tuple[float, int, int, int]", readers[0].args[1:5])
    if base_name(node.target) == "relu":
        return zero_point != least
    low, high = cast("tuple[float, float]", (*node.args[1:], *(-1.0, 1.0)[len(node.args) - 1 :]))
    return low != 0 or zero_point != least or round(high / scale) + zero_point < most


def _has_two_scales(node: fx.Node) -> bool:
    """True for an activation between a dequantize and a quantize operator of different quantization."""
    if node.op != "call_function" or base_name(node.target) not in _CLAMPS or len(node.users) != 1:
        return False
    operand, (reader,) = node.all_input_nodes[0], node.users
    return is_dequantize(operand) and is_quantize(reader) and operand.args[1:] != reader.args[1:]


def _is_for_cpu(node: fx.Node) -> bool:
    """True for a node that was quantized for a Cortex-M, whose layers support any bounds."""
    custom = node.meta.get("custom", {})
    return QUANTIZED in custom and MARK not in custom


def _round(module: fx.GraphModule, node: fx.Node) -> None:
    """Quantize the operand of an activation as its result is quantized, and dequantize it."""
    from executorch.exir.dialects._ops import ops as edge_ops

    tensors: Any = edge_ops.edge.quantized_decomposed
    layer, (reader,) = node.all_input_nodes[0], node.users
    affine = reader.args[1:]
    with module.graph.inserting_before(node):
        stored = module.graph.call_function(tensors.quantize_per_tensor.default, (layer, *affine))
        value = module.graph.call_function(tensors.dequantize_per_tensor.default, (stored, *affine))
    stored.meta = {**layer.meta, "val": layer.meta["val"].to(cast("torch.dtype", affine[-1]))}
    value.meta = dict(layer.meta)
    node.replace_input_with(layer, value)
