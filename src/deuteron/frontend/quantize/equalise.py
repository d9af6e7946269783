"""Equalises the ranges of channels between two layers, so that one scale of 256 steps suits all of them.

An output channel of a layer is divided by a factor, and the weights of the next layers for it are multiplied by the
factor. The result is the same if the operators between them are homogeneous: relu, max-pools, averages. Factors are
powers of two, so that the float model computes the same bits. After M. Nagel et al., arXiv:1906.04721, and G. Xiao et
al., arXiv:2211.10438, but from ranges of activations, because weights already have a scale per output channel.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import called
from deuteron.frontend.quantize.channels import axis_of, rows_of
from deuteron.frontend.quantize.decompositions import set_value, value_of

_IMAGES = frozenset({"conv1d", "conv2d"})
_LAYERS = _IMAGES | {"linear"}
"""Layers with channels of images, or of rows."""

_KEEPS = frozenset({"relu", "leaky_relu", "dropout", "clone", "contiguous", "identity"})
_POOLS = "max_pool1d max_pool2d avg_pool1d avg_pool2d adaptive_avg_pool1d adaptive_avg_pool2d"
_KEEPS_IMAGES = frozenset(_POOLS.split())
"""Homogeneous operators: a factor of an operand's channel becomes a factor of the result's channel."""

_STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Exponents of the equalisation that are tried; 0 changes nothing and 1 gives equal ranges."""

_MOST = 24
"""The exponent of the largest factor, which keeps products with ordinary weights and activations in float32's range."""


@dataclass(frozen=True, slots=True)
class Link:
    """A layer and the layers that read its channels, directly or through homogeneous operators."""

    layer: fx.Node
    readers: tuple[fx.Node, ...]


@dataclass(slots=True)
class _Channels:
    """Statistics of each channel that readers of a link get, and the number of values."""

    largest: Tensor
    squares: Tensor
    count: int = 0


def equalise(model: fx.GraphModule, batches: Iterable[Inputs]) -> int:
    """Equalise channels where calibration data predicts less rounding noise; return the number of layers."""
    listed = links(model)
    measured = _ChannelStatistics(model, {reader: link.layer for link in listed for reader in link.readers})
    with torch.no_grad():
        for batch in batches:
            measured.run(*copies(batch))
        return sum(_apply(model, link, measured.channels[link.layer]) for link in listed)


def links(model: fx.GraphModule) -> list[Link]:
    """Return the layers whose channels can be scaled, in the model's order."""
    owned = {
        node.target
        for node in model.graph.find_nodes(op="get_attr")
        if len(model.graph.find_nodes(op="get_attr", target=node.target)) == 1 and len(node.users) == 1
    }

    def is_free(node: fx.Node) -> bool:
        """True for a layer with weights that no other node reads."""
        parameters = [arg for arg in node.args[1:3] if isinstance(arg, fx.Node)]
        return called(node) in _LAYERS and all(arg.op == "get_attr" and arg.target in owned for arg in parameters)

    listed: list[Link] = []
    for node in model.graph.nodes:
        if is_free(node):
            readers = _readers(node, called(node) in _IMAGES)
            if readers and all(is_free(reader) and _has_columns(model, reader) for reader in readers):
                listed.append(Link(node, tuple(readers)))
    return listed


def _readers(node: fx.Node, is_image: bool) -> list[fx.Node] | None:
    """The layers that read a value directly or through homogeneous operators; None if other operators read it."""
    readers: list[fx.Node] = []
    for user in node.users:
        name = called(user)
        if user.args[:1] != (node,) or user.all_input_nodes.count(node) != 1:
            return None
        if name in (_IMAGES if is_image else {"linear"}):
            readers.append(user)
        elif name in _KEEPS or (is_image and name in _KEEPS_IMAGES):
            if (behind := _readers(user, is_image)) is None:
                return None
            readers += behind
        else:
            return None
    return readers


def _has_columns(model: fx.GraphModule, layer: fx.Node) -> bool:
    """True for a layer with separate weights for each input channel: not for groups of several channels."""
    return _groups(layer) == 1 or _weight(model, layer).shape[1] == 1


def _groups(layer: fx.Node) -> int:
    return cast(int, layer.args[6]) if len(layer.args) > 6 else 1


def _weight(model: fx.GraphModule, layer: fx.Node) -> Tensor:
    return value_of(model, cast(fx.Node, layer.args[1]))


class _ChannelStatistics(fx.Interpreter):
    """Runs the model and measures the channels that layers read."""

    def __init__(self, model: fx.GraphModule, readers: Mapping[fx.Node, fx.Node]) -> None:
        super().__init__(model)
        self._readers = readers
        self.channels: dict[fx.Node, _Channels] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n in self._readers:
            self._measure(self._readers[n], *(self.env[cast(fx.Node, arg)] for arg in n.args[:2]))
        return super().run_node(n)

    def _measure(self, layer: fx.Node, value: Tensor, weight: Tensor) -> None:
        rows = rows_of(value, axis_of(weight))
        largest, squares = rows.abs().amax(1), (rows**2).sum(1)
        before = self.channels.setdefault(layer, _Channels(largest, torch.zeros_like(squares)))
        before.largest = torch.maximum(before.largest, largest)
        before.squares = before.squares + squares
        before.count += rows.shape[1]


def _apply(model: fx.GraphModule, link: Link, channels: _Channels) -> bool:
    """Scale the channels of a link by the factors with the least predicted noise; True if it changes anything."""
    columns = [_columns(model, reader, len(channels.largest)) for reader in link.readers]
    nonzero = channels.largest > 0
    if not nonzero.any():
        return False
    levels = torch.where(nonzero, channels.largest, channels.largest[nonzero].median()).log2()
    distances = levels - levels.median()
    tried = [(strength * distances).round().clamp(-_MOST, _MOST).exp2() for strength in _STRENGTHS]
    noises = [_noise(factors, channels, columns) for factors in tried]
    best = min(range(len(tried)), key=noises.__getitem__)
    if not best:
        return False
    factors = tried[best].float()
    for index in range(1, 3):
        parameter = link.layer.args[index] if len(link.layer.args) > index else None
        if isinstance(parameter, fx.Node):
            value = value_of(model, parameter)
            set_value(model, parameter, value / factors.reshape(-1, *[1] * (value.dim() - 1)))
    for reader in link.readers:
        weight, each = _weight(model, reader), factors
        if _groups(reader) > 1:
            each = factors.repeat_interleave(weight.shape[0] // len(factors))
            wanted = each.reshape(-1, *[1] * (weight.dim() - 1))
        else:
            wanted = each.reshape(1, -1, *[1] * (weight.dim() - 2))
        set_value(model, cast(fx.Node, reader.args[1]), weight * wanted)
    return True


def _columns(model: fx.GraphModule, reader: fx.Node, channels: int) -> Tensor:
    """The weights of a layer by output, input channel and position; 0 for channels that an output does not read."""
    weight = _weight(model, reader).double()
    weight = weight.reshape(*weight.shape[:2], -1)
    if _groups(reader) == 1:
        return weight
    outputs = torch.arange(weight.shape[0])
    columns = weight.new_zeros(weight.shape[0], channels, weight.shape[2])
    columns[outputs, outputs // (weight.shape[0] // channels)] = weight[:, 0]
    return columns


def _noise(factors: Tensor, channels: _Channels, columns: Iterable[Tensor]) -> float:
    """The predicted noise: the sum of squares, up to a common factor.

    Activations are rounded with one step for all channels, weights with one step per output.
    """
    step = float((channels.largest / factors).max()) / 255
    squares = channels.squares / factors**2
    noise = 0.0
    for weight in columns:
        scaled = weight * factors[None, :, None]
        steps = scaled.abs().amax((1, 2)) / 127
        places = (weight != 0).any(2).double() * weight.shape[2]
        noise += channels.count * step**2 * float((scaled**2).sum()) + float(steps**2 @ places @ squares)
    return noise
