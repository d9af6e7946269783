"""UNIDIRECTIONAL_SEQUENCE_LSTM of int16, which TFLite Micro has and LiteRT lacks, against its definition."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests import full
from tests.cortex_m.operator_library import OperatorLibrary, RefusedError
from tests.tflite.cortex_m import recurrent_models
from tests.tflite.cortex_m.models import Rng, f32
from tests.tflite.cortex_m.running import random_inputs, run
from tests.tflite.cortex_m.test_recurrent import changed, operand_of, run_call

from deuteron.arch.cores import InnerWork
from deuteron.errors import UnsupportedError
from deuteron.operators import catalogue
from deuteron.operators.recurrent import LstmS16Params
from deuteron.tflite.cortex_m import Constant, lower
from deuteron.tflite.cortex_m.fixed_point import Factor, product
from deuteron.tflite.flat_model import FlatModel
from deuteron.tflite.quantization import Quant

CASES = int(os.environ.get("DEUTERON_TFLITE_CASES", "4"))
HALF = 1 << 30

Array = npt.NDArray[Any]


@pytest.fixture(scope="module", params=full.first([InnerWork.PORTABLE, InnerWork.DSP], 1))
def c_operators(request: pytest.FixtureRequest) -> OperatorLibrary:
    """The C operators with each kind of inner loops that this machine compiles."""
    return OperatorLibrary(request.param)


def lstm(rng: Rng) -> FlatModel:
    """An LSTM whose activations are int16 and whose biases are int64."""
    source = recurrent_models.lstm(rng)
    x, hidden = (Quant((f32(10 ** rng.uniform(*ends)),), (0,)) for ends in ((-5, -3.2), (-5, -3)))
    source = changed(source, 0, dtype="INT16", quant=x)
    source = changed(source, 18, dtype="INT16", quant=hidden)
    for position in range(12, 16):
        biases = rng.integers(-500_000, 500_001, source.tensors[source.operators[0].inputs[position]].shape)
        source = changed(source, position, dtype="INT64", data=biases.astype(np.int64).tobytes())
    (op,) = source.operators
    tensors = [*source.tensors]
    tensors[op.outputs[0]] = replace(tensors[op.outputs[0]], dtype="INT16", quant=hidden)
    return replace(source, tensors=tuple(tensors), operators=(replace(op, intermediates=()),))


def saturated(values: Array) -> Array:
    return np.clip(values, -32768, 32767)


def sigmoid(table: Array, numbers: Array, bits: int) -> Array:
    """The table's value of numbers in steps of 1/12288, with lines between its entries of 2^`bits` steps."""
    size = np.abs(numbers)
    place = np.minimum(size >> bits, 254)
    line = (table[place] << bits) + (size & ((1 << bits) - 1)) * (table[place + 1] - table[place])
    return np.where(size >> bits >= 255, (0x7FFF << 10) if bits == 9 else (0xFFFF << 8), line)


def logistic(table: Array, numbers: Array) -> Array:
    value = sigmoid(table, numbers, 9)
    return np.where(numbers >= 0, value + 512, (1 << 25) - value + 511) >> 10


def tanh(table: Array, numbers: Array) -> Array:
    value = sigmoid(table, numbers, 8) - (1 << 23)
    return np.where(numbers >= 0, value + 128, -value + 127) >> 8


def scaled(sums: Array, multiplier: int, shift: int) -> Array:
    """Sums by a multiplier of 15 bits, rounded once, ties up, and saturated."""
    reduced = (multiplier + (1 << 15)) >> 16 if multiplier < 0x7FFF0000 else 0x7FFF
    return saturated((sums * reduced + (1 << (14 - shift))) >> (15 - shift))


class Definition:
    """The layer step by step; states start with zeros."""

    def __init__(self, source: FlatModel) -> None:
        (call,) = lower(source, 0)
        assert isinstance(call.params, LstmS16Params)
        self.p = p = call.params
        weights, biases, self.table = (
            operand.array.astype(np.int64) for operand in call.inputs[1:] if isinstance(operand, Constant)
        )
        self.of_input, self.of_hidden = np.split(weights, [4 * p.units * p.in_features])
        self.biases = biases.reshape(4, p.units)
        self.hidden = np.zeros((p.batches, p.units), np.int64)
        self.cells = self.hidden.copy()

    def run(self, x: Array) -> Array:
        steps = x if self.p.time_major else np.swapaxes(x, 0, 1)
        found = np.stack([self._step(step.astype(np.int64)) for step in steps])
        return (found if self.p.time_major else np.swapaxes(found, 0, 1)).astype(np.int16)

    def _step(self, x: Array) -> Array:
        p, table = self.p, self.table
        gates = [self._gate(gate, x) for gate in range(4)]
        inputs, forget, output = (logistic(table, 3 * gates[gate]) for gate in (0, 1, 3))
        kept = self._product(forget, self.cells, (HALF, -14))
        added = self._product(inputs, tanh(table, 3 * gates[2]), (HALF, -14 - p.cell_bits))
        clip = p.cell_clip or 32768
        self.cells = np.clip(saturated(kept + added), -clip, min(clip, 32767))
        left, right = max(p.cell_bits - 3, 0), max(3 - p.cell_bits, 0)
        numbers = (self.cells * (3 << left) + ((1 << right) >> 1)) >> right
        self.hidden = self._product(tanh(table, numbers), output, (p.out_multiplier, p.out_shift))
        return self.hidden

    def _gate(self, gate: int, x: Array) -> Array:
        p = self.p
        of_input = x @ self.of_input.reshape(4, p.units, p.in_features)[gate].T + self.biases[gate]
        of_hidden = self.hidden @ self.of_hidden.reshape(4, p.units, p.units)[gate].T
        a = scaled(of_input, p.input_multipliers[gate], p.input_shifts[gate])
        return saturated(a + scaled(of_hidden, p.hidden_multipliers[gate], p.hidden_shifts[gate]))

    @staticmethod
    def _product(a: Array, b: Array, by: Factor) -> Array:
        return saturated(product(a * b, by))


def test_streams_equal_the_definition(c_operators: OperatorLibrary) -> None:
    for case in range(CASES):
        rng = np.random.default_rng(case)
        source = lstm(rng)
        definition, states = Definition(source), dict[int, Any]()
        for _ in range(10):
            inputs = random_inputs(source, rng)
            (found,) = run(c_operators, source, inputs, states)
            np.testing.assert_array_equal(found, definition.run(inputs[0]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", 0),
        ("in_features", 0),
        ("in_features", -1),
        ("steps", 1 << 20),
        ("hidden_zp", 1),
        ("cell_bits", 7),
        ("cell_clip", 40000),
        ("time_major", 2),
        ("input_shifts", (15, 0, 0, 0)),
    ],
)
def test_the_c_function_checks_its_record(c_operators: OperatorLibrary, field: str, value: object) -> None:
    source = lstm(np.random.default_rng(0))
    (call,) = lower(source, 0)
    assert isinstance(call.params, LstmS16Params)
    changes: dict[str, Any] = {field: value}
    with pytest.raises(RefusedError):
        run_call(c_operators, source, replace(call.params, **changes).words())


def test_a_damaged_table_has_defined_results(c_operators: OperatorLibrary) -> None:
    """The library ends a test whose integers overflow."""
    source = lstm(np.random.default_rng(0))
    (call,) = lower(source, 0)
    values = [operand_of(source, each) for each in (*call.inputs, *call.outputs)]
    scratch = [np.zeros(count, dtype) for count, dtype in catalogue.scratch(call.operator, call.params)]
    for number in (1 << 23, np.iinfo(np.int32).max):
        values[3] = np.full_like(values[3], number)
        c_operators.call_all(call.operator.symbol, call.params.words(), values[:4], scratch, values[4:])


def test_a_zero_point_of_int16_is_refused() -> None:
    source = changed(lstm(np.random.default_rng(0)), 18, quant=Quant((0.5,), (5,)))
    with pytest.raises(UnsupportedError) as caught:
        lower(source, 0)
    assert str(caught.value).startswith(
        "operator 0 (UNIDIRECTIONAL_SEQUENCE_LSTM): tensor `hidden` has the zero point 5; 0 is allowed"
    )


def test_weights_whose_scales_are_too_large_are_refused() -> None:
    source = changed(lstm(np.random.default_rng(0)), 1, quant=Quant((65536.0,), (0,)))
    with pytest.raises(UnsupportedError) as caught:
        lower(source, 0)
    assert "times those of its gates; 2^14 is allowed" in str(caught.value)
