"""Which layers get activations of 16 bits, so that the outputs have as much signal to noise as is asked for.

A value gains where what computes it and all that read it have 16 bits. Values are taken with the most loss first; how
many that takes is found by halving, each time with a model that is quantised and measured on the calibration.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from deuteron.builds.samples import evenly
from deuteron.errors import UnsupportedError
from deuteron.frontend.cortex_m import backend as cortex_m
from deuteron.frontend.cortex_m.elementwise import LIMITS
from deuteron.frontend.inputs import Inputs

WHY = "`--min-sqnr` gives it activations of 16 bits, which the NPU lacks"

_SAMPLES = 16
"""Batches that each trial is calibrated and measured with."""


@dataclass(slots=True)
class Search:
    """What is searched for, and what was found.

    Attributes:
        least: signal to noise that each output has at least, in dB.
        batches: gives the calibration.
        wide: names of the nodes that have activations of 16 bits.
    """

    least: float
    batches: Callable[[], Iterable[Inputs]]
    wide: frozenset[str] = frozenset()

    def choose(self, model: fx.GraphModule, quantizer: Any, whole: Any = None) -> None:
        """Set `wide` for a model; `quantizer` annotates by it.

        `whole` annotates as `--activations int16` does, where the target has that; it is for the hint of an error.

        Raises:
            UnsupportedError: when outputs have less with 16 bits wherever these can be.
        """
        batches = evenly(list(self.batches()), _SAMPLES)

        def sqnr(wide: frozenset[str], by: Any = quantizer) -> tuple[float, Sequence[str]]:
            self.wide = wide
            return _measured(copy.deepcopy(model), batches, by)

        before, values = sqnr(frozenset())
        if before >= self.least:
            return
        written = quantizer.transform_for_annotation(copy.deepcopy(model))  # as it is annotated: nodes get new names
        able = cortex_m.has_wide(written)
        values = [value for value in values if value in able]
        enough = len(values)
        best, _ = sqnr(_around(written, values, able))
        if best < self.least:
            all_wide = 0.0 if whole is None else sqnr(frozenset(), whole)[0]
            why, hints = "as weights keep 8", list[str]()
            if all_wide >= self.least:
                why = "beside those of 8"
                hints.append(f"build with `--activations int16` instead, which has {all_wide:.1f} dB")
            if (most := int(max(before, best))) >= 1:
                hints.append(f"ask for at most `--min-sqnr {most}`")
            hints.append("lose less elsewhere: with `--equalise --correct-biases`, or by training with `--use-qat`")
            raise UnsupportedError(
                f"{self.least:g} dB of signal to quantisation noise are out of reach: int8 has {before:.1f} dB, and "
                f"activations of 16 bits wherever they can be {best:.1f} dB, {why}",
                hint=", or ".join(hints),
            )
        few = 0
        while enough - few > 1:
            half = (few + enough) // 2
            is_enough = sqnr(_around(written, values[:half], able))[0] >= self.least
            few, enough = (few, half) if is_enough else (half, enough)
        self.wide = _around(written, values[:enough], able)


def _measured(model: fx.GraphModule, batches: Sequence[Inputs], quantizer: Any) -> tuple[float, list[str]]:
    """The signal to noise of the worst output of a model, and the names of its values, with the most loss first."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from deuteron.frontend.quality.float_model import without_observers
    from deuteron.frontend.quality.measure import measure
    from deuteron.frontend.quantise.calibration import calibrate, observe_integers

    prepared = prepare_pt2e(model, quantizer)
    observe_integers(prepared)
    calibrate(prepared, batches)
    floats = without_observers(prepared)
    measured = measure(floats, convert_pt2e(prepared), batches)
    sqnr = min((output.all.total() for output in measured.outputs.values()), default=float("inf"))
    return sqnr, [layer.name for layer in measured.layer_qualities()]


def _around(model: fx.GraphModule, values: Collection[str], able: Collection[str]) -> frozenset[str]:
    """The nodes that have 16 bits where these values do: what computes and what reads them, of what can have 16."""
    nodes: set[fx.Node] = set()
    for node in model.graph.nodes:
        if node.name in values:
            nodes |= {node, *_readers(node, able)}
    # An operator and what cuts off its results are one.
    nodes |= {arg for node in nodes if node.target in LIMITS for arg in node.all_input_nodes}
    nodes |= {user for node in nodes if len(node.users) == 1 for user in node.users if user.target in LIMITS}
    return frozenset(node.name for node in nodes if node.name in able)


def _readers(node: fx.Node, able: Collection[str]) -> set[fx.Node]:
    """What reads a value, also behind what only moves its elements."""
    readers: set[fx.Node] = set()
    moved, seen = [node], {node}
    while moved:
        new = {*moved.pop().users} - seen
        seen |= new
        readers |= {user for user in new if user.name in able}
        moved += [user for user in new if user.name not in able]
    return readers
