"""Converts batch norms that no layer absorbs, such as a model's first operator, to layers."""

from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import call, constant, value_of

aten = torch.ops.aten

_LAYERS = frozenset(
    {
        aten.conv1d.default,
        aten.conv1d.padding,
        aten.conv2d.default,
        aten.conv2d.padding,
        aten.conv_transpose1d.default,
        aten.conv_transpose2d.input,
        aten.linear.default,
    }
)
"""Layers into which PT2E folds batch norms."""

_TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input)
_GROUPS = 6
"""The index of `groups` among the arguments of transposed convolutions."""

_IMAGE = 4


def write(model: fx.GraphModule) -> None:
    """Replace each batch norm that cannot be folded into the layer before it by a depthwise convolution of 1 x 1.

    All targets support it, on the NPU and as an int8 operator of the Cortex-M. It rounds once; a product and a sum
    would round twice. Each channel's factor is its only weight, which int8 represents exactly; a product would have one
    scale for the factors of all channels. Tensors that are no images are reshaped to images.
    """
    for node in list(model.graph.nodes):
        if node.target is aten.batch_norm.default and _is_fixed(node) and not _is_absorbed(node):
            node.replace_all_uses_with(_layer(model, node))
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    model.recompile()


def is_layer(node: fx.Node) -> bool:
    """True for a layer with constant weights into which PT2E folds the batch norm after it."""
    return node.target in _LAYERS and all(arg.op == "get_attr" for arg in _parameters(node))


def _is_fixed(norm: fx.Node) -> bool:
    """True for a norm with constant statistics over tensors that can be reshaped to images."""
    statistics, training = norm.args[1:5], norm.args[5]
    constant = all(arg is None or (isinstance(arg, fx.Node) and arg.op == "get_attr") for arg in statistics)
    return constant and not training and statistics[2] is not None and norm.meta["val"].dim() <= _IMAGE


def _is_absorbed(norm: fx.Node) -> bool:
    """True for a norm whose factors can be folded into the weights of the layer before it.

    PT2E folds into any layer, and ignores the groups of a transposed convolution. Other readers of the layer would get
    wrong values, and so would layers that share its parameters and have another norm or none.
    """
    layer = cast(fx.Node, norm.args[0])
    if layer.target not in _LAYERS or (layer.target is aten.linear.default and norm.meta["val"].dim() > 2):
        return False
    if layer.target in _TRANSPOSED and layer.args[_GROUPS : _GROUPS + 1] not in ((), (1,)):
        return False
    parameters = _parameters(layer)
    if any(node.op != "get_attr" for node in parameters):
        return False
    same = [node for own in parameters for node in norm.graph.find_nodes(op="get_attr", target=own.target)]
    return all(_is_like(reader, layer, norm) for node in same for reader in node.users)


def _is_like(other: fx.Node, layer: fx.Node, norm: fx.Node) -> bool:
    """True for a layer with the same parameters as another one, whose only reader is the same norm."""
    return (
        other.target is layer.target
        and [node.target for node in _parameters(other)] == [node.target for node in _parameters(layer)]
        and [_factors(reader) for reader in other.users] == [_factors(norm)]
    )


def _parameters(layer: fx.Node) -> list[fx.Node]:
    """The weights of a layer, and its bias if it has one."""
    return [arg for arg in layer.args[1:3] if isinstance(arg, fx.Node)]


def _factors(node: fx.Node) -> list[object]:
    """The parameters of a batch norm; empty for another operator."""
    if node.target is not aten.batch_norm.default:
        return []
    return [arg.target if isinstance(arg, fx.Node) else arg for arg in node.args[1:]]


def _layer(model: fx.GraphModule, norm: fx.Node) -> fx.Node:
    """Insert the layer that computes a batch norm."""
    x, *factors = norm.args[:5]
    weight, bias, mean, variance = (value_of(model, arg) if isinstance(arg, fx.Node) else None for arg in factors)
    with torch.no_grad():
        deviation = (cast(Tensor, variance).double() + cast(float, norm.args[7])).sqrt()
        scale = (1 if weight is None else weight) / deviation
        shift = (0 if bias is None else bias) - cast(Tensor, mean) * scale
    scales = constant(model, norm, f"{norm.name}_weight", scale.reshape(-1, 1, 1, 1), like=weight)
    shifts = constant(model, norm, f"{norm.name}_bias", shift, like=bias)
    shape = [*norm.meta["val"].shape]
    n, channels, *sizes = shape
    image = cast(fx.Node, x)
    if len(shape) < _IMAGE:
        image = call(norm, aten.reshape.default, image, [n, channels, 1, *(sizes or [1])])
    layer = call(norm, aten.conv2d.default, image, scales, shifts, [1, 1], [0, 0], [1, 1], channels)
    return call(norm, aten.reshape.default, layer, shape) if len(shape) < _IMAGE else layer
