"""Chooses the convolutions of a bundle that run by Winograd's algorithm with weights that each run transforms.

The constants stay as they are. The transformed weights take scratch memory: what the plan of a program has free while
the step runs. With little of it, fewer channels are computed at a time, and inputs are transformed again for the next.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from deuteron.board.bundle import Bundle
from deuteron.board.larger_weights import (
    KERNEL_SUM,
    WEIGHTS,
    constant,
    layers,
    record_of,
    weights_of,
    with_scratch,
    with_winograd,
)
from deuteron.board.row_dependencies import CONVOLUTION, WINOGRAD, Counted, CpuParams
from deuteron.operators import winograd
from deuteron.operators.cortex_m import QuantizedConvolutionParams, WinogradConvolutionParams, winograd_bytes

LEAST_SAVED = 0.05
"""The share of a program's instructions that must be saved: the code of the algorithm takes flash."""


@dataclass(frozen=True, slots=True)
class TransformedWeights:
    """A step with weights that each run transforms.

    Attributes:
        step: its index in the bundle.
        instruction: number of its instruction in the program.
        record: its parameters.
        scratch: bytes of its scratch memory.
        instructions: estimated instructions of the step before, and after.
    """

    step: int
    instruction: int
    record: WinogradConvolutionParams
    scratch: int
    instructions: tuple[int, int]

    @property
    def saved(self) -> int:
        """Return the instructions that it saves."""
        return self.instructions[0] - self.instructions[1]

    def to_json(self) -> dict[str, object]:
        """Return what a report says of it, as plain values."""
        return {
            "instruction": self.instruction,
            "channels": self.record.channels,
            "keeps_tiles": bool(self.record.keeps_tiles),
            "scratch": self.scratch,
            "instructions": self.instructions,
        }


def candidates(bundle: Bundle, rates: Counted) -> list[list[list[TransformedWeights]]]:
    """Return all forms of each step that reads the same weights, for all weights that steps can transform."""
    found = ([_choices(bundle, at, rates) for at in steps] for steps in layers(bundle))
    return [steps for steps in found if all(steps)]


def chosen(
    weights: Iterable[Sequence[Iterable[TransformedWeights]]], free: Mapping[int, int]
) -> list[TransformedWeights]:
    """Return the faster steps of candidates, each in the form that is the fastest within its free bytes.

    All steps that read the same weights are among them, or none: the others would read weights in another order.
    """
    found: list[TransformedWeights] = []
    for steps in weights:
        fitting = ([choice for choice in choices if choice.scratch <= free[choice.step]] for choices in steps)
        # Of equal estimates that with more channels in a group, which is a little faster.
        made = [min(each, key=lambda one: (one.instructions[1], -one.record.channels)) for each in fitting if each]
        if len(made) == len(steps) and sum(choice.saved for choice in made) > 0:
            found += made
    return sorted(found, key=lambda choice: choice.step)


def applied(bundle: Bundle, choices: Sequence[TransformedWeights]) -> Bundle:
    """Return the bundle with these steps by Winograd's algorithm."""
    bundle, scratch = with_scratch(bundle, [choice.scratch for choice in choices])
    operators = tuple(dict.fromkeys((*bundle.operators, WINOGRAD)))
    steps = list(bundle.steps)
    for choice, value in zip(choices, scratch, strict=True):
        steps[choice.step] = with_winograd(steps[choice.step], operators.index(WINOGRAD), choice.record, value)
    return replace(bundle, operators=operators, steps=tuple(steps))


def _choices(bundle: Bundle, at: int, rates: Counted) -> list[TransformedWeights]:
    """Return the forms of a convolution; none if the algorithm does not compute it exactly."""
    step = bundle.steps[at]
    record = record_of(step)
    if not winograd.fits(record) or not winograd.is_exact(weights_of(bundle, step), constant(bundle, step, KERNEL_SUM)):
        return []
    sizes = (bundle.values[step.outputs[-1]].bytes, bundle.values[step.inputs[WEIGHTS]].bytes)
    plain = rates.work(CpuParams(CONVOLUTION, record, sizes, 0))
    return [
        TransformedWeights(
            at, step.instruction, own, winograd_bytes(own), (plain, rates.work(CpuParams(WINOGRAD, own, sizes, 0)))
        )
        for own in _forms(record)
    ]


def _forms(record: QuantizedConvolutionParams) -> Iterator[WinogradConvolutionParams]:
    """Yield the forms of a step: all channels at once, or in so many parts, or in groups with kept inputs."""
    whole = max(3, sum(winograd.groups(record.out_c)))
    sizes = {min(whole, 3 * -(-record.out_c // (3 * parts))) for parts in range(1, -(-record.out_c // 3) + 1)}
    own = WinogradConvolutionParams(*astuple(record))
    yield from (replace(own, channels=channels) for channels in sorted(sizes | {whole}))
    yield from (replace(own, channels=channels, keeps_tiles=1) for channels in (2, 3))
