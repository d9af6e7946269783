"""Selects the layers that get int16 activations, so that the outputs reach a given signal-to-noise ratio.

A value gains from int16 if the operator that computes it and all its readers are int16. The search adds values in the
order of their loss. A binary search finds how many it needs; each step quantizes the model and measures it on
calibration data.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import fx

from deuteron.builds.samples import evenly
from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m import backend as cortex_m
from deuteron.frontend.cortex_m.elementwise import LIMITS
from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.eager.variables import Variable
from deuteron.frontend.inputs import Inputs
from deuteron.frontend.operators import called, is_float, operator_name
from deuteron.frontend.quality.measure import STILL
from deuteron.frontend.source_lines import source_of

_SAMPLES = 16
"""Batches for the calibration and measurement of each trial."""


@dataclass(slots=True)
class Search:
    """The search for nodes with int16 activations, and its result.

    Attributes:
        least: the signal-to-noise ratio that each output must reach, in dB.
        batches: returns the calibration batches.
        int16_nodes: names of the nodes with int16 activations.
        why: why they are not on an NPU.
    """

    least: float
    batches: Callable[[], Iterable[Inputs]]
    int16_nodes: frozenset[str] = frozenset()
    why: str = "`--min-sqnr` gives it activations of 16 bits, which the NPU lacks"

    def run(self, model: fx.GraphModule, quantizer: Any, int16_quantizer: Any = None) -> None:
        """Set `int16_nodes` for a model; `quantizer` annotates by it.

        `int16_quantizer` annotates as `--activations int16` does, for targets with that option; an error's hint uses
        it.

        Raises:
            UnsupportedError: the outputs do not reach the ratio with int16 wherever operators support it.
        """
        every = list(self.batches())
        batches = evenly(every, _SAMPLES)

        def sqnr(nodes: frozenset[str], by: Any = quantizer) -> tuple[float, Sequence[str]]:
            self.int16_nodes = nodes
            return _measured(copy.deepcopy(model), batches, by, len(every))

        before, values = sqnr(frozenset())
        if before >= self.least:
            return
        # As for annotation, which renames nodes.
        prepared = quantizer.transform_for_annotation(copy.deepcopy(model))
        able = cortex_m.int16_capable(prepared)
        values = [value for value in values if value in able]
        enough = len(values)
        best, _ = sqnr(_with_readers(prepared, values, able))
        if best < self.least:
            all_int16 = 0.0 if int16_quantizer is None else sqnr(frozenset(), int16_quantizer)[0]
            why, hints = "as weights keep 8", list[str]()
            if all_int16 >= self.least:
                why = "with the other operators in 8 bits"
                hints.append(f"build with `--activations int16` instead, which has {all_int16:.1f} dB")
            if (most := int(max(before, best))) >= 1:
                hints.append(f"ask for at most `--min-sqnr {most}`")
            hints.append("lose less elsewhere: with `--equalise --correct-biases`, or by training with `--use-qat`")
            raise UnsupportedError(
                f"{self.least:g} dB of signal to quantization noise are out of reach: int8 has {before:.1f} dB, and "
                f"activations of 16 bits wherever they can be {best:.1f} dB, {why}",
                hint=", or ".join(hints),
            )
        # Binary search: `few` values are not enough, `enough` are.
        few = 0
        while enough - few > 1:
            half = (few + enough) // 2
            is_enough = sqnr(_with_readers(prepared, values[:half], able))[0] >= self.least
            few, enough = (few, half) if is_enough else (half, enough)
        self.int16_nodes = _with_readers(prepared, values[:enough], able)


@dataclass(slots=True)
class StateNodes:
    """The operators that read state, or compute it from the state before, which get int16 activations.

    Attributes:
        variables: those of the model, which are its last inputs and outputs.
        int16_nodes: names of the nodes with int16 activations.
        notes: a text for each variable of which an operator keeps activations of 8 bits.
        why: why they are not on an NPU.
    """

    variables: Sequence[Variable]
    int16_nodes: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    why: str = "`--state-dtype int16` gives it activations of 16 bits, which the NPU lacks"

    def run(self, model: fx.GraphModule, quantizer: Any, _: Any = None) -> None:
        """Set `int16_nodes` for a model.

        Raises:
            UnsupportedError: no operator with int16 activations computes a state.
        """
        prepared = quantizer.transform_for_annotation(copy.deepcopy(model))
        able = cortex_m.int16_capable(prepared)
        count = len(self.variables)
        states = [node for node in prepared.graph.nodes if node.op == "placeholder"][-count:]
        results = cast("list[fx.Node]", list(flat(prepared.graph.output_node().args[0])))[-count:]
        values, notes = set[str](), list[str]()
        for variable, before, after in zip(self.variables, states, results, strict=True):
            if before.meta["val"].is_floating_point():
                nodes = _between(before, after)
                values |= {node.name for node in nodes}
                notes += _int8_note(variable, nodes, able)
        self.notes = tuple(notes)
        self.int16_nodes = _with_readers(prepared, values, able)
        if not self.int16_nodes:
            raise UnsupportedError(
                "`--state-dtype int16`: no operator that reads or computes a state has activations of 16 bits",
                hint="leave it out, or build for a target whose CPU computes the state",
            )


def _int8_note(variable: Variable, nodes: Iterable[fx.Node], able: Collection[str]) -> Iterator[str]:
    """Say which operator keeps 8 bits between a state and its next value."""
    computing = [node for node in nodes if node.op == "call_function" and called(node) not in STILL]
    kept = {node for node in computing if is_float(node) and node.name not in able and node.target not in LIMITS}
    if kept:
        first = next(node for node in next(iter(kept)).graph.nodes if node in kept)
        at = f", at {source.short}: `{source.code}`," if (source := source_of(first)) else ""
        yield (
            f"`--state-dtype int16`: `{operator_name(first.target)}`{at} has activations of 8 bits, and with them the "
            f"variable `{variable.name}`; write it with sums, products, layers and `torch.cat`"
        )


def _between(before: fx.Node, after: fx.Node) -> set[fx.Node]:
    """Return a state, its next value, and the nodes that compute the second from the first."""
    following, leading = {before}, {after}
    for node in before.graph.nodes:
        if not following.isdisjoint(node.all_input_nodes):
            following.add(node)
    for node in reversed(list(before.graph.nodes)):
        if node in leading:
            leading.update(node.all_input_nodes)
    return {before, *(following & leading)}


def _measured(model: fx.GraphModule, batches: Sequence[Inputs], quantizer: Any, count: int) -> tuple[float, list[str]]:
    """The signal-to-noise ratio of the worst output in dB, and the names of all values, largest loss first.

    The batches are some of `count` that the build is calibrated with, and ranges are widened as with all.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from deuteron.frontend.quality.float_model import without_observers
    from deuteron.frontend.quality.measure import measure
    from deuteron.frontend.quantize import few_values
    from deuteron.frontend.quantize.calibration import calibrate, observe_integers

    prepared = prepare_pt2e(model, quantizer)
    observe_integers(prepared)
    calibrate(prepared, batches)
    few_values.widen(prepared, count)
    floats = without_observers(prepared)
    measured = measure(floats, convert_pt2e(prepared), batches)
    sqnr = min((output.all.total() for output in measured.outputs.values()), default=float("inf"))
    return sqnr, [layer.name for layer in measured.layer_qualities()]


def _with_readers(model: fx.GraphModule, values: Collection[str], able: Collection[str]) -> frozenset[str]:
    """The nodes that need int16 so that these values gain: those that compute and those that read them, if able."""
    nodes: set[fx.Node] = set()
    for node in model.graph.nodes:
        if node.name in values:
            nodes |= {node, *_readers(node, able)}
    # A clamp of an operator's result belongs to the operator.
    nodes |= {arg for node in nodes if node.target in LIMITS for arg in node.all_input_nodes}
    nodes |= {user for node in nodes if len(node.users) == 1 for user in node.users if user.target in LIMITS}
    return frozenset(node.name for node in nodes if node.name in able)


def _readers(node: fx.Node, able: Collection[str]) -> set[fx.Node]:
    """The able nodes that read a value, directly or through nodes that only move elements."""
    readers: set[fx.Node] = set()
    moved, seen = [node], {node}
    while moved:
        new = {*moved.pop().users} - seen
        seen |= new
        readers |= {user for user in new if user.name in able}
        moved += [user for user in new if user.name not in able]
    return readers
