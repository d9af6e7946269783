"""Measures the signal-to-quantization-noise ratio of a quantized model's outputs and layers."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.builds.quality import LayerQuality, OutputQuality, decibels
from deuteron.frontend import saved
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.nodes import SATURATES
from deuteron.frontend.operators import called, is_dequantize, is_qdq, is_quantize, operator_name
from deuteron.frontend.source_lines import source_of

_MOVES = """
alias cat chunk clone contiguous copy detach dropout expand flatten flip getitem permute reshape select slice split
split_with_sizes squeeze stack t to transpose unbind unflatten unsqueeze view
"""
STILL = frozenset(_MOVES.split())
"""Operators that only move values, and lose nothing themselves."""

CHANGE = 1e-3
"""A value with a smaller relative change counts as constant in the float model."""

_SUMS = frozenset({"add", "mean", "sub", "sum"})
_RESIDUE = 8 * torch.finfo(torch.float32).eps
"""A sum below this share of its operands is their rounding error: they cancel, as in the mean of centred values."""

_ROWS = frozenset({"linear", "addmm", "mm", "bmm", "matmul", "layer_norm", "transpose", "permute", "softmax"})
_IMAGES = frozenset({"conv1d", "batch_norm", "conv_transpose1d", "max_pool1d", "avg_pool1d", "unsqueeze", "squeeze"})
"""The channel dimension of a result of rank 3: the last one, or the second one."""


@dataclass(slots=True)
class Ratio:
    """Sums of squares of a value and of its quantization error; totals or one per channel."""

    signal: Any = 0.0
    noise: Any = 0.0

    def add(self, wanted: Tensor, actual: Tensor, axis: int | None = None) -> None:
        """Add one sample."""
        wanted, noise = wanted.double(), actual.double() - wanted.double()
        self.signal = self.signal + _squares(wanted, axis)
        self.noise = self.noise + _squares(noise, axis)

    def channels(self) -> tuple[float, ...]:
        """The ratio of each channel in dB."""
        return tuple(decibels(s, n) for s, n in zip(self.signal.tolist(), self.noise.tolist(), strict=True))

    def total(self) -> float:
        """The ratio of all channels in dB."""
        return decibels(float(self.signal.sum()), float(self.noise.sum()))


def _squares(values: Tensor, axis: int | None) -> Tensor:
    """The sum of squares, per channel if there is a channel axis."""
    rows = values.reshape(1, -1) if axis is None else values.movedim(axis, 0).reshape(values.shape[axis], -1)
    return (rows**2).sum(1)


@dataclass(slots=True)
class Spread:
    """The least and the greatest value of each channel of an output, in the float and in the quantized model."""

    wanted: list[tuple[Tensor, Tensor]] = field(default_factory=list[tuple[Tensor, Tensor]])
    actual: list[tuple[Tensor, Tensor]] = field(default_factory=list[tuple[Tensor, Tensor]])

    def add(self, wanted: Tensor, actual: Tensor, axis: int) -> None:
        """Add one sample."""
        for ends, value in ((self.wanted, wanted), (self.actual, actual)):
            rows = value.movedim(axis, 0).reshape(value.shape[axis], -1)
            low, high = rows.min(1).values, rows.max(1).values
            ends[:] = [(torch.minimum(ends[0][0], low), torch.maximum(ends[0][1], high))] if ends else [(low, high)]


@dataclass(slots=True)
class Layer:
    """A quantized value: its node, its quantization, and its measurements.

    `is_residue` says that the float values are only rounding errors, of operands that cancel.
    """

    node: fx.Node
    affine: saved.Affine
    is_residue: bool = True
    all: Ratio = field(default_factory=Ratio)
    own: Ratio = field(default_factory=Ratio)
    clipped: Ratio = field(default_factory=Ratio)
    beyond: int = 0
    elements: int = 0

    def clamped(self, value: Tensor) -> Tensor:
        """Return values within the range of the quantization."""
        affine = self.affine
        return value.clamp(*(affine.real(torch.tensor(end)).item() for end in (affine.least, affine.most)))

    def needed(self, value: Tensor) -> Tensor:
        """Return what the readers of a value need of it: some are constant beyond its range."""
        return self.clamped(value) if SATURATES in self.node.meta.get("custom", {}) else value


@dataclass(slots=True)
class Output:
    """An output: its node, its quantization if it has one, its channel dimension, and its measurements.

    `samples` are the signal and the noise of each sample, as sums of squares.
    """

    node: fx.Node
    affine: saved.Affine | None
    axis: int
    all: Ratio = field(default_factory=Ratio)
    spread: Spread = field(default_factory=Spread)
    samples: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def add(self, wanted: Tensor, actual: Tensor) -> None:
        """Add one sample."""
        shape = wanted.shape if wanted.dim() else (1,)
        wanted, actual = wanted.reshape(shape), actual.reshape(shape)
        self.all.add(wanted, actual, self.axis)
        self.spread.add(wanted, actual, self.axis)
        (one := Ratio()).add(wanted, actual)
        self.samples.append((float(one.signal), float(one.noise)))


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements: float outputs by index, layers, and the float model's outputs for each sample.

    For other outputs, `equal` has for each sample which values equal the float model's.
    """

    samples: Sequence[Inputs]
    outputs: Mapping[int, Output]
    layers: tuple[Layer, ...]
    wanted: tuple[tuple[Tensor, ...], ...]
    equal: Mapping[int, Sequence[Tensor]]

    def layer_qualities(self) -> tuple[LayerQuality, ...]:
        """The computing layers, worst first."""
        listed: list[LayerQuality] = []
        for layer in self.layers:
            if called(layer.node) in STILL or layer.is_residue:
                continue
            source = source_of(layer.node)
            op = operator_name(layer.node.target) if layer.node.op == "call_function" else "input"
            sources = (source,) if source else ()
            listed.append(LayerQuality(layer.node.name, op, sources, layer.all.total(), layer.own.total()))
        return tuple(sorted(listed, key=lambda layer: layer.own))

    def is_constant(self, index: int) -> bool:
        """True if the float model gives nearly the same values of this output for all samples, of at least two."""
        first, *others = (sample[index] for sample in self.wanted)
        least = CHANGE * float(first.abs().max()) if first.is_floating_point() else 0.0
        return bool(others) and all(float((value - first).abs().max()) <= least for value in others)

    def output_qualities(self) -> tuple[OutputQuality, ...]:
        """One entry per output."""
        return tuple(
            OutputQuality(out.all.total(), out.axis, out.all.channels(), constant=self.is_constant(i))
            if (out := self.outputs.get(i))
            else OutputQuality(0.0, 0, (), equal=float(torch.cat([*self.equal[i]]).float().mean()))
            for i in range(len(self.wanted[0]))
        )


def measure(
    floats: fx.GraphModule, quantized: fx.GraphModule, samples: Sequence[Inputs], variables: int = 0
) -> Measured:
    """Compare the quantized model with the float model on these samples.

    The last `variables` inputs and outputs live from one sample to the next; the quantized model goes on with its own.
    """
    layers = {node.name: Layer(node, affine) for node, affine in _quantized_values(floats, quantized)}
    outputs: dict[int, Output] = {}
    wanted: list[tuple[Tensor, ...]] = []
    equal: dict[int, list[Tensor]] = {}
    nodes = flat(quantized.graph.output_node().args[0])
    with torch.no_grad():
        own = [*samples[0][-variables:]] if variables else []
        for sample in samples:
            original = _FloatRun(floats, layers)
            expected = flat(original.run(*copies(sample)))
            carried = (*sample[: len(sample) - variables], *own)
            actual = flat(_AccumulatedErrors(quantized, layers, original.found).run(*copies(carried)))
            own = cast("list[Tensor]", actual[len(actual) - variables :])
            _OwnErrors(quantized, layers, original.found).run(*copies(sample))
            wanted.append(tuple(x for x in expected if isinstance(x, Tensor)))
            for i, (node, ours, theirs) in enumerate(zip(nodes, actual, expected, strict=True)):
                if not (isinstance(node, fx.Node) and isinstance(ours, Tensor) and isinstance(theirs, Tensor)):
                    continue
                if theirs.is_floating_point():
                    out = outputs.setdefault(i, Output(node, saved.output_affine(node), _axis(node, theirs.dim())))
                    out.add(theirs, ours)
                else:
                    equal.setdefault(i, []).append((theirs == ours).flatten())
    return Measured(samples, outputs, tuple(layers.values()), tuple(wanted), equal)


def _quantized_values(floats: fx.GraphModule, quantized: fx.GraphModule) -> list[tuple[fx.Node, saved.Affine]]:
    """The nodes in both models whose results the quantized model rounds, with the quantization."""
    known = {node.name for node in floats.graph.nodes}
    listed: list[tuple[fx.Node, saved.Affine]] = []
    for node in quantized.graph.nodes:
        if node.op in ("placeholder", "call_function") and node.name in known and not is_qdq(node):
            affine = saved.input_affine(node)
            if affine is not None:
                listed.append((node, affine))
    return listed


def _axis(node: fx.Node, rank: int) -> int:
    """The channel dimension of an output: the second one in images and tables, the last one in sequences."""
    if rank != 3:
        return 1 if rank > 1 else 0
    source: Any = node
    while isinstance(source, fx.Node):
        name = called(source)
        if name in _ROWS or name in _IMAGES:
            return 1 if name in _IMAGES else 2
        source = source.args[0] if source.args else None
    return 2


class _FloatRun(fx.Interpreter):
    """Runs the float model and stores the results that the quantized model rounds."""

    def __init__(self, module: fx.GraphModule, layers: Mapping[str, Layer]) -> None:
        super().__init__(module)
        self._layers = layers
        self.found: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if layer := self._layers.get(n.name):
            self.found[n.name] = value.clone()  # a later operator may write into it
            layer.is_residue = layer.is_residue and self._is_residue(n, value)
        return value

    def _is_residue(self, n: fx.Node, value: Tensor) -> bool:
        if called(n) not in _SUMS or not value.numel():
            return False
        operands = [x for x in self.fetch_args_kwargs_from_env(n)[0] if isinstance(x, Tensor) and x.numel()]
        largest = max((float(x.double().abs().max()) for x in operands), default=0.0)
        return 0 < float(value.abs().max()) <= _RESIDUE * largest


class _ComparedRun(fx.Interpreter):
    """Runs the quantized model and compares each value with the float model's."""

    def __init__(self, module: fx.GraphModule, layers: Mapping[str, Layer], wanted: Mapping[str, Tensor]) -> None:
        super().__init__(module)
        self._layers, self._wanted = layers, wanted

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        layer = self._layers.get(n.name)
        return value if layer is None else self._compared(layer, value, self._wanted[n.name])

    @abstractmethod
    def _compared(self, layer: Layer, value: Tensor, wanted: Tensor) -> Tensor:
        """Measure the difference from the float model's value; return the value for readers."""


class _AccumulatedErrors(_ComparedRun):
    """Measures the accumulated rounding errors of each value, and the clamping by its range."""

    def _compared(self, layer: Layer, value: Tensor, wanted: Tensor) -> Tensor:
        affine, wanted = layer.affine, layer.needed(wanted)
        layer.all.add(wanted, affine.real(affine.stored(value)))
        kept = layer.clamped(wanted)
        layer.clipped.add(wanted, kept)
        layer.beyond += int(((wanted - kept).abs() > affine.scale).sum())
        layer.elements += wanted.numel()
        return value


class _OwnErrors(_ComparedRun):
    """Measures the error of each operator alone, on the float model's rounded values."""

    def _compared(self, layer: Layer, value: Tensor, wanted: Tensor) -> Tensor:
        layer.own.add(layer.needed(wanted), layer.affine.real(layer.affine.stored(value)))
        return wanted.clone()


@dataclass(frozen=True, slots=True)
class RoundedConstant:
    """A constant operand: its reader, its name in the float model, and its values before and after rounding."""

    node: fx.Node
    name: str
    before: Tensor
    after: Tensor


class _RoundedConstantRun(fx.Interpreter):
    """Runs the float model with one of its constants rounded."""

    def __init__(self, module: fx.GraphModule, constant: RoundedConstant) -> None:
        super().__init__(module)
        self._constant = constant

    def fetch_attr(self, target: str) -> Any:
        return self._constant.after if target == self._constant.name else super().fetch_attr(target)


def rounded_alone(floats: fx.GraphModule, constant: RoundedConstant, measured: Measured) -> Mapping[int, Ratio]:
    """The ratio of each float output if only this constant is rounded."""
    ratios = {i: Ratio() for i in measured.outputs}
    with torch.no_grad():
        for sample, expected in zip(measured.samples, measured.wanted, strict=True):
            actual = flat(_RoundedConstantRun(floats, constant).run(*copies(sample)))
            for i, ratio in ratios.items():
                wanted, ours = expected[i], cast(Tensor, actual[i])
                shape = wanted.shape if wanted.dim() else (1,)
                ratio.add(wanted.reshape(shape), ours.reshape(shape), measured.outputs[i].axis)
    return ratios


def constants(floats: fx.GraphModule, quantized: fx.GraphModule) -> list[RoundedConstant]:
    """The constant operands of operators, without weights and biases of layers."""
    originals = {node.name: node for node in floats.graph.nodes}
    listed: list[RoundedConstant] = []
    runner = fx.Interpreter(quantized)
    for node in quantized.graph.nodes:
        original = originals.get(node.name)
        if node.op != "call_function" or original is None or is_qdq(node):
            continue
        for before, after in zip(original.all_input_nodes, node.all_input_nodes, strict=False):
            if before.op != "get_attr" or not is_dequantize(after):
                continue
            stored = after.args[0]
            if isinstance(stored, fx.Node) and is_quantize(stored):
                stored = stored.args[0]
            value: object = fx.Interpreter(floats).fetch_attr(str(before.target))
            if isinstance(value, Tensor) and value.is_floating_point():
                listed.append(RoundedConstant(node, str(before.target), value, _evaluate(runner, after)))
    return listed


def _evaluate(runner: fx.Interpreter, node: fx.Node) -> Any:
    """Evaluate a node that depends on constants only."""
    if node.op == "get_attr":
        return runner.fetch_attr(str(node.target))
    args = fx.map_arg(node.args, lambda arg: _evaluate(runner, arg))
    kwargs = fx.map_arg(node.kwargs, lambda arg: _evaluate(runner, arg))
    target: Any = node.target
    return target(*args, **kwargs)
