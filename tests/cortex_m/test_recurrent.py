"""Recurrent layers: their C functions give the bytes of their definitions in Python."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.frontend.cortex_m.custom_ops import library
from deuteron.operators.kernel_params import KernelParams
from deuteron.operators.recurrent import RECURRENT, GruParams, LstmParams, RnnParams

Layer = GruParams | LstmParams | RnnParams
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def factors(rng: np.random.Generator, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Multipliers and shifts; few shift to the left."""
    shifts = rng.integers(-13, 4 if rng.integers(8) == 0 else -5, count)
    return tuple(map(int, rng.integers(1 << 30, (1 << 31) - 1, count))), tuple(map(int, shifts))


def record(name: str, rng: np.random.Generator) -> Layer:
    """A random record."""
    batches, steps, features = (int(n) for n in rng.integers(1, (4, 6, 40)))
    units = int(rng.choice([1, 7, 16, 33, 70]))
    time_major, reverse, zero_point, bits = (int(n) for n in rng.integers((0, 0, -128, 0), (2, 2, 128, 7)))
    x, hidden = factors(rng, GATES[name]), factors(rng, GATES[name])
    out = int(rng.integers(1 << 30, (1 << 31) - 1))
    shape = batches, steps, features, units, time_major
    if name == "lstm":
        clip = int(rng.choice([0, 20000]))
        return LstmParams(*shape, zero_point, *x, *hidden, bits, clip, out, int(rng.integers(-24, -20)), reverse)  # pyright: ignore[reportArgumentType]
    shift = int(rng.integers(-9, -6))
    if name == "gru":
        return GruParams(*shape, reverse, zero_point, *x, *hidden, bits, out, shift)  # pyright: ignore[reportArgumentType]
    (a,), (b,), (c,), (d,) = *x, *hidden
    return RnnParams(*shape, reverse, zero_point, a, b, c, d, int(rng.integers(2)), out, shift)


def call(name: str, rng: np.random.Generator) -> tuple[Layer, list[Array], list[Array]]:
    """A record, inputs, and arrays like the written values."""
    p, gates = record(name, rng), GATES[name]

    def any_of(dtype: type[np.signedinteger], *shape: int) -> Array:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, int(limits.max) + 1, shape).astype(dtype)

    weights = any_of(np.int8, gates * p.units * (p.in_features + p.units))
    starts = rng.integers(-(1 << 16), 1 << 16, 2 * gates * p.units).astype(np.int32)
    states = {"lstm": (np.int8, np.int16), "gru": (np.int16,), "rnn": (np.int8,)}[name]
    inputs = [any_of(np.int8, p.batches * p.steps * p.in_features), weights, starts]
    inputs += [any_of(dtype, p.batches * p.units) for dtype in states]
    scratch = [np.zeros(p.units * (1 if name == "rnn" else 4), np.int16)]
    scratch += [np.zeros(p.batches * p.units, np.int16)] * (name != "rnn")
    return p, inputs, [*scratch, np.zeros(p.batches * p.steps * p.units, np.int8)]


def ran(
    c_operators: OperatorLibrary, name: str, p: KernelParams, inputs: list[Array], outputs: list[Array]
) -> list[Array]:
    return c_operators.call_all(f"dtn_cm_{name}", p.words(), inputs, [], outputs)


@pytest.mark.parametrize("name", GATES)
def test_the_c_function_gives_the_bytes_of_the_definition(c_operators: OperatorLibrary, name: str, seed: int) -> None:
    library.load()
    for i in range(40):
        p, inputs, outputs = call(name, np.random.default_rng([seed, i]))
        actual = ran(c_operators, name, p, inputs, outputs)
        tensors = [torch.from_numpy(x) for x in inputs]  # pyright: ignore[reportUnknownMemberType]
        wanted = getattr(torch.ops.deuteron, name)(*tensors, [len(outputs[-1])], [*p.words()])
        for index in range(1, len(outputs)):  # but for the gates, which only C writes
            np.testing.assert_array_equal(actual[index], wanted[index].flatten().numpy(), str(p))


@pytest.mark.parametrize("name", GATES)
def test_values_that_do_not_fit_the_record_are_refused(c_operators: OperatorLibrary, name: str) -> None:
    p, inputs, outputs = call(name, np.random.default_rng(1))
    for index in range(len(inputs)):
        for changed in (inputs[index][1:], inputs[index].astype(np.float32)):
            with pytest.raises(RefusedError):
                ran(c_operators, name, p, [*inputs[:index], changed, *inputs[index + 1 :]], outputs)
    for index in range(len(outputs)):
        with pytest.raises(RefusedError):
            ran(c_operators, name, p, inputs, [*outputs[:index], outputs[index][1:], *outputs[index + 1 :]])


BAD: dict[str, Callable[[Layer], Layer]] = {
    "time_major": lambda p: replace(p, time_major=2),
    "reverse": lambda p: replace(p, reverse=-1),
    "hidden_zp": lambda p: replace(p, hidden_zp=128),
    "out_shift": lambda p: replace(p, out_shift=-32),
    "out_multiplier": lambda p: replace(p, out_multiplier=-1),
    "units": lambda p: replace(p, units=0),
    "negative units": lambda p: replace(p, units=-p.units),
    "in_features": lambda p: replace(p, in_features=1 << 30),
}


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("what", BAD)
def test_numbers_out_of_range_are_refused(c_operators: OperatorLibrary, name: str, what: str) -> None:
    p, inputs, outputs = call(name, np.random.default_rng(2))
    with pytest.raises(RefusedError):
        ran(c_operators, name, BAD[what](p), inputs, outputs)


def test_the_table_has_these_operators() -> None:
    assert {operator.name for operator in RECURRENT} == set(GATES)
