"""Packs the weights of a bundle that need four bits only: two in a byte, and operators that read them.

The results stay the same, so this needs no option: weights of four bits come from `--weights-bits`, or from a TFLite
file with int4 weights.
"""

from dataclasses import dataclass

from deuteron.board.bundle import Bundle, Step, StepKind
from deuteron.board.row_dependencies import DEPTHWISE, LINEAR, PACKED
from deuteron.board.weight_layouts import WEIGHTS, Weights, with_layout
from deuteron.operators import packed_weights
from deuteron.operators.cortex_m import (
    QuantizedConvolutionParams,
    QuantizedLinearParams,
)


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
    return with_layout(bundle, PACKED, _rows, _packed)


def _packed(shape: tuple[int, ...], weights: Weights) -> Weights | None:
    data = packed_weights.packed(weights.reshape(shape))
    return None if data is None or data.nbytes >= weights.nbytes else data


def layers(bundle: Bundle) -> list[PackedWeights]:
    """Return the layers with packed weights."""
    found: list[PackedWeights] = []
    for at, step in enumerate(bundle.steps):
        if step.kind is StepKind.OPERATOR and bundle.operators[step.index] in PACKED.values():
            record = _record(bundle.operators[step.index], step)
            nbytes = bundle.values[step.inputs[WEIGHTS]].bytes
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


def _rows(function: str, step: Step) -> tuple[int, ...] | None:
    """Return the shape of a layer's weights as groups, rows and elements; None if they cannot be packed."""
    match _record(function, step):
        case QuantizedLinearParams() as record:
            fits = record.has_kernel_sum == 1 and record.weight_offset == 0
            return (1, record.out_features, record.in_features) if fits else None
        case record:
            depthwise = function == DEPTHWISE
            fits = packed_weights.fits(record, depthwise=depthwise)
            return packed_weights.rows_of(record, depthwise=depthwise) if fits else None


def _record(function: str, step: Step) -> QuantizedConvolutionParams | QuantizedLinearParams:
    words = tuple(word - (word >> 31 << 32) for word in step.params)
    if function in (LINEAR, PACKED[LINEAR]):
        return QuantizedLinearParams.from_words(words)
    return QuantizedConvolutionParams.from_words(words)
