"""Packs the weights of a bundle that need four bits only: two in a byte, and operators that read them.

The results stay the same, so this needs no option: weights of four bits come from `--weights-bits`, or from a TFLite
file with int4 weights.
"""

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, ElementType, Step, StepKind
from deuteron.board.row_dependencies import DEPTHWISE, LINEAR, PACKED
from deuteron.operators import packed_weights
from deuteron.operators.cortex_m import (
    QuantizedConvolutionParams,
    QuantizedLinearParams,
)

_WEIGHTS = 1
"""The index of the weights among the inputs of all these operators."""


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """A layer with packed weights.

    Attributes:
        step: its index in the bundle.
        instruction: number of the program's instruction.
        bytes: of its weights, packed.
        int8_bytes: of its weights as int8.
    """

    step: int
    instruction: int
    bytes: int
    int8_bytes: int


def packed(bundle: Bundle) -> Bundle:
    """Return the bundle with packed weights in all layers whose weights need four bits only."""
    readers: defaultdict[int, set[tuple[int, tuple[int, ...]]]] = defaultdict(set)
    users: defaultdict[int, set[int]] = defaultdict(set)
    for at, step in enumerate(bundle.steps):
        for index in (*step.inputs, *step.outputs):
            if (memory := bundle.values[index].memory) >= MEMORY_CONSTANT:
                users[memory].add(at)
        if (shape := _rows(bundle, step)) is not None:
            readers[bundle.values[step.inputs[_WEIGHTS]].memory].add((at, shape))
    values, constants, steps = list(bundle.values), list(bundle.constants), list(bundle.steps)
    functions = [bundle.operators[step.index] if step.kind is StepKind.OPERATOR else "" for step in steps]
    for memory, found in readers.items():
        layers, shapes = {at for at, _ in found}, {shape for _, shape in found}
        own = [index for index, value in enumerate(values) if value.memory == memory]
        if layers != users[memory] or len(shapes) != 1 or len(own) != 1:
            continue  # another step, or another form of layer, reads the same constant
        rows = np.frombuffer(constants[memory - MEMORY_CONSTANT], np.int8).reshape(*shapes)
        data = packed_weights.packed(rows)
        if data is None or data.nbytes >= rows.nbytes:
            continue
        constants[memory - MEMORY_CONSTANT] = data.tobytes()
        order = tuple(range(data.ndim))
        values[own[0]] = replace(
            values[own[0]], bytes=data.nbytes, type=ElementType.S8, shape=data.shape, dim_order=order
        )
        for at in layers:
            functions[at] = PACKED[functions[at]]
    operators = tuple(dict.fromkeys(function for function in functions if function))
    steps = [
        replace(step, index=operators.index(function)) if function else step
        for step, function in zip(steps, functions, strict=True)
    ]
    return replace(bundle, values=tuple(values), constants=tuple(constants), steps=tuple(steps), operators=operators)


def layers(bundle: Bundle) -> list[PackedWeights]:
    """Return the layers with packed weights."""
    found: list[PackedWeights] = []
    for at, step in enumerate(bundle.steps):
        if step.kind is StepKind.OPERATOR and bundle.operators[step.index] in PACKED.values():
            record = _record(bundle.operators[step.index], step)
            nbytes = bundle.values[step.inputs[_WEIGHTS]].bytes
            rows, elements = (
                (record.out_features, record.in_features)
                if isinstance(record, QuantizedLinearParams)
                else _size(record, depthwise=bundle.operators[step.index] == PACKED[DEPTHWISE])
            )
            found.append(PackedWeights(at, step.instruction, nbytes, rows * elements))
    return found


def _size(record: QuantizedConvolutionParams, *, depthwise: bool) -> tuple[int, int]:
    groups, rows, elements = packed_weights.rows_of(record, depthwise=depthwise)
    return groups * rows, elements


def _rows(bundle: Bundle, step: Step) -> tuple[int, ...] | None:
    """Return the shape of a layer's constant weights as groups, rows and elements; None if they cannot be packed."""
    if step.kind is not StepKind.OPERATOR or bundle.operators[step.index] not in PACKED:
        return None
    value = bundle.values[step.inputs[_WEIGHTS]]
    if (
        value.memory < MEMORY_CONSTANT
        or value.offset
        or value.bytes != len(bundle.constants[value.memory - MEMORY_CONSTANT])
    ):
        return None
    match _record(bundle.operators[step.index], step):
        case QuantizedLinearParams() as record:
            fits = record.has_kernel_sum == 1 and record.weight_offset == 0
            return (1, record.out_features, record.in_features) if fits else None
        case record:
            depthwise = bundle.operators[step.index] == DEPTHWISE
            fits = packed_weights.fits(record, depthwise=depthwise)
            return packed_weights.rows_of(record, depthwise=depthwise) if fits else None


def _record(function: str, step: Step) -> QuantizedConvolutionParams | QuantizedLinearParams:
    words = tuple(word - (word >> 31 << 32) for word in step.params)
    if function in (LINEAR, PACKED[LINEAR]):
        return QuantizedLinearParams.from_words(words)
    return QuantizedConvolutionParams.from_words(words)
