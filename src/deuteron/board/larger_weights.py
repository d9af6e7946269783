"""Chooses the convolutions of a bundle that are faster with larger weights.

Winograd's algorithm has weights eight times as large. It is a candidate if it computes the convolution, no input makes
a sum that it cannot compute, and the core then takes fewer instructions. Interleaved weights of 16 bits are twice as
large, and need no unpacking. Forms that save the most instructions per byte get the flash that there is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from deuteron.arch.cores import InnerWork
from deuteron.board.bundle import ALIGNMENT, MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.row_dependencies import CONVOLUTION, INTERLEAVED, WINOGRAD, Counted, CpuParams
from deuteron.operators import interleaved_weights, winograd
from deuteron.operators.cortex_m import (
    InterleavedConvolutionParams,
    QuantizedConvolutionParams,
    WinogradConvolutionParams,
    winograd_bytes,
)
from deuteron.operators.kernel_params import KernelParams

_WEIGHTS, _KERNEL_SUM = 1, 4


class Form(StrEnum):
    """Forms of a step with larger weights."""

    WINOGRAD = "Winograd's algorithm"
    S16 = "weights of 16 bits"

    @property
    def function(self) -> str:
        """Return the operator in C."""
        return WINOGRAD if self is Form.WINOGRAD else INTERLEAVED[CONVOLUTION]


@dataclass(frozen=True, slots=True)
class LargerWeights:
    """A step with larger weights.

    Attributes:
        form: what it does.
        step: its index in the bundle.
        instruction: number of the program's instruction.
        weights: bytes of its weights before, and after.
        instructions: estimated instructions before, and after.
    """

    form: Form
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
    """Return the forms in which steps are faster, those first that save the most per byte."""
    if rates.core.inner is not InnerWork.DSP:
        return []
    found = (each for at, step in enumerate(bundle.steps) for each in _candidates(bundle, at, step, rates))
    return sorted(found, key=lambda each: each.saved / each.bytes, reverse=True)


def within(choices: Sequence[LargerWeights], nbytes: int) -> list[LargerWeights]:
    """Return the choices that fit into the bytes together, in their order; one that does not fit is left out.

    A step gets another form where that saves more, and the bytes that it takes in addition are left.
    """
    taken: dict[int, LargerWeights] = {}
    for choice in choices:
        before = taken.get(choice.step)
        added = choice.bytes - (0 if before is None else before.bytes)
        if added <= nbytes and (before is None or choice.saved > before.saved):
            taken[choice.step] = choice
            nbytes -= added
    return list(taken.values())


def applied(bundle: Bundle, choices: Sequence[LargerWeights]) -> Bundle:
    """Return the bundle with these steps in these forms; the scratch of Winograd's is in an additional memory."""
    if not choices:
        return bundle
    values, constants, steps = list(bundle.values), list(bundle.constants), list(bundle.steps)
    operators = tuple(dict.fromkeys((*bundle.operators, *(choice.form.function for choice in choices))))
    scratch, used = len(bundle.memories) - 1, 0
    values = [replace(v, memory=v.memory + (scratch <= v.memory < MEMORY_CONSTANT)) for v in values]
    for choice in choices:
        step = bundle.steps[choice.step]
        record = _record(step)
        weights = _weights(bundle, step, record)
        larger = winograd.transformed(weights) if choice.form is Form.WINOGRAD else _of_16_bits(weights)
        constants.append(larger.tobytes())
        memory, order = MEMORY_CONSTANT + len(constants) - 1, tuple(range(larger.ndim))
        values.append(Value(memory, 0, larger.nbytes, ElementType.S16, larger.shape, order, "weights"))
        inputs = (*step.inputs[:_WEIGHTS], len(values) - 1, *step.inputs[_WEIGHTS + 1 :])
        outputs = step.outputs
        if choice.form is Form.WINOGRAD:
            size = winograd_bytes(record)
            values.append(Value(scratch, used, size, ElementType.U8, (size,), (0,), "scratch memory"))
            used += -(-size // ALIGNMENT) * ALIGNMENT
            outputs = (len(values) - 1, outputs[-1])
        index = operators.index(choice.form.function)
        steps[choice.step] = replace(step, index=index, inputs=inputs, outputs=outputs)
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


def _candidates(bundle: Bundle, at: int, step: Step, rates: Counted) -> Iterator[LargerWeights]:
    """Yield the forms in which a step is faster."""
    if step.kind is not StepKind.OPERATOR or bundle.operators[step.index] != CONVOLUTION:
        return
    record = _record(step)
    if any(
        bundle.values[step.inputs[i]].memory < MEMORY_CONSTANT
        for i in (_WEIGHTS, *range(_KERNEL_SUM, len(step.inputs)))
    ):
        return
    before = bundle.values[step.inputs[_WEIGHTS]].bytes
    output = bundle.values[step.outputs[-1]].bytes

    def work(function: str, own: KernelParams, weights: int) -> int:
        return rates.work(CpuParams(function, own, (output, weights), 0))

    plain = work(CONVOLUTION, record, before)
    for form, own, weights in _forms(bundle, step, record):
        choice = LargerWeights(
            form, at, step.instruction, (before, weights), (plain, work(form.function, own, weights))
        )
        if choice.saved > 0:
            yield choice


def _forms(
    bundle: Bundle, step: Step, record: QuantizedConvolutionParams
) -> Iterator[tuple[Form, QuantizedConvolutionParams, int]]:
    """Yield the forms that a convolution can have, each with its record, and bytes of its weights."""
    if interleaved_weights.fits(record):
        own = InterleavedConvolutionParams.from_words(record.words())
        yield Form.S16, own, interleaved_weights.bytes_of_16_bits(record)
    if winograd.fits(record):
        sums = np.frombuffer(_constant(bundle, step, _KERNEL_SUM), np.int32)
        if winograd.is_exact(_weights(bundle, step, record), sums):
            yield Form.WINOGRAD, WinogradConvolutionParams.from_words(record.words()), winograd.nbytes(record)


def _record(step: Step) -> QuantizedConvolutionParams:
    return QuantizedConvolutionParams.from_words(tuple(word - (word >> 31 << 32) for word in step.params))


def _of_16_bits(weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int16]:
    """Return weights [out_c, kernel_h, kernel_w, in_c] interleaved."""
    channels, rows = weights.shape[:2]
    return interleaved_weights.of_16_bits(interleaved_weights.interleaved(weights.reshape(channels, rows, -1)))


def _constant(bundle: Bundle, step: Step, index: int) -> bytes:
    value = bundle.values[step.inputs[index]]
    return bundle.constants[value.memory - MEMORY_CONSTANT][value.offset : value.offset + value.bytes]


def _weights(bundle: Bundle, step: Step, record: QuantizedConvolutionParams) -> npt.NDArray[np.int8]:
    data = _constant(bundle, step, _WEIGHTS)
    return np.frombuffer(data, np.int8).reshape(record.out_c, record.kernel_h, record.kernel_w, -1)
