"""The Cortex-M linear layer and matrix product equal the wheel's Python definitions, and refuse what does not fit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cortex_m.convolutions import biases, clamp, extremes, factors, zero_point
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.operators.cortex_m import QuantizedBatchMatmulParams, QuantizedLinearParams

CALLS = 20
"""Random calls per seed."""

LINEAR = QuantizedLinearParams(3, 10, 6, 5, 0, -7, 1 << 30, -9, -128, 127, 1, 0)
MATMUL = QuantizedBatchMatmulParams(2, 3, 10, 5, 128, -127, 4, 1 << 30, -9)


def linear(
    c_operators: OperatorLibrary, p: QuantizedLinearParams, x: Array, weights: Array, addend: Array | None
) -> Array:
    """The output of the firmware."""
    inputs = (x, weights) if addend is None else (x, weights, addend)
    return c_operators.run("quantized_linear", inputs, p, np.full((*x.shape[:-1], p.out_features), 85, np.int8))


def expected_linear(p: QuantizedLinearParams, x: Array, weights: Array, addend: Array | None) -> Array:
    """The wheel's result."""
    tensor = None if addend is None else torch.from_numpy(addend)
    bias, kernel_sum = (tensor, None) if p.has_bias else (None, tensor)
    return torch.ops.cortex_m.quantized_linear(
        torch.from_numpy(x), torch.from_numpy(weights), bias, kernel_sum, p.in_offset, p.weight_offset, p.out_offset,
        [p.multiplier], [p.shift], p.act_max, p.act_min,
    ).numpy()  # fmt: skip


@pytest.mark.parametrize("addend", ["bias", "kernel_sum", "nothing"])
def test_linear(c_operators: OperatorLibrary, addend: str, seed: int) -> None:
    generator = np.random.default_rng([21, seed])
    for _ in range(CALLS):
        rows, inner, outer = (int(generator.integers(1, high)) for high in (6, 50, 12))
        multipliers, shifts = factors(generator, 1, inner)
        weight_offset = -zero_point(generator) if generator.integers(3) == 0 else 0
        p = QuantizedLinearParams(
            rows, inner, outer, -zero_point(generator), weight_offset, zero_point(generator), int(multipliers[0]),
            int(shifts[0]), *clamp(generator), int(addend == "bias"), int(addend == "kernel_sum"),
        )  # fmt: skip
        x, weights = extremes(generator, (1, rows, inner)), extremes(generator, (outer, inner))
        added = None if addend == "nothing" else biases(generator, outer, inner)
        if added is not None and addend == "kernel_sum":
            added //= 2  # with kernel sums the wheel adds in 64 bits: here nothing may overflow
        np.testing.assert_array_equal(
            linear(c_operators, p, x, weights, added), expected_linear(p, x, weights, added), str(p)
        )


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("weight_offset", [0, -127, 128])
def test_linear_with_the_largest_sums(c_operators: OperatorLibrary, rows: int, weight_offset: int) -> None:
    p = QuantizedLinearParams(rows, 32768, 2, 128, weight_offset, 0, (1 << 31) - 1, -24, -128, 127, 1, 0)
    bias = np.array([(1 << 31) - 1, -(1 << 31)], np.int32)
    for x_value in (-128, 127):
        for value in (-128, 127):
            x, weights = np.full((rows, 32768), x_value, np.int8), np.full((2, 32768), value, np.int8)
            np.testing.assert_array_equal(
                linear(c_operators, p, x, weights, bias), expected_linear(p, x, weights, bias)
            )


def test_matmul(c_operators: OperatorLibrary, seed: int) -> None:
    """The wheel sums in float32, exactly as long as sums stay below 2^24."""
    generator = np.random.default_rng([22, seed])
    for _ in range(CALLS):
        batches, rows, depth, columns = (int(generator.integers(1, high)) for high in (4, 6, 50, 12))
        multipliers, shifts = factors(generator, 1, depth)
        offsets = -zero_point(generator), -zero_point(generator) if generator.integers(2) else 0
        p = QuantizedBatchMatmulParams(
            batches, rows, depth, columns, *offsets, zero_point(generator), int(multipliers[0]), int(shifts[0])
        )
        a, b = extremes(generator, (batches, rows, depth)), extremes(generator, (batches, columns, depth))
        expected = torch.ops.cortex_m.quantized_batch_matmul(
            torch.from_numpy(a), p.a_offset, torch.from_numpy(b), p.b_offset, p.out_offset, p.multiplier, p.shift,
            torch.empty(0, dtype=torch.uint8),
        ).numpy()  # fmt: skip
        found = c_operators.run("quantized_batch_matmul", (a, b), p, np.full(expected.shape, 85, np.int8), [0])
        np.testing.assert_array_equal(found, expected, str(p))


def test_matmul_sums_whole_numbers(c_operators: OperatorLibrary) -> None:
    """Sums above 2^24, which the wheel's float32 rounds: the linear layer of the wheel has them exactly."""
    generator = np.random.default_rng(23)
    a, b = (generator.integers(64, 128, (1, 5, 4001)).astype(np.int8) for _ in range(2))
    p = QuantizedBatchMatmulParams(1, 5, 4001, 5, 127, 126, -9, 1 << 30, -18)
    same = QuantizedLinearParams(5, 4001, 5, 127, 126, -9, 1 << 30, -18, -128, 127, 0, 0)
    found = c_operators.run("quantized_batch_matmul", (a, b), p, np.zeros((1, 5, 5), np.int8), [0])
    np.testing.assert_array_equal(found[0], expected_linear(same, a[0], b[0], None))


def linear_values() -> tuple[Array, Array, Array, Array]:
    """Input, weights, bias and output of LINEAR."""
    generator = np.random.default_rng(24)
    x, weights = extremes(generator, (3, 10)), extremes(generator, (6, 10))
    return x, weights, np.arange(6, dtype=np.int32), np.zeros((3, 6), np.int8)


@pytest.mark.parametrize(
    "change",
    [
        *({field: value} for field in ("rows", "in_features", "out_features") for value in (0, -1, 2, 65536)),
        {"in_offset": 129}, {"in_offset": -128}, {"weight_offset": 129}, {"weight_offset": -128},
        {"out_offset": 128}, {"out_offset": -129}, {"multiplier": -1}, {"shift": 31}, {"shift": -63},
        {"act_min": -129}, {"act_max": 128}, {"act_min": 1, "act_max": 0}, {"has_bias": 0}, {"has_bias": 2},
        {"has_bias": -1}, {"has_kernel_sum": 1}, {"has_kernel_sum": -1}, {"has_bias": 2, "has_kernel_sum": -1},
    ],
    ids=str,
)  # fmt: skip
def test_linear_refuses_numbers(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    x, weights, bias, output = linear_values()
    c_operators.run("quantized_linear", (x, weights, bias), LINEAR, output)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("quantized_linear", (x, weights, bias), replace(LINEAR, **change), output)


def test_linear_refuses_other_values(c_operators: OperatorLibrary) -> None:
    x, weights, bias, output = linear_values()
    words = LINEAR.words()
    for inputs, scratch, to, given in (
        ((x, weights), (), output, words),
        ((x, weights, bias, bias), (), output, words),
        ((x.view(np.uint8), weights, bias), (), output, words),
        ((x, weights.view(np.uint8), bias), (), output, words),
        ((x, weights, bias.view(np.float32)), (), output, words),
        ((x[:2], weights, bias), (), output, words),
        ((x, weights[:5], bias), (), output, words),
        ((x, weights, bias[:5]), (), output, words),
        ((x, weights, bias), (), output[:2], words),
        ((x, weights, bias), (), output.view(np.uint8), words),
        ((x, weights, bias), (output.view(np.uint8),), output, words),
        ((x, weights, bias), (), output, words[:-1]),
        ((x, weights, bias), (), output, (*words, 0)),
    ):
        with pytest.raises(RefusedError, match="72"):
            c_operators.call("quantized_linear", given, inputs, scratch, to)


def test_linear_refuses_longer_sums(c_operators: OperatorLibrary) -> None:
    x = np.zeros((1, 32769), np.int8)
    p = replace(LINEAR, rows=1, in_features=32769, out_features=1, has_bias=0)
    with pytest.raises(RefusedError, match="72"):
        linear(c_operators, p, x, x, None)


@pytest.mark.parametrize(
    "change",
    [
        *({field: value} for field in ("batches", "rows", "depth", "columns") for value in (0, -1, 4, 65536)),
        {"a_offset": 129}, {"a_offset": -128}, {"b_offset": 129}, {"b_offset": -128}, {"out_offset": 128},
        {"out_offset": -129}, {"multiplier": -1}, {"shift": 31}, {"shift": -63},
    ],
    ids=str,
)  # fmt: skip
def test_matmul_refuses_numbers(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    a, b, output = np.zeros((2, 3, 10), np.int8), np.zeros((2, 5, 10), np.int8), np.zeros((2, 3, 5), np.int8)
    c_operators.run("quantized_batch_matmul", (a, b), MATMUL, output, [0])
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("quantized_batch_matmul", (a, b), replace(MATMUL, **change), output, [0])


def test_matmul_refuses_other_values(c_operators: OperatorLibrary) -> None:
    a, b, output = np.zeros((2, 3, 10), np.int8), np.zeros((2, 5, 10), np.int8), np.zeros((2, 3, 5), np.int8)
    words, none = MATMUL.words(), np.zeros(0, np.uint8)
    for inputs, scratch, to, given in (
        ((a,), (none,), output, words),
        ((a, b, b), (none,), output, words),
        ((a.view(np.uint8), b), (none,), output, words),
        ((a, b.view(np.uint8)), (none,), output, words),
        ((a[:1], b), (none,), output, words),
        ((a, b[:1]), (none,), output, words),
        ((a, b), (), output, words),
        ((a, b), (none.view(np.int8),), output, words),
        ((a, b), (none,), output[:1], words),
        ((a, b), (none,), output.view(np.uint8), words),
        ((a, b), (none,), output, words[:-1]),
        ((a, b), (none,), output, (*words, 0)),
    ):
        with pytest.raises(RefusedError, match="72"):
            c_operators.call("quantized_batch_matmul", given, inputs, scratch, to)
