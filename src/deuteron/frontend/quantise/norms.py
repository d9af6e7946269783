"""Batch norms that no layer absorbs, such as a model's first operator, as layers of their own."""

from typing import cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantise.decompositions import call, constant, value_of

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
"""What PT2E folds batch norms into."""

_TRANSPOSED = (aten.conv_transpose1d.default, aten.conv_transpose2d.input)
_GROUPS = 6
"""Where transposed convolutions have the number of their groups."""

_IMAGE = 4


def write(model: fx.GraphModule) -> None:
    """Write each batch norm that cannot be folded into the layer before it as a depthwise convolution of 1 x 1.

    That is the best form on every target. The NPU has it, and so has the Cortex-M's int8 depthwise operator. It rounds
    once, where a product and a sum would round twice, and each channel's factor is its only weight, so that int8 holds
    it exactly, where a product would have one scale for the factors of all channels. Tensors that are no images are
    viewed as such.
    """
    for node in list(model.graph.nodes):
        if node.target is aten.batch_norm.default and _is_fixed(node) and not _is_absorbed(node):
            node.replace_all_uses_with(_layer(model, node))
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    model.recompile()


def is_layer(node: fx.Node) -> bool:
    """True for a layer into which PT2E folds the batch norm behind it, with weights that are constants."""
    return node.target in _LAYERS and all(arg.op == "get_attr" for arg in _parameters(node))


def _is_fixed(norm: fx.Node) -> bool:
    """True for one that measures nothing, over tensors that can be viewed as images."""
    statistics, training = norm.args[1:5], norm.args[5]
    constant = all(arg is None or (isinstance(arg, fx.Node) and arg.op == "get_attr") for arg in statistics)
    return constant and not training and statistics[2] is not None and norm.meta["val"].dim() <= _IMAGE


def _is_absorbed(norm: fx.Node) -> bool:
    """True for one whose factors can become part of the weights of the layer before it.

    PT2E folds into whatever layer it finds, and takes a transposed convolution in groups for one without. A layer that
    has other readers as well, or shares its weights or its bias with one that has another norm or none, would then give
    them wrong values.
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
    """True for a layer with the same parameters as one, and with the same norm and nothing else behind it."""
    return (
        other.target is layer.target
        and [node.target for node in _parameters(other)] == [node.target for node in _parameters(layer)]
        and [_factors(reader) for reader in other.users] == [_factors(norm)]
    )


def _parameters(layer: fx.Node) -> list[fx.Node]:
    """The weights of a layer, and its bias if it has one."""
    return [arg for arg in layer.args[1:3] if isinstance(arg, fx.Node)]


def _factors(node: fx.Node) -> list[object]:
    """What a batch norm's results depend on beside its input; nothing of another operator's."""
    if node.target is not aten.batch_norm.default:
        return []
    return [arg.target if isinstance(arg, fx.Node) else arg for arg in node.args[1:]]


def _layer(model: fx.GraphModule, norm: fx.Node) -> fx.Node:
    """The layer that computes what a batch norm does."""
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
