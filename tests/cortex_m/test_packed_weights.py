"""Operators with packed weights of four bits have the bytes of those with the same weights as int8."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from tests.cortex_m.convolutions import clamp, extremes, factors, random_conv, random_depthwise, zero_point
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.operators import packed_weights
from deuteron.operators.cortex_m import (
    PackedConvolutionParams,
    PackedLinearParams,
    QuantizedConvolutionParams,
    QuantizedLinearParams,
)

CALLS = 30
"""Random calls per seed."""


def packed_bytes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Any bytes, or those of the largest weights."""
    if generator.integers(4):
        return generator.integers(-128, 128, shape).astype(np.int8)
    return np.full(shape, generator.choice([-128, 127, 119, -119, -120]), np.int8)


def both_convolutions(
    c_operators: OperatorLibrary,
    p: QuantizedConvolutionParams,
    data: Array,
    others: tuple[Array, ...],
    x: Array,
    scratch: int,
) -> tuple[Array, Array]:
    """The outputs of both operators for packed weights [groups, pairs, elements]."""
    depthwise = p.has_kernel_sum == 0
    name = "quantized_depthwise_conv2d" if depthwise else "quantized_conv2d"
    _, rows, _ = packed_weights.rows_of(p, depthwise=depthwise)
    weights = packed_weights.unpacked(data, rows)
    output = np.full((p.batches, p.out_h, p.out_w, p.out_c), 85, np.int8)
    own = PackedConvolutionParams(*astuple(p))
    found = c_operators.run(f"{name}_s4", (x, data, *others), own, output, [scratch])
    return found, c_operators.run(name, (x, weights, *others), p, output, [scratch])


def test_random_convolutions(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([41, seed])
    for _ in range(CALLS):
        call = random_conv(generator)
        p = replace(call.params, has_bias=0, has_kernel_sum=1)
        if generator.integers(2) and p.groups == 1:
            p = replace(p, out_c=int(generator.integers(1, 150)))
        sums = generator.integers(-9000, 9000, p.out_c).astype(np.int32)
        groups, rows, elements = packed_weights.rows_of(p, depthwise=False)
        data = packed_bytes(generator, (groups, -(-rows // 2), elements))
        others = (*factors(generator, p.out_c, elements), sums)
        for scratch in (0, 4 * elements):
            found, expected = both_convolutions(c_operators, p, data, others, call.input, scratch)
            np.testing.assert_array_equal(found, expected, str((scratch, p)))


def test_random_depthwise(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([42, seed])
    for _ in range(CALLS):
        call = random_depthwise(generator)
        channels = int(generator.integers(1, 40))
        p = replace(call.params, in_c=channels, out_c=channels, groups=channels)
        others = factors(generator, channels, p.kernel_h * p.kernel_w)
        if p.has_bias:
            others = (*others, generator.integers(-9000, 9000, channels).astype(np.int32))
        x = extremes(generator, (p.batches, p.in_h, p.in_w, channels))
        data = packed_bytes(generator, (1, -(-p.kernel_h * p.kernel_w // 2), channels))
        found, expected = both_convolutions(c_operators, p, data, others, x, 0)
        np.testing.assert_array_equal(found, expected, str(p))


@pytest.mark.parametrize("kernel", [(1, 512), (32, 16), (7, 7), (40, 1)], ids=str)
def test_depthwise_kernels_of_many_taps(c_operators: OperatorLibrary, kernel: tuple[int, int]) -> None:
    generator = np.random.default_rng(43)
    (kernel_h, kernel_w), channels = kernel, 19
    p = QuantizedConvolutionParams(
        1, kernel_h, kernel_w + 1, channels, 1, 2, channels, channels, *kernel, 1, 1, 0, 0, 1, 1, 3, 4, -128, 127, 0
    )
    x = extremes(generator, (1, kernel_h, kernel_w + 1, channels))
    data = packed_bytes(generator, (1, -(-kernel_h * kernel_w // 2), channels))
    others = factors(generator, channels, kernel_h * kernel_w)
    found, expected = both_convolutions(c_operators, p, data, others, x, 0)
    np.testing.assert_array_equal(found, expected)


def test_random_linear_layers(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([44, seed])
    for _ in range(CALLS):
        rows, depth = int(generator.integers(1, 6)), int(generator.integers(1, 300))
        if generator.integers(6) == 0:
            depth = int(generator.choice([16, 128, 129, 640, 641, 1284]))
        channels = int(generator.integers(1, 80))
        (multiplier,), (shift,) = factors(generator, 1, depth)
        low, high = clamp(generator)
        p = QuantizedLinearParams(
            rows, depth, channels, -zero_point(generator), 0, zero_point(generator), int(multiplier), int(shift),
            low, high, 0, 1,
        )  # fmt: skip
        data = packed_bytes(generator, (-(-channels // 2), depth))
        sums = generator.integers(-9000, 9000, channels).astype(np.int32)
        x, output = extremes(generator, (rows, depth)), np.full((rows, channels), 85, np.int8)
        found = c_operators.run("quantized_linear_s4", (x, data, sums), PackedLinearParams(*astuple(p)), output)
        weights = packed_weights.unpacked(data, channels)
        np.testing.assert_array_equal(found, c_operators.run("quantized_linear", (x, weights, sums), p, output), str(p))


@pytest.mark.parametrize("value", [-128, 127])
@pytest.mark.parametrize("byte", [-128, 127])
def test_largest_sums(c_operators: OperatorLibrary, value: int, byte: int) -> None:
    """32,768 products of the largest numbers, on top of the largest kernel sums."""
    p = QuantizedConvolutionParams(
        1, 16, 16, 128, 1, 1, 3, 1, 16, 16, 1, 1, 0, 0, 1, 1, -value, 0, -128, 127, 0, 1
    )  # fmt: skip
    sums = np.array([(1 << 31) - 1, -(1 << 31), 0], np.int32)
    factor = np.array([1 << 30] * 3, np.int32), np.array([-24, -23, -20], np.int32)
    x, data = np.full((1, 16, 16, 128), value, np.int8), np.full((1, 2, 32768), byte, np.int8)
    for scratch in (0, 131072):
        found, expected = both_convolutions(c_operators, p, data, (*factor, sums), x, scratch)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shift", [-62, -31, -30, -2, -1, 0, 5, 30])
def test_all_shifts(c_operators: OperatorLibrary, shift: int) -> None:
    generator = np.random.default_rng(45)
    for kernel, pad in ((1, 0), (3, 1)):
        p = QuantizedConvolutionParams(
            1, 6, 7, 20, 6, 7, 5, 1, kernel, kernel, 1, 1, pad, pad, 1, 1, 5, -3, -128, 127, 0, 1
        )  # fmt: skip
        factor = np.array([1 << 30, (1 << 31) - 1, 3, 0, 1 << 30], np.int32), np.full(5, shift, np.int32)
        data = packed_bytes(generator, (1, 3, kernel * kernel * 20))
        sums = np.array([0, 1 << 25, -1 << 25, 5, -5], np.int32)
        x = extremes(generator, (1, 6, 7, 20))
        found, expected = both_convolutions(c_operators, p, data, (*factor, sums), x, 4 * kernel * kernel * 20)
        np.testing.assert_array_equal(found, expected)


def test_weights_are_packed_without_loss() -> None:
    generator = np.random.default_rng(46)
    for count in (1, 2, 7, 16):
        rows = generator.integers(-7, 8, (3, count, 5)).astype(np.int8)
        data = packed_weights.packed(rows)
        assert data is not None
        assert data.shape == (3, -(-count // 2), 5)
        np.testing.assert_array_equal(packed_weights.unpacked(data, count), rows)


@pytest.mark.parametrize(
    ("rows", "fits"),
    [([[7, -8]], True), ([[0, 1], [-8, 7]], True), ([[-1], [-8]], False), ([[8]], False), ([[-9]], False)],
    ids=str,
)
def test_weights_of_more_bits_are_not_packed(rows: list[list[int]], fits: bool) -> None:
    assert (packed_weights.packed(np.array(rows, np.int8)) is not None) == fits


@pytest.mark.parametrize(
    ("change", "value"),
    [("has_kernel_sum", 0), ("weight_offset", 1), ("in_features", 5), ("out_features", 5)],
)
def test_other_linear_layers_are_refused(c_operators: OperatorLibrary, change: str, value: int) -> None:
    p = PackedLinearParams(1, 4, 6, 3, 0, 5, 1 << 30, -8, -128, 127, 0, 1)
    values = np.zeros((1, 4), np.int8), np.zeros((3, 4), np.int8), np.zeros(6, np.int32)
    output = np.zeros((1, 6), np.int8)
    c_operators.run("quantized_linear_s4", values, p, output)
    with pytest.raises(RefusedError):
        c_operators.run("quantized_linear_s4", values, replace(p, **{change: value}), output)


@pytest.mark.parametrize(
    ("depthwise", "change"),
    [
        (False, {"has_kernel_sum": 0}), (False, {"groups": 2}), (False, {"out_c": 4}), (True, {"has_kernel_sum": 1}),
        (True, {"groups": 1}), (True, {"kernel_h": 2}),
    ],
    ids=str,
)  # fmt: skip
def test_other_convolutions_are_refused(c_operators: OperatorLibrary, depthwise: bool, change: dict[str, int]) -> None:
    name = "quantized_depthwise_conv2d_s4" if depthwise else "quantized_conv2d_s4"
    p = PackedConvolutionParams(
        1, 5, 5, 6, 5, 5, 6, 6 if depthwise else 1, 3, 3, 1, 1, 1, 1, 1, 1, 3, 4, -128, 127, 0, int(not depthwise)
    )  # fmt: skip
    rows = packed_weights.rows_of(p, depthwise=depthwise)
    data = np.zeros((rows[0], -(-rows[1] // 2), rows[2]), np.int8)
    numbers = np.zeros(6, np.int32)
    values = np.zeros((1, 5, 5, 6), np.int8), data, numbers, numbers, *(() if depthwise else (numbers,))
    output = np.zeros((1, 5, 5, 6), np.int8)
    c_operators.run(name, values, p, output, [0])
    with pytest.raises(RefusedError):
        c_operators.run(name, values, replace(p, **change), output, [0])
