"""Gives weights a scale that is large enough for the biases of their layers: int32 in steps of both scales."""

from typing import Any, cast

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e import ObserverBase

from deuteron.frontend.operators import called
from deuteron.frontend.quantize.decompositions import value_of

_LAYERS = frozenset({"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "linear"})

MOST = 2**30
"""The largest quantized bias: the products of weights get the other half of an int32 accumulator."""


def widen(model: fx.GraphModule) -> None:
    """Raise measured ranges of weights in a prepared model until each quantized bias is at most `MOST`.

    Such a bias decides the scale of the output, so that the step of the weights stays small against it.
    """
    for node in model.graph.nodes:
        if called(node) in _LAYERS:
            weights = _observer(model, cast(fx.Node, node.args[1]))
            needed = None if weights is None else needed_range(model, node, weights.quant_max)
            if weights is not None and needed is not None:
                weights.max_val.copy_(torch.maximum(weights.max_val, needed))


def needed_range(model: fx.GraphModule, node: fx.Node, largest: int) -> Tensor | None:
    """The least range of a layer's weights, up to the quantized weight `largest`, for its bias: as `max_val` has it.

    None if the layer has no bias, or its ranges are not measured.
    """
    if len(node.args) < 3 or node.args[2] is None:
        return None
    inputs, weights = (_observer(model, cast(fx.Node, arg)) for arg in node.args[:2])
    bias = _bias(model, node.args[2])
    if inputs is None or weights is None or bias is None or weights.max_val.numel() not in (1, bias.numel()):
        return None
    needed = bias / (float(inputs.calculate_qparams()[0]) * MOST) * (largest + 1)
    return (needed if weights.max_val.numel() > 1 else needed.max()).reshape(weights.max_val.shape)


def _observer(model: fx.GraphModule, node: fx.Node) -> Any:
    """The observer that a layer reads, if it has measured a range."""
    observer: object = model.get_submodule(str(node.target)) if node.op == "call_module" else None
    low: object = getattr(observer, "min_val", None)
    measured = isinstance(observer, ObserverBase) and isinstance(low, Tensor) and low.numel() and low.isfinite().all()
    return observer if measured else None


def _bias(model: fx.GraphModule, node: Any) -> Tensor | None:
    while node.op == "call_module":
        node = node.args[0]
    return value_of(model, node).detach().abs() if node.op == "get_attr" else None
