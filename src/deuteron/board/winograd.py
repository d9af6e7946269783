"""Chooses the convolutions of a bundle that run by Winograd's algorithm: its weights are eight times as large.

A convolution is a candidate if the algorithm computes it, no input makes a sum that it cannot compute, and the core
then takes fewer instructions. Those that save the most instructions per byte get the flash that there is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from deuteron.arch.cores import InnerWork
from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.row_dependencies import CONVOLUTION, WINOGRAD, Counted, CpuParams
from deuteron.operators import winograd
from deuteron.operators.cortex_m import QuantizedConvolutionParams, WinogradConvolutionParams, winograd_bytes

_WEIGHTS, _KERNEL_SUM = 1, 4


@dataclass(frozen=True, slots=True)
class LargerWeights:
    """A step with larger weights.

    Attributes:
        step: its index in the bundle.
        instruction: number of the program's instruction.
        weights: bytes of its weights before, and after.
        instructions: estimated instructions before, and after.
    """

    step: int
    instruction: int
    weights: tuple[int, int]
    instructions: tuple[int, int]

    @property
    def bytes(self) -> int:
        """Return the bytes of flash that it takes in addition."""
        return self.weights[1] - self.weights[0]

    @property
    def saved(self) -> int:
        """Return the instructions that it saves."""
        return self.instructions[0] - self.instructions[1]


def candidates(bundle: Bundle, rates: Counted) -> list[LargerWeights]:
    """Return the steps that are faster by Winograd's algorithm, those first that save the most per byte."""
    if rates.core.inner is not InnerWork.DSP:
        return []
    found = (each for at, step in enumerate(bundle.steps) if (each := _candidate(bundle, at, step, rates)))
    return sorted(found, key=lambda each: each.saved / each.bytes, reverse=True)


def within(choices: Sequence[LargerWeights], nbytes: int) -> list[LargerWeights]:
    """Return the choices that fit into the bytes together, in their order; one that does not fit is left out."""
    taken: list[LargerWeights] = []
    for choice in choices:
        if choice.bytes <= nbytes:
            taken.append(choice)
            nbytes -= choice.bytes
    return taken


def applied(bundle: Bundle, choices: Sequence[LargerWeights]) -> Bundle:
    """Return the bundle with these steps by Winograd's algorithm; their scratch is in an additional memory."""
    if not choices:
        return bundle
    values, constants, steps = list(bundle.values), list(bundle.constants), list(bundle.steps)
    operators = bundle.operators if WINOGRAD in bundle.operators else (*bundle.operators, WINOGRAD)
    scratch, used = len(bundle.memories) - 1, 0
    values = [replace(v, memory=v.memory + (scratch <= v.memory < MEMORY_CONSTANT)) for v in values]
    for choice in choices:
        step = bundle.steps[choice.step]
        record = _record(step)
        _, output = step.outputs
        transformed = winograd.transformed(_weights(bundle, step, record))
        constants.append(transformed.tobytes())
        shape = transformed.shape
        values.append(
            Value(MEMORY_CONSTANT + len(constants) - 1, 0, transformed.nbytes, ElementType.S16, shape, (0,), "weights")
        )
        size = winograd_bytes(record)
        values.append(Value(scratch, used, size, ElementType.U8, (size,), (0,), "scratch memory"))
        used += -(-size // ALIGNMENT) * ALIGNMENT
        inputs = (*step.inputs[:_WEIGHTS], len(values) - 2, *step.inputs[_WEIGHTS + 1 :])
        steps[choice.step] = replace(
            step, index=operators.index(WINOGRAD), inputs=inputs, outputs=(len(values) - 1, output)
        )
    own = Memory(used, "scratch memory of single steps")
    memories = (*bundle.memories[:scratch], own, *bundle.memories[scratch:])
    return _without_unread(replace(
        bundle, values=tuple(values), constants=tuple(constants), steps=tuple(steps), operators=operators,
        memories=memories,
    ))  # fmt: skip


def _without_unread(bundle: Bundle) -> Bundle:
    """Return the bundle without constants, and functions, that nothing uses."""
    ends = (*bundle.inputs, *bundle.outputs)
    used = sorted({*ends, *(i for step in bundle.steps for i in (*step.inputs, *step.outputs))})
    number = {index: at for at, index in enumerate(used)}
    kept = sorted(
        {value.memory - MEMORY_CONSTANT for value in _values(bundle, used) if value.memory >= MEMORY_CONSTANT}
    )
    place = {index: at for at, index in enumerate(kept)}
    functions = sorted({step.index for step in bundle.steps if step.kind is StepKind.OPERATOR})
    values = tuple(
        value
        if value.memory < MEMORY_CONSTANT
        else replace(value, memory=MEMORY_CONSTANT + place[value.memory - MEMORY_CONSTANT])
        for value in _values(bundle, used)
    )
    steps = tuple(
        replace(
            step,
            index=functions.index(step.index) if step.kind is StepKind.OPERATOR else step.index,
            inputs=tuple(number[i] for i in step.inputs),
            outputs=tuple(number[i] for i in step.outputs),
        )
        for step in bundle.steps
    )
    return replace(
        bundle,
        values=values,
        steps=steps,
        inputs=tuple(number[i] for i in bundle.inputs),
        outputs=tuple(number[i] for i in bundle.outputs),
        operators=tuple(bundle.operators[i] for i in functions),
        constants=tuple(bundle.constants[i] for i in kept),
    )


def _values(bundle: Bundle, indices: Sequence[int]) -> Iterator[Value]:
    return (bundle.values[index] for index in indices)


def _candidate(bundle: Bundle, at: int, step: Step, rates: Counted) -> LargerWeights | None:
    """Return the step as a choice; None if it cannot or need not run by Winograd's algorithm."""
    if step.kind is not StepKind.OPERATOR or bundle.operators[step.index] != CONVOLUTION:
        return None
    record = _record(step)
    if not winograd.fits(record) or any(bundle.values[step.inputs[i]].memory < MEMORY_CONSTANT for i in (1, 4)):
        return None
    sums = np.frombuffer(_constant(bundle, step, _KERNEL_SUM), np.int32)
    if not winograd.is_exact(_weights(bundle, step, record), sums):
        return None
    before = bundle.values[step.inputs[_WEIGHTS]].bytes
    output = bundle.values[step.outputs[-1]].bytes
    works = [
        rates.work(CpuParams(function, own, (output,), 0))
        for function, own in ((CONVOLUTION, _plain(record)), (WINOGRAD, record))
    ]
    choice = LargerWeights(at, step.instruction, (before, winograd.nbytes(record)), (works[0], works[1]))
    return choice if choice.saved > 0 else None


def _record(step: Step) -> WinogradConvolutionParams:
    return WinogradConvolutionParams.from_words(tuple(word - (word >> 31 << 32) for word in step.params))


def _plain(record: WinogradConvolutionParams) -> QuantizedConvolutionParams:
    return QuantizedConvolutionParams.from_words(record.words())


def _constant(bundle: Bundle, step: Step, index: int) -> bytes:
    value = bundle.values[step.inputs[index]]
    return bundle.constants[value.memory - MEMORY_CONSTANT][value.offset : value.offset + value.bytes]


def _weights(
    bundle: Bundle, step: Step, record: QuantizedConvolutionParams
) -> np.ndarray[tuple[int, ...], np.dtype[np.int8]]:
    data = _constant(bundle, step, _WEIGHTS)
    return np.frombuffer(data, np.int8).reshape(record.out_c, 3, 3, record.in_c)
