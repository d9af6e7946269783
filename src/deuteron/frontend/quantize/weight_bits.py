"""Gives layers weights of four bits: those that lose least for each byte of flash that they save.

Each layer's loss is measured alone: the noise in the model's outputs with only its weights rounded. Layers are ordered
by this loss per byte, and the first of them get four bits. How many is decided on the quantized model, so that it keeps
the required quality; or by the flash that the weights may take. Nothing is random.
"""

import copy
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, fx
from torchao.quantization.pt2e import FakeQuantizeBase, ObserverBase

from deuteron.builds.quality import LITTLE, decibels
from deuteron.builds.samples import evenly
from deuteron.errors import CapacityError, UnsupportedError
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import called
from deuteron.frontend.quantize import bias_scales, learned_rounding
from deuteron.frontend.quantize.decompositions import set_value, value_of

LARGEST = 7
"""The largest weight of four bits; the smallest is its negative."""

MOST_TAPS = 512
"""Most positions of a depthwise kernel, as firmware has it."""

_SAMPLES = 16
"""Batches on which losses and quality are measured."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer whose weights may have four bits.

    Attributes:
        name: its node.
        weight: the node of its weights.
        groups: of its channels.
        elements: of a row of its weights.
        bytes: of its weights with eight and with four bits.
    """

    name: str
    weight: fx.Node
    groups: int
    elements: int
    bytes: tuple[int, int]

    @property
    def saved(self) -> int:
        """Return the bytes that four bits save."""
        return self.bytes[0] - self.bytes[1]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the number of layers that get four bits.

    Attributes:
        all_layers: every layer gets them.
        min_sqnr: SQNR in dB that each output keeps; None for the usual one.
        score: measures a model: a larger number is better.
        max_loss: how much the score may fall below the float model's.
        weight_bytes: bytes that the weights of all layers may take.
        oversized: numbers of layers with four bits whose programs are known to take too many bytes.
    """

    all_layers: bool = False
    min_sqnr: float | None = None
    score: Callable[[fx.GraphModule], float] | None = None
    max_loss: float | None = None
    weight_bytes: int | None = None
    oversized: frozenset[int] = frozenset()

    @property
    def has_quality(self) -> bool:
        """Return true if the user limits the loss of quality."""
        return self.min_sqnr is not None or self.max_loss is not None


def layers_of(prepared: fx.GraphModule, npu: Callable[[fx.Node], bool]) -> list[Layer]:
    """The layers of a prepared model that may have weights of four bits; `npu` is true for nodes of an NPU."""
    return [
        layer
        for node in prepared.graph.nodes
        if called(node) in ("conv2d", "linear") and not npu(node) and (layer := _layer(prepared, node)) is not None
    ]


def _layer(prepared: fx.GraphModule, node: fx.Node) -> Layer | None:
    quantizers: list[Any] = [_quantizer(prepared, node, operand) for operand in (0, 1)]
    if any(one is None or one.dtype != torch.int8 for one in quantizers):
        return None  # in float, or with int16 activations
    source = cast(fx.Node, node.args[1]).all_input_nodes[0]
    if source.op != "get_attr" or len(prepared.graph.find_nodes(op="get_attr", target=source.target)) != 1:
        return None
    shape = tuple(value_of(prepared, source).shape)
    groups = cast(int, node.args[6]) if len(node.args) > 6 else 1
    if len(node.args) > 4 and isinstance(node.args[4], str):
        return None
    elements, taps = math.prod(shape[1:]), math.prod(shape[2:])
    if groups == 1 or shape[1] > 1:  # rows of output channels, in pairs
        packed = groups * -(-shape[0] // groups // 2) * elements
    elif groups == shape[0] and taps <= MOST_TAPS:  # depthwise: rows of positions, in pairs
        packed = -(-taps // 2) * shape[0]
    else:
        return None
    whole = shape[0] * elements
    return Layer(node.name, source, groups, elements, (whole, packed)) if packed < whole else None


def _quantizer(model: fx.GraphModule, node: fx.Node, operand: int = 1) -> Any:
    """The observer, or in training the fake quantizer, of a layer's weights, or of another operand."""
    value = node.args[operand]
    is_module = isinstance(value, fx.Node) and value.op == "call_module"
    module = model.get_submodule(str(value.target)) if isinstance(value, fx.Node) and is_module else None
    return module if isinstance(module, ObserverBase | FakeQuantizeBase) else None


@dataclass(frozen=True, slots=True)
class Rounded:
    """The weights of a layer in four bits.

    Attributes:
        whole: the whole numbers, [groups, channels, elements].
        limit: the range of each channel, or one for all.
        step: of the weights in the program, [groups, channels, 1].
    """

    whole: Tensor
    limit: Tensor
    step: Tensor


class Chooser:
    """Chooses the layers of a calibrated model that get four bits, and gives them these."""

    def __init__(
        self,
        prepared: fx.GraphModule,
        floats: fx.GraphModule,
        layers: Sequence[Layer],
        batches: Iterable[Inputs],
    ) -> None:
        self._prepared = prepared
        self._floats = floats
        self._layers = layers
        self._batches = evenly(list(batches), _SAMPLES)
        self._rounded: dict[str, Rounded] = {}
        self.losses: Mapping[str, float] = {}

    def run(self, limits: Limits, *, trains: bool = False) -> tuple[Layer, ...]:
        """Give the chosen layers weights of four bits and return them; with `trains` training rounds the weights.

        Training changes the quality, so with it only the finished program can miss the limits.

        Raises:
            UnsupportedError: weights of eight bits in all layers miss the limits, or no output has an SQNR.
            CapacityError: the weights of all layers in four bits need more bytes.
        """
        layers = {each.name: each for each in self._layers}
        shapes = {name: (each.groups, each.elements) for name, each in layers.items()}
        for name, moments in learned_rounding.measured(self._floats, shapes, self._batches):
            self._rounded[name] = self._round(layers[name], moments)
        chosen = tuple(self._layers) if limits.all_layers else self._chosen(limits, trains=trains)
        self._apply(self._prepared, chosen, trains=trains)
        return chosen

    def _round(self, layer: Layer, moments: Tensor) -> Rounded:
        rows = learned_rounding.rows_of(value_of(self._floats, layer.weight), layer.groups)
        node = next(node for node in self._prepared.graph.nodes if node.name == layer.name)
        per_channel = _quantizer(self._prepared, node).qscheme == torch.per_channel_symmetric
        limit = learned_rounding.limits(rows, moments, LARGEST, per_channel=per_channel)
        needed = bias_scales.needed_range(self._prepared, node, LARGEST)
        if needed is not None:  # before rounding, which is for one step
            limit = torch.maximum(limit, needed.double().reshape(limit.shape) if per_channel else needed.double())
        # As the observer stores and divides it.
        step = (limit.float() / LARGEST).clamp_min(torch.finfo(torch.float32).eps).double()
        nearest = learned_rounding.nearest(rows, step, LARGEST)
        whole = learned_rounding.rounded(rows, step, moments, LARGEST)
        nearest_loss, loss = (learned_rounding.losses(values, rows, step, moments) for values in (nearest, whole))
        whole = nearest if loss > nearest_loss else whole
        return Rounded(whole, limit.flatten() if per_channel else limit.flatten()[:1], step)

    def _apply(self, model: fx.GraphModule, chosen: Iterable[Layer], *, trains: bool = False) -> None:
        """Give layers of a prepared model weights of four bits."""
        nodes = {node.name: node for node in model.graph.nodes}
        chosen = tuple(chosen)
        for layer in chosen:
            quantizer = _quantizer(model, nodes[layer.name])
            observer: Any = quantizer if isinstance(quantizer, ObserverBase) else quantizer.activation_post_process
            for one in (quantizer, observer):
                one.quant_min, one.quant_max = -LARGEST, LARGEST
            limit = self._rounded[layer.name].limit.to(observer.max_val.dtype).reshape(observer.max_val.shape)
            observer.max_val.copy_(limit)
            observer.min_val.copy_(-limit)
        for layer in () if trains else chosen:
            rounded, weight = self._rounded[layer.name], value_of(model, layer.weight)
            values = (rounded.whole * rounded.step).reshape(weight.shape).to(weight.dtype)
            set_value(model, nodes[layer.weight.name], values)

    def _chosen(self, limits: Limits, *, trains: bool) -> tuple[Layer, ...]:
        self.losses = self._measured_losses()
        order = sorted(self._layers, key=lambda each: (self.losses[each.name] / each.saved, each.name))
        if limits.weight_bytes is not None:
            return self._within(order, limits, trains=trains)
        score, least = self._requirement(limits)
        if (whole := score(())) < least:
            if trains or not limits.has_quality:
                return ()
            raise UnsupportedError(
                f"weights of eight bits in all layers leave a quality of {whole:.4g}, {least:.4g} are required",
                hint="require less, or leave out `--weights-bits auto`, so that `--min-sqnr` gives layers int16 "
                "activations"
                if limits.max_loss is None
                else "require less, or train with `--use-qat`",
            )
        few, many = 0, len(order) + 1  # `few` layers keep the quality, `many` do not
        while many - few > 1:
            half = (few + many) // 2
            few, many = (half, many) if score(order[:half]) >= least else (few, half)
        return tuple(order[:few])

    def _within(self, order: Sequence[Layer], limits: Limits, *, trains: bool) -> tuple[Layer, ...]:
        """The first layers of the order with which the weights fit: of all such numbers, the one with the best quality.

        With more flash there are more numbers to choose from, so the quality is never lower. Quality need not fall with
        the number of layers, so each number that fits is measured.
        """
        total = sum(each.bytes[0] for each in order)
        left = [total - sum(each.saved for each in order[:count]) for count in range(len(order) + 1)]
        most = cast(int, limits.weight_bytes)
        fitting = [count for count in range(len(order) + 1) if left[count] <= most and count not in limits.oversized]
        if not fitting:
            raise CapacityError(
                f"the weights of {len(order)} layers take {left[-1]:,} bytes with four bits each, the flash budget "
                f"leaves {max(0, most):,}",
                hint=f"raise `--flash-budget` by {left[-1] - most:,} bytes or more",
            )
        score, least = self._requirement(limits, usual=-math.inf)
        scores = {count: score(order[:count]) for count in fitting}
        best = max(fitting, key=lambda count: (scores[count], -count))
        if scores[best] < least and not trains:
            raise UnsupportedError(
                f"weights that fit into the flash budget leave a quality of {scores[best]:.4g}, {least:.4g} are "
                "required",
                hint="raise `--flash-budget` or require less",
            )
        return tuple(order[:best])

    def _requirement(self, limits: Limits, usual: float = LITTLE) -> tuple[Callable[[Sequence[Layer]], float], float]:
        """The measure of quality of a choice, and its least value."""
        if limits.score is not None and limits.max_loss is not None:
            score = limits.score
            return (lambda chosen: score(self._quantized(chosen))), score(self._floats) - limits.max_loss
        if not self._wanted[0][0].is_floating_point():
            raise UnsupportedError(
                "all outputs of the model are integers, which have no SQNR, and `--weights-bits auto` keeps one",
                hint="measure the model with `--evaluate` and `--max-loss`, or use `--weights-bits 4`",
            )
        return self._sqnr, usual if limits.min_sqnr is None else limits.min_sqnr

    def _quantized(self, chosen: Sequence[Layer]) -> fx.GraphModule:
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

        model = copy.deepcopy(self._prepared)
        self._apply(model, chosen)
        return convert_pt2e(model)

    def _sqnr(self, chosen: Sequence[Layer]) -> float:
        """The SQNR of the worst output in dB."""
        return self._ratio(self._outputs(self._quantized(chosen)))

    @cached_property
    def _wanted(self) -> list[list[Tensor]]:
        return self._outputs(self._floats)

    def _outputs(self, model: fx.GraphModule) -> list[list[Tensor]]:
        """The float outputs of each batch; for a model without any, its integers."""
        with torch.no_grad():
            found = [[x for x in flat(model(*copies(batch))) if isinstance(x, Tensor)] for batch in self._batches]
        return [[x for x in outputs if x.is_floating_point()] or outputs for outputs in found]

    def _ratio(self, outputs: list[list[Tensor]]) -> float:
        """The SQNR of the worst output in dB; for integers, the ratio of all to those that differ."""
        ratios: list[float] = []
        for wanted, actual in zip(zip(*self._wanted, strict=True), zip(*outputs, strict=True), strict=True):
            signal = noise = 0.0
            for x, y in zip(wanted, actual, strict=True):
                is_float = x.is_floating_point()
                signal += float((x.double() ** 2).sum()) if is_float else x.numel()
                noise += float(((y.double() - x.double()) ** 2).sum()) if is_float else float((x != y).sum())
            ratios.append(decibels(signal, noise))
        return min(ratios)

    def _measured_losses(self) -> dict[str, float]:
        """The noise that each layer alone adds to the outputs, as a share of their signal: of the worst output."""
        found: dict[str, float] = {}
        for layer in self._layers:
            rounded, weight = self._rounded[layer.name], value_of(self._floats, layer.weight).detach()
            with _replaced(weight, (rounded.whole * rounded.step).reshape(weight.shape)):
                outputs = self._outputs(self._floats)
            found[layer.name] = 10 ** (-self._ratio(outputs) / 10)
        return found


@contextmanager
def _replaced(tensor: Tensor, values: Tensor) -> Generator[None]:
    """Give a tensor other values for a while."""
    own = tensor.clone()
    tensor.copy_(values)
    try:
        yield
    finally:
        tensor.copy_(own)
