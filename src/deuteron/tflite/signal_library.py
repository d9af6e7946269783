"""Custom operators of TFLite Micro's signal library: their options, the shapes of their results, and their state.

The kernels of TFLite Micro keep the state in memory of their own. Here it is a variable tensor behind the operands that
the file has.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from deuteron.tflite.custom_options import options_of
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.operands import Operands, Shape, ShapeError

State = tuple[Shape, str]
"""Shape and type of a variable tensor."""


def option(op: FlatOperator, name: str) -> int:
    """Return an option as a whole number.

    Raises:
        ShapeError: the operator has no such option.
    """
    value = (options_of(op.custom_options) or {}).get(name)
    if not isinstance(value, int):
        raise ShapeError(f"its options have no number `{name}`")
    return int(value)


def _same(operands: Operands) -> list[Shape]:
    return [operands.shapes[0]] * len(operands.op.outputs)


def _auto_scale(operands: Operands) -> list[Shape]:
    return [operands.shapes[0], ()]


def _rfft(operands: Operands) -> list[Shape]:
    return [(*operands.shapes[0][:-1], option(operands.op, "fft_length") + 2)]


def _irfft(operands: Operands) -> list[Shape]:
    return [(*operands.shapes[0][:-1], option(operands.op, "fft_length"))]


def _energy(operands: Operands) -> list[Shape]:
    return [(operands.shapes[0][0] // 2,)]


def _filter_bank(operands: Operands) -> list[Shape]:
    return [(option(operands.op, "num_channels"),)]


RULES: Mapping[str, Callable[[Operands], list[Shape]]] = MappingProxyType(
    {
        "SignalEnergy": _energy,
        "SignalFftAutoScale": _auto_scale,
        "SignalFilterBank": _filter_bank,
        "SignalFilterBankLog": _same,
        "SignalFilterBankSpectralSubtraction": _same,
        "SignalFilterBankSquareRoot": _same,
        "SignalIrfft": _irfft,
        "SignalPCAN": _same,
        "SignalRfft": _rfft,
        "SignalWindow": _same,
    }
)
"""Operator -> the shapes of its outputs."""


def _estimate(operands: Operands) -> list[State]:
    return [(operands.shapes[0], "UINT32")]


STATES: Mapping[str, Callable[[Operands], list[State]]] = MappingProxyType(
    {"SignalFilterBankSpectralSubtraction": _estimate}
)
"""Operator -> its state; it has one operand in the file."""


def with_states(model: FlatModel) -> FlatModel:
    """Return the model with variable tensors behind the operand of each operator that keeps a state."""
    tensors, operators = [*model.tensors], [*model.operators]
    for number, op in enumerate(operators):
        if op.title not in STATES or len(op.inputs) != 1 or not op.outputs:
            continue
        try:
            states = STATES[op.title](Operands(op, [tensors[op.inputs[0]].shape], [None], ()))
        except (ShapeError, IndexError):  # its lowering refuses it
            continue
        name, first = tensors[op.outputs[0]].name, len(tensors)
        tensors += (FlatTensor(f"{name}/{at}", *state, is_variable=True) for at, state in enumerate(states))
        operators[number] = replace(op, inputs=(*op.inputs, *range(first, len(tensors))))
    if len(tensors) == len(model.tensors):
        return model
    return replace(model, tensors=tuple(tensors), operators=tuple(operators))
