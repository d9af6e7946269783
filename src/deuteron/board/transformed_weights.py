"""Chooses the convolutions of a bundle that run by Winograd's algorithm with weights that each run transforms.

The constants stay as they are. The transformed weights take scratch memory: what the plan of a program has free while
the step runs. With little of it, fewer channels are computed at a time, and inputs are transformed again for the next.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, StepKind
from deuteron.board.larger_weights import (
    KERNEL_SUM,
    WEIGHTS,
    constant,
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
            "scratch": self.scratch,
            "instructions": self.instructions,
        }


def chosen(bundle: Bundle, rates: Counted, free: Mapping[int, int]) -> list[TransformedWeights]:
    """Return the steps that are faster so, each in the form that is the fastest within its free bytes."""
    found: list[TransformedWeights] = []
    for at, plain, forms in _candidates(bundle, rates):
        step = bundle.steps[at]
        weights, output = bundle.values[step.inputs[WEIGHTS]].bytes, bundle.values[step.outputs[-1]].bytes
        made: list[TransformedWeights] = []
        for own in forms:
            scratch = winograd_bytes(own)
            if scratch <= free[at]:
                work = rates.work(CpuParams(WINOGRAD, own, (output, weights), 0))
                made.append(TransformedWeights(at, step.instruction, own, scratch, (plain, work)))
        fastest = min(made, key=lambda choice: (choice.instructions[1], choice.scratch), default=None)
        if fastest is not None and fastest.saved > 0:
            found.append(fastest)
    return found


def applied(bundle: Bundle, choices: Sequence[TransformedWeights]) -> Bundle:
    """Return the bundle with these steps by Winograd's algorithm."""
    bundle, scratch = with_scratch(bundle, [choice.scratch for choice in choices])
    operators = tuple(dict.fromkeys((*bundle.operators, WINOGRAD)))
    steps = list(bundle.steps)
    for choice, value in zip(choices, scratch, strict=True):
        steps[choice.step] = with_winograd(steps[choice.step], operators.index(WINOGRAD), choice.record, value)
    return replace(bundle, operators=operators, steps=tuple(steps))


def _candidates(bundle: Bundle, rates: Counted) -> Iterator[tuple[int, int, list[WinogradConvolutionParams]]]:
    """Yield the steps that Winograd's algorithm computes exactly, their instructions, and the forms they can have."""
    for at, step in enumerate(bundle.steps):
        if step.kind is not StepKind.OPERATOR or bundle.operators[step.index] != CONVOLUTION:
            continue
        record = record_of(step)
        read = [bundle.values[i] for i in step.inputs[WEIGHTS:]]
        if not winograd.fits(record) or any(value.memory < MEMORY_CONSTANT for value in read):
            continue
        if winograd.is_exact(weights_of(bundle, step), constant(bundle, step, KERNEL_SUM)):
            sizes = (bundle.values[step.outputs[-1]].bytes, read[0].bytes)
            yield at, rates.work(CpuParams(CONVOLUTION, record, sizes, 0)), list(_forms(record))


def _forms(record: QuantizedConvolutionParams) -> Iterator[WinogradConvolutionParams]:
    """Yield the forms of a step: all channels at once, or in so many parts, or in groups with kept inputs."""
    whole = max(3, sum(winograd.groups(record.out_c)))
    sizes = {min(whole, 3 * -(-record.out_c // (3 * parts))) for parts in range(1, -(-record.out_c // 3) + 1)}
    own = WinogradConvolutionParams(*astuple(record))
    yield from (replace(own, channels=channels) for channels in sorted(sizes | {whole}))
    yield from (replace(own, channels=channels, keeps_tiles=1) for channels in (2, 3))
