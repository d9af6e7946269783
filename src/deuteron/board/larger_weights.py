"""Chooses the convolutions of a bundle that are faster with larger weights.

Winograd's algorithm has weights eight times as large. It is a candidate if it computes the convolution, no input makes
a sum that it cannot compute, and the core then takes fewer instructions. Interleaved weights of 16 bits are twice as
large, and need no unpacking. Forms that save the most instructions per byte get the flash that there is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from deuteron.arch.cores import InnerWork
from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Memory, Step, StepKind, Value
from deuteron.board.row_dependencies import CONVOLUTION, INTERLEAVED, WINOGRAD, Counted, CpuParams
from deuteron.operators import interleaved_weights, winograd
from deuteron.operators.cortex_m import (
    InterleavedConvolutionParams,
    QuantizedConvolutionParams,
    WinogradConvolutionParams,
    winograd_bytes,
)
from deuteron.operators.limits import round_up

WEIGHTS, KERNEL_SUM = 1, 4
"""Inputs of a convolution."""


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
    """Larger weights, and the steps that read them.

    Attributes:
        form: what the steps do.
        steps: their indices in the bundle: several if they share weights.
        instruction: number of the first one's instruction in the program.
        weights: bytes of the weights before, and after.
        instructions: estimated instructions of all steps before, and after.
    """

    form: Form
    steps: tuple[int, ...]
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
    found = (each for steps in layers(bundle) for each in _candidates(bundle, steps, rates))
    return sorted(found, key=lambda each: each.saved / each.bytes, reverse=True)


def within(choices: Sequence[LargerWeights], nbytes: int) -> list[LargerWeights]:
    """Return the choices that fit into the bytes together, in their order; one that does not fit is left out.

    Weights get another form where that saves more, and the bytes that it takes in addition are left.
    """
    taken: dict[tuple[int, ...], LargerWeights] = {}
    for choice in choices:
        before = taken.get(choice.steps)
        added = choice.bytes - (0 if before is None else before.bytes)
        if added <= nbytes and (before is None or choice.saved > before.saved):
            taken[choice.steps] = choice
            nbytes -= added
    return list(taken.values())


def applied(bundle: Bundle, choices: Sequence[LargerWeights]) -> Bundle:
    """Return the bundle with these steps in these forms; the scratch of Winograd's is in an additional memory."""
    if not choices:
        return bundle
    by_winograd = [at for choice in choices if choice.form is Form.WINOGRAD for at in choice.steps]
    records = {at: WinogradConvolutionParams(*astuple(record_of(bundle.steps[at]))) for at in by_winograd}
    bundle, added = with_scratch(bundle, map(winograd_bytes, records.values()))
    scratch = dict(zip(records, added, strict=True))
    values, constants, steps = list(bundle.values), list(bundle.constants), list(bundle.steps)
    operators = tuple(dict.fromkeys((*bundle.operators, *(choice.form.function for choice in choices))))
    for choice in choices:
        weights = weights_of(bundle, bundle.steps[choice.steps[0]])
        larger = winograd.transformed(weights) if choice.form is Form.WINOGRAD else _of_16_bits(weights)
        constants.append(larger.tobytes())
        memory, order = MEMORY_CONSTANT + len(constants) - 1, tuple(range(larger.ndim))
        values.append(Value(memory, 0, larger.nbytes, ElementType.S16, larger.shape, order, "weights"))
        read, index = len(values) - 1, operators.index(choice.form.function)
        for at in choice.steps:
            step = bundle.steps[at]
            inputs = (*step.inputs[:WEIGHTS], read, *step.inputs[WEIGHTS + 1 :])
            steps[at] = replace(step, index=index, inputs=inputs)
            if at in records:
                steps[at] = with_winograd(steps[at], index, records[at], scratch[at])
    return _without_unread(
        replace(bundle, values=tuple(values), constants=tuple(constants), steps=tuple(steps), operators=operators)
    )


def with_winograd(step: Step, index: int, record: WinogradConvolutionParams, scratch: int) -> Step:
    """Return a convolution by Winograd's algorithm: the index of the operator, its parameters and scratch memory."""
    words = tuple(word & 0xFFFFFFFF for word in record.words())
    return replace(step, index=index, params=words, outputs=(scratch, step.outputs[-1]))


def with_scratch(bundle: Bundle, sizes: Iterable[int]) -> tuple[Bundle, list[int]]:
    """Return the bundle with values of so many bytes in an additional memory, and their indices."""
    own, used = len(bundle.memories) - 1, 0
    values = [replace(v, memory=v.memory + (own <= v.memory < MEMORY_CONSTANT)) for v in bundle.values]
    first = len(values)
    for size in sizes:
        values.append(Value(own, used, size, ElementType.U8, (size,), (0,), "scratch memory"))
        used += round_up(size)
    memories = (*bundle.memories[:own], Memory(used, "scratch memory of single steps"), *bundle.memories[own:])
    return replace(bundle, values=tuple(values), memories=memories), list(range(first, len(values)))


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


def _values(bundle: Bundle, indices: Iterable[int]) -> Iterator[Value]:
    return (bundle.values[index] for index in indices)


def layers(bundle: Bundle) -> Iterator[tuple[int, ...]]:
    """Yield the convolutions that read the same weights, which nothing else reads."""
    readers: dict[int, list[int]] = {}
    for at, step in enumerate(bundle.steps):
        for memory in {value.memory for value in _values(bundle, step.inputs)}:
            readers.setdefault(memory, []).append(at)
    ends = {value.memory for value in _values(bundle, (*bundle.inputs, *bundle.outputs))}
    for memory, steps in readers.items():
        shapes = {_kernel(bundle, bundle.steps[at], memory) for at in steps}
        if memory >= MEMORY_CONSTANT and memory not in ends and len(shapes) == 1 and None not in shapes:
            yield tuple(steps)


def _kernel(bundle: Bundle, step: Step, memory: int) -> tuple[int, ...] | None:
    """Return the shape of the kernel of a convolution with these weights, and constant kernel sums; None of others."""
    if step.kind is not StepKind.OPERATOR or bundle.operators[step.index] != CONVOLUTION:
        return None
    sums = _values(bundle, step.inputs[KERNEL_SUM:])
    if bundle.values[step.inputs[WEIGHTS]].memory != memory or any(one.memory < MEMORY_CONSTANT for one in sums):
        return None
    record = record_of(step)
    return record.out_c, record.kernel_h, record.kernel_w


def _candidates(bundle: Bundle, steps: tuple[int, ...], rates: Counted) -> Iterator[LargerWeights]:
    """Yield the forms of weights in which the steps that read them are faster."""
    first, before = bundle.steps[steps[0]], bundle.values[bundle.steps[steps[0]].inputs[WEIGHTS]].bytes
    found: dict[Form, list[tuple[int, int, int]]] = {}
    for step in (bundle.steps[at] for at in steps):
        output, record = bundle.values[step.outputs[-1]].bytes, record_of(step)
        plain = rates.work(CpuParams(CONVOLUTION, record, (output, before), 0))
        for form, own, weights in _forms(bundle, step, record):
            work = rates.work(CpuParams(form.function, own, (output, weights), 0))
            found.setdefault(form, []).append((plain, work, weights))
    for form, costs in found.items():
        plain, work = sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)
        if len(costs) == len(steps) and work < plain:
            yield LargerWeights(form, steps, first.instruction, (before, costs[0][2]), (plain, work))


def _forms(
    bundle: Bundle, step: Step, record: QuantizedConvolutionParams
) -> Iterator[tuple[Form, QuantizedConvolutionParams, int]]:
    """Yield the forms that a convolution can have, each with its record, and bytes of its weights."""
    if interleaved_weights.fits(record):
        own = InterleavedConvolutionParams.from_words(record.words())
        yield Form.S16, own, interleaved_weights.bytes_of_16_bits(record)
    if winograd.fits(record) and winograd.is_exact(weights_of(bundle, step), constant(bundle, step, KERNEL_SUM)):
        yield Form.WINOGRAD, WinogradConvolutionParams(*astuple(record)), winograd.nbytes(record)


def record_of(step: Step) -> QuantizedConvolutionParams:
    """Return the parameters of a convolution."""
    return QuantizedConvolutionParams.from_words(tuple(word - (word >> 31 << 32) for word in step.params))


def _of_16_bits(weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int16]:
    """Return weights [out_c, kernel_h, kernel_w, in_c] interleaved."""
    channels, rows = weights.shape[:2]
    return interleaved_weights.of_16_bits(interleaved_weights.interleaved(weights.reshape(channels, rows, -1)))


def constant(bundle: Bundle, step: Step, index: int) -> npt.NDArray[np.int32]:
    """Return the numbers of a constant input of a step."""
    return np.frombuffer(_bytes(bundle, step, index), np.int32)


def weights_of(bundle: Bundle, step: Step) -> npt.NDArray[np.int8]:
    """Return the weights of a convolution [out_c, kernel_h, kernel_w, in_c / groups]."""
    record = record_of(step)
    data = np.frombuffer(_bytes(bundle, step, WEIGHTS), np.int8)
    return data.reshape(record.out_c, record.kernel_h, record.kernel_w, -1)


def _bytes(bundle: Bundle, step: Step, index: int) -> bytes:
    value = bundle.values[step.inputs[index]]
    return bundle.constants[value.memory - MEMORY_CONSTANT][value.offset : value.offset + value.bytes]
