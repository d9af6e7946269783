"""The arithmetic of recurrent layers (`lstm`, `gru`, `rnn`)."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import Array, Definition, Patterns, clipped, stored
from deuteron.operators.recurrent import GruParams, LstmParams, RnnParams, scratch_shapes
from deuteron.tflite.cortex_m.fixed_point import (
    Factor,
    divided_by_power,
    exponential_on_negative,
    one_minus_over_one_plus,
    one_over_one_plus,
    product,
    wrapped,
)

I64 = npt.NDArray[np.int64]

_ONE = 32767
_GATE_BITS = 3
"""Whole bits of the numbers before a gate's function."""


class _Layer:
    """The order of the sequence, and the products of all gates."""

    def __init__(self, p: LstmParams | GruParams | RnnParams, gates: int, arrays: Sequence[Array]) -> None:
        x, weights, starts = arrays
        self._p = p
        shape = (p.steps, p.batches) if p.time_major else (p.batches, p.steps)
        sequence = x.reshape(*shape, p.in_features)
        sequence = sequence if p.time_major else sequence.swapaxes(0, 1)
        split = gates * p.units * p.in_features
        # Products of int8 are exact in float64, which is fast.
        rows = weights[:split].reshape(gates * p.units, p.in_features).astype(np.float64)
        self._rows = weights[split:].reshape(gates * p.units, p.units).astype(np.float64)
        self._starts = starts.reshape(2, gates * p.units).astype(np.int64)
        sums = (sequence.astype(np.float64) @ rows.T).astype(np.int64) + self._starts[0]
        self._of_input = self._split(wrapped(sums[::-1] if p.reverse else sums))
        self._output = np.empty((p.steps, p.batches, p.units), np.int8)

    def of_input(self, step: int, gate: int, factor: Factor) -> I64:
        """The scaled and saturated sums over the input of a step."""
        return clipped(product(self._of_input[step, :, gate], factor)).astype(np.int64)

    def of_hidden(self, hidden: Array) -> I64:
        """The sums over the hidden states [batches, units]: [batches, gates, units]."""
        sums = (hidden.astype(np.float64) @ self._rows.T).astype(np.int64) + self._starts[1]
        return self._split(wrapped(sums))

    def _split(self, sums: I64) -> I64:
        return sums.reshape(*sums.shape[:-1], -1, self._p.units)

    def write(self, step: int, hidden: Array) -> None:
        """Set the output of a step."""
        self._output[self._p.steps - 1 - step if self._p.reverse else step] = hidden

    def output(self) -> Array:
        """The outputs of all steps, in the order of the sequence."""
        return self._output if self._p.time_major else self._output.swapaxes(0, 1)


def _narrow(p: LstmParams | GruParams | RnnParams, numbers: I64) -> Array:
    return stored(wrapped(product(numbers, (p.out_multiplier, p.out_shift)) + p.hidden_zp))


def _factors(p: LstmParams | GruParams, gate: int) -> tuple[Factor, Factor]:
    return (p.input_multipliers[gate], p.input_shifts[gate]), (p.hidden_multipliers[gate], p.hidden_shifts[gate])


def _added(a: I64, sums: I64, factor: Factor) -> I64:
    return clipped(wrapped(a + product(sums, factor))).astype(np.int64)


def _lstm(p: LstmParams, *arrays: Array) -> tuple[Array, Array, Array]:
    layer = _Layer(p, 4, arrays[:3])
    hidden, cells = (x.reshape(p.batches, p.units) for x in arrays[3:])
    cells = cells.astype(np.int64)
    most = (p.cell_clip, p.cell_clip) if p.cell_clip else (32768, 32767)
    for step in range(p.steps):
        sums = layer.of_hidden(hidden)
        enter, forget, new, leave = (
            _function(gate == 2, _added(layer.of_input(step, gate, of_x), sums[:, gate], of_h))
            for gate in range(4)
            for of_x, of_h in [_factors(p, gate)]
        )
        cells = divided_by_power(forget * cells, 15) + divided_by_power(enter * new, 15 + p.cell_bits)
        cells = cells.clip(-most[0], most[1])
        hidden = _narrow(p, leave * tanh(cells, p.cell_bits))
        layer.write(step, hidden)
    return np.zeros(4 * p.units, np.int16), cells.astype(np.int16), layer.output()


def _gru(p: GruParams, *arrays: Array) -> tuple[Array, Array, Array]:
    layer = _Layer(p, 3, arrays[:3])
    state = arrays[3].reshape(p.batches, p.units).astype(np.int64)
    hidden = _narrow(p, state)
    for step in range(p.steps):
        sums = layer.of_hidden(hidden)
        reset, update = (
            logistic(_added(layer.of_input(step, gate, of_x), sums[:, gate], of_h))
            for gate in range(2)
            for of_x, of_h in [_factors(p, gate)]
        )
        of_x, of_h = _factors(p, 2)
        of_state = clipped(product(sums[:, 2], of_h)).astype(np.int64)
        new = layer.of_input(step, 2, of_x) + divided_by_power(reset * of_state, 15)
        new = tanh(clipped(new).astype(np.int64), _GATE_BITS)
        state = divided_by_power(update * state, 15) + divided_by_power((_ONE - update) * new, 15 + p.state_bits)
        state = clipped(state).astype(np.int64)
        hidden = _narrow(p, state)
        layer.write(step, hidden)
    return np.zeros(4 * p.units, np.int16), state.astype(np.int16), layer.output()


def _rnn(p: RnnParams, *arrays: Array) -> tuple[Array, Array]:
    layer = _Layer(p, 1, arrays[:3])
    hidden = arrays[3].reshape(p.batches, p.units)
    for step in range(p.steps):
        a = layer.of_input(step, 0, (p.input_multiplier, p.input_shift))
        gate = _added(a, layer.of_hidden(hidden)[:, 0], (p.hidden_multiplier, p.hidden_shift))
        hidden = _narrow(p, np.maximum(gate, 0) if p.relu else tanh(gate, _GATE_BITS))
        layer.write(step, hidden)
    return np.zeros(p.units, np.int16), layer.output()


def _function(is_tanh: bool, numbers: I64) -> I64:
    return tanh(numbers, _GATE_BITS) if is_tanh else logistic(numbers)


def logistic(numbers: I64) -> I64:
    """1 / (1 + exp(-x)) in steps of 2^-15, of int16 numbers with three whole bits."""
    return _logistic_table()[numbers + 32768]


def tanh(numbers: I64, whole: int) -> I64:
    """Tanh in steps of 2^-15, of int16 numbers with `whole` whole bits."""
    return _tanh_table(whole)[numbers + 32768]


@cache
def _logistic_table() -> I64:
    x = np.arange(-32768, 32768)
    y = one_over_one_plus(exponential_on_negative(-np.abs(x), _GATE_BITS, 16), 16)
    return np.where(x == 0, 1 << 14, np.where(x > 0, y, _ONE - y))


@cache
def _tanh_table(whole: int) -> I64:
    x = np.arange(-32768, 32768)
    y = one_minus_over_one_plus(exponential_on_negative(-np.abs(x), whole + 1, 16), 16)
    return np.where(x == 0, 0, np.sign(x) * y)


def _scratch(p: LstmParams | GruParams | RnnParams) -> list[tuple[Sequence[int], torch.dtype]]:
    return [(shape, torch.int16) for shape in scratch_shapes(p)]


PATTERNS: Patterns = {}

DEFINITIONS: Mapping[str, Definition] = {
    "lstm": Definition(_lstm, rounds=False, scratch=_scratch),
    "gru": Definition(_gru, rounds=False, scratch=_scratch),
    "rnn": Definition(_rnn, rounds=False, scratch=_scratch),
}
