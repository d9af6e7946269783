"""Operators with interleaved weights have the bytes of those with the same weights in rows."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from tests.cortex_m.convolutions import clamp, extremes, factors, random_conv, zero_point
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.operators.cortex_m import (
    InterleavedConvolutionParams,
    InterleavedLinearParams,
    QuantizedConvolutionParams,
    QuantizedLinearParams,
)
from deuteron.operators.interleaved_weights import interleaved, of_16_bits

CALLS = 40
"""Random calls per seed."""


def check_convolution(c_operators: OperatorLibrary, p: QuantizedConvolutionParams, inputs: tuple[Array, ...]) -> None:
    """Compare both operators; inputs are those of quantized_conv2d."""
    x, weights, *others = inputs
    pairs = interleaved(weights.astype(np.int8).reshape(p.out_c, p.kernel_h, -1))
    output = np.full((p.batches, p.out_h, p.out_w, p.out_c), 85, np.int8)
    own = InterleavedConvolutionParams(*astuple(p))
    expected = c_operators.run("quantized_conv2d", inputs, p, output, [0])
    for stored in (pairs, of_16_bits(pairs)):
        found = c_operators.run("interleaved_conv2d", (x, stored, *others), own, output, [0])
        np.testing.assert_array_equal(found, expected, str(p))


def random_inputs(generator: np.random.Generator, p: QuantizedConvolutionParams) -> tuple[Array, ...]:
    depth = p.kernel_h * p.kernel_w * p.in_c
    sums = generator.integers(-9000, 9000, p.out_c).astype(np.int32)
    x = extremes(generator, (p.batches, p.in_h, p.in_w, p.in_c))
    weights = extremes(generator, (p.out_c, p.kernel_h, p.kernel_w, p.in_c))
    return x, weights, *factors(generator, p.out_c, depth), sums


def test_random_convolutions(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([51, seed])
    for _ in range(CALLS):
        p = replace(random_conv(generator).params, groups=1, has_bias=0, has_kernel_sum=1)
        p = replace(
            p, in_c=int(generator.choice([1, 2, 3, 4, 7, 8, 16, 20])), out_c=2 * int(generator.integers(1, 20)),
            batches=int(generator.integers(1, 3)),
        )  # fmt: skip
        check_convolution(c_operators, p, random_inputs(generator, p))


def usual(shape: tuple[int, int, int], kernel: tuple[int, int], stride: int, pads: tuple[int, int]) -> (
    QuantizedConvolutionParams
):  # fmt: skip
    """A convolution of whole int8 limits."""
    (in_h, in_w, in_c), (pad_h, pad_w) = shape, pads
    out_h, out_w = ((n + 2 * p - k) // stride + 1 for n, k, p in zip((in_h, in_w), kernel, pads, strict=True))
    return QuantizedConvolutionParams(
        1, in_h, in_w, in_c, out_h, out_w, 6, 1, *kernel, stride, stride, pad_h, pad_w, 1, 1, 5, -3, -128, 127, 0, 1
    )


@pytest.mark.parametrize(
    "p",
    [
        *(usual((5, 7, in_c), (1, 1), 1, (0, 0)) for in_c in (1, 2, 3, 4, 5, 30, 31, 32, 33, 34)),
        *(usual((5, 7, in_c), (1, 1), 1, (0, 0)) for in_c in (254, 255, 256, 257, 300)),
        *(usual((6, 7, in_c), (3, 3), stride, (pad, pad)) for in_c in (1, 2, 3, 4, 16, 32, 33, 48, 49)
          for stride in (1, 2) for pad in (0, 1)),
        *(usual((1, width, 16), (1, 1), 1, (0, 0)) for width in (1, 2, 3, 4)),
        usual((2, 2, 16), (2, 2), 1, (0, 0)), usual((2, 3, 16), (2, 2), 1, (0, 0)), usual((3, 4, 8), (1, 1), 2, (0, 0)),
        usual((49, 10, 1), (10, 4), 2, (5, 1)), usual((9, 9, 3), (9, 9), 1, (8, 8)),
        usual((3, 15, 3), (1, 11), 1, (0, 5)), usual((3, 15, 3), (1, 10), 1, (0, 5)),
        usual((1, 70, 4), (1, 5), 1, (0, 2)), usual((70, 1, 4), (5, 1), 1, (2, 0)),
        replace(usual((7, 9, 4), (3, 1), 1, (0, 0)), dilation_h=2, out_h=3),
        replace(usual((7, 9, 4), (1, 3), 1, (0, 0)), dilation_w=2, out_w=5),
    ],
    ids=str,
)  # fmt: skip
def test_usual_convolutions(c_operators: OperatorLibrary, p: QuantizedConvolutionParams) -> None:
    """Each length of a row, each rest of three pixels, and those beyond what the inner loops are made for."""
    generator = np.random.default_rng(52)
    x, weights, multipliers, _, sums = random_inputs(generator, p)
    depth = p.kernel_h * p.kernel_w * p.in_c
    shifts = np.full(p.out_c, -int(np.log2(64 * depth**0.5)), np.int32)
    check_convolution(c_operators, p, (x, weights, multipliers, shifts, sums))


@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("weight", [-128, 127])
def test_largest_sums(c_operators: OperatorLibrary, value: int, weight: int) -> None:
    """Products of the largest numbers, on top of the largest kernel sums."""
    p = replace(usual((4, 4, 32), (3, 3), 1, (1, 1)), out_c=4, in_offset=-value)
    sums = np.array([(1 << 31) - 1, -(1 << 31), 0, 1], np.int32)
    factor = np.full(4, 1 << 30, np.int32), np.array([-24, -23, -20, -16], np.int32)
    x, weights = np.full((1, 4, 4, 32), value, np.int8), np.full((4, 3, 3, 32), weight, np.int8)
    check_convolution(c_operators, p, (x, weights, *factor, sums))


@pytest.mark.parametrize("shift", [-62, -32, -31, -30, -2, -1, 0, 5, 30])
def test_all_shifts(c_operators: OperatorLibrary, shift: int) -> None:
    generator = np.random.default_rng(53)
    for kernel, pad in ((1, 0), (3, 1)):
        p = usual((6, 7, 20), (kernel, kernel), 1, (pad, pad))
        x, weights, *_ = random_inputs(generator, p)
        multipliers = np.array([1 << 30, (1 << 31) - 1, 3, 0, 1 << 30, 5], np.int32)
        sums = np.array([0, 1 << 25, -1 << 25, 5, -5, 1], np.int32)
        check_convolution(c_operators, p, (x, weights, multipliers, np.full(6, shift, np.int32), sums))


def check_linear(c_operators: OperatorLibrary, p: QuantizedLinearParams, generator: np.random.Generator) -> None:
    """Compare both linear operators."""
    weights = extremes(generator, (p.out_features, p.in_features)).astype(np.int8)
    sums = generator.integers(-9000, 9000, p.out_features).astype(np.int32)
    x, output = extremes(generator, (p.rows, p.in_features)), np.full((p.rows, p.out_features), 85, np.int8)
    own = InterleavedLinearParams(*astuple(p))
    found = c_operators.run("interleaved_linear", (x, interleaved(weights[:, None]), sums), own, output)
    np.testing.assert_array_equal(found, c_operators.run("quantized_linear", (x, weights, sums), p, output), str(p))


def test_random_linear_layers(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([54, seed])
    for _ in range(CALLS):
        rows, depth = int(generator.integers(1, 7)), int(generator.integers(1, 300))
        if generator.integers(3) == 0:
            depth = int(generator.choice([4, 16, 32, 36, 128, 129, 256, 257, 636, 640, 641, 644, 1284]))
        (multiplier,), (shift,) = factors(generator, 1, depth)
        low, high = clamp(generator)
        p = QuantizedLinearParams(
            rows, depth, 2 * int(generator.integers(1, 20)), -zero_point(generator), 0, zero_point(generator),
            int(multiplier), int(shift), low, high, 0, 1,
        )  # fmt: skip
        check_linear(c_operators, p, generator)


@pytest.mark.parametrize("depth", [4, 32, 60, 64, 256, 260, 640, 644])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_usual_linear_layers(c_operators: OperatorLibrary, rows: int, depth: int) -> None:
    generator = np.random.default_rng(55)
    for outputs in (2, 4, 6, 8, 10):
        p = QuantizedLinearParams(rows, depth, outputs, 5, 0, -3, 1 << 30, -9, -128, 127, 0, 1)
        check_linear(c_operators, p, generator)


@pytest.mark.parametrize(
    ("change", "value"),
    [("has_kernel_sum", 0), ("has_bias", 1), ("weight_offset", 1), ("in_features", 7), ("out_features", 5)],
)
def test_other_linear_layers_are_refused(c_operators: OperatorLibrary, change: str, value: int) -> None:
    p = InterleavedLinearParams(1, 5, 6, 3, 0, 5, 1 << 30, -8, -128, 127, 0, 1)
    values = np.zeros((1, 5), np.int8), np.zeros((3, 1, 3, 4), np.int8), np.zeros(6, np.int32)
    output = np.zeros((1, 6), np.int8)
    c_operators.run("interleaved_linear", values, p, output)
    with pytest.raises(RefusedError):
        c_operators.run("interleaved_linear", values, replace(p, **{change: value}), output)


@pytest.mark.parametrize(
    "change", [{"has_kernel_sum": 0}, {"groups": 3}, {"out_c": 5}, {"kernel_h": 2}, {"in_c": 5}], ids=str
)
def test_other_convolutions_are_refused(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    p = InterleavedConvolutionParams(*astuple(usual((5, 5, 3), (3, 3), 1, (1, 1))))
    numbers = np.zeros(6, np.int32)
    values = np.zeros((1, 5, 5, 3), np.int8), np.zeros((3, 3, 5, 4), np.int8), numbers, numbers, numbers
    output = np.zeros((1, 5, 5, 6), np.int8)
    c_operators.run("interleaved_conv2d", values, p, output, [0])
    with pytest.raises(RefusedError):
        c_operators.run("interleaved_conv2d", values, replace(p, **change), output, [0])
