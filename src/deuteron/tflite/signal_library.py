"""Custom operators of TFLite Micro's signal library: their options, the shapes of their results, and their state.

The kernels of TFLite Micro keep the state in memory of their own. Here it is a variable tensor behind the operands that
the file has.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class Frames:
    """Overlapping frames of a stream.

    Attributes:
        rows: streams.
        count: frames of each call.
        size: samples of a frame.
        step: samples from one frame to the next.
    """

    rows: int
    count: int
    size: int
    step: int


def framer(operands: Operands) -> tuple[Frames, int, int]:
    """Return the frames of SignalFramer, the samples that it keeps, and the number of calls until frames are full."""
    *rows, samples = operands.shapes[0]
    size, step, prefill = (option(operands.op, name) for name in ("frame_size", "frame_step", "prefill"))
    if not 1 <= step <= min(size, samples) or samples % step:
        raise ShapeError(f"frames of {size} start every {step} of {samples} samples; a divisor up to {size} is allowed")
    frames = Frames(math.prod(rows), samples // step, size, step)
    kept = -(-size // step) - 1
    return (frames, size - step, 0) if prefill else (frames, kept * step, -(-kept // frames.count))


def overlap(operands: Operands) -> Frames:
    """Return the frames of SignalOverlapAdd."""
    *rows, count, size = operands.shapes[0]
    step = option(operands.op, "frame_step")
    if not 1 <= step <= size:
        raise ShapeError(f"frames of {size} samples with a step of {step}; 1 to {size} is allowed")
    return Frames(math.prod(rows), count, size, step)


def stacker(op: FlatOperator) -> tuple[int, int, int, int]:
    """Return the channels of SignalStacker, the frames before and behind the present one, and the step."""
    channels, left, right, step = (
        option(op, name) for name in ("num_channels", "stacker_left_context", "stacker_right_context", "stacker_step")
    )
    if min(channels, step) < 1 or min(left, right) < 0 or step > left + right + 1:
        raise ShapeError(f"{left + 1 + right} frames of {channels} with a step of {step}; 1 up to the first is allowed")
    return channels, left, right, step


def _delay(operands: Operands) -> list[Shape]:
    if (length := option(operands.op, "delay_length")) < 0:
        raise ShapeError(f"a delay of {length} samples; 0 or more is allowed")
    return [operands.shapes[0]]


def _framer(operands: Operands) -> list[Shape]:
    frames = framer(operands)[0]
    return [(*operands.shapes[0][:-1], frames.count, frames.size), ()]


def _overlap_add(operands: Operands) -> list[Shape]:
    frames = overlap(operands)
    return [(*operands.shapes[0][:-2], frames.count * frames.step)]


def _stacker(operands: Operands) -> list[Shape]:
    channels, left, right, _ = stacker(operands.op)
    return [(channels * (left + right + 1),), ()]


RULES: Mapping[str, Callable[[Operands], list[Shape]]] = MappingProxyType(
    {
        "SignalDelay": _delay,
        "SignalEnergy": _energy,
        "SignalFftAutoScale": _auto_scale,
        "SignalFilterBank": _filter_bank,
        "SignalFilterBankLog": _same,
        "SignalFilterBankSpectralSubtraction": _same,
        "SignalFilterBankSquareRoot": _same,
        "SignalFramer": _framer,
        "SignalIrfft": _irfft,
        "SignalOverlapAdd": _overlap_add,
        "SignalPCAN": _same,
        "SignalRfft": _rfft,
        "SignalStacker": _stacker,
        "SignalWindow": _same,
    }
)
"""Operator -> the shapes of its outputs."""


def _estimate(operands: Operands) -> list[State]:
    return [(operands.shapes[0], "UINT32")]


def _delay_state(operands: Operands) -> list[State]:
    _delay(operands)
    return [((math.prod(operands.shapes[0][:-1]), option(operands.op, "delay_length")), "INT16")]


def _framer_state(operands: Operands) -> list[State]:
    frames, kept, waits = framer(operands)
    return [((frames.rows, kept), "INT16"), ((waits,), "BOOL")]


def _overlap_state(operands: Operands) -> list[State]:
    frames = overlap(operands)
    return [((frames.rows, frames.size), "FLOAT32" if option(operands.op, "T") == 0 else "INT16")]


def _stacker_state(operands: Operands) -> list[State]:
    channels, left, right, step = stacker(operands.op)
    return [((1 + right + step,), "BOOL"), ((left + right, channels), "INT16")]


STATES: Mapping[str, Callable[[Operands], list[State]]] = MappingProxyType(
    {
        "SignalDelay": _delay_state,
        "SignalFilterBankSpectralSubtraction": _estimate,
        "SignalFramer": _framer_state,
        "SignalOverlapAdd": _overlap_state,
        "SignalStacker": _stacker_state,
    }
)
"""Operator -> its state; it has one operand in the file. A state of no elements is left out."""


def with_states(model: FlatModel) -> FlatModel:
    """Return the model with variable tensors behind the operand of each operator that keeps a state."""
    tensors, operators = [*model.tensors], [*model.operators]
    for number, op in enumerate(operators):
        if op.title not in STATES or len(op.inputs) != 1 or not op.outputs:
            continue
        try:
            states = STATES[op.title](Operands(op, [tensors[op.inputs[0]].shape], [None], ()))
        except (ShapeError, ValueError):  # its lowering refuses it
            continue
        name, first = tensors[op.outputs[0]].name, len(tensors)
        tensors += (
            FlatTensor(f"{name}/{at}", *state, is_variable=True) for at, state in enumerate(states) if 0 not in state[0]
        )
        operators[number] = replace(op, inputs=(*op.inputs, *range(first, len(tensors))))
    if len(tensors) == len(model.tensors):
        return model
    return replace(model, tensors=tuple(tensors), operators=tuple(operators))
