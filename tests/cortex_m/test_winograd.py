"""Convolutions by Winograd's algorithm have the bytes of quantized_conv2d, up to the bound of their sums."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from tests.cortex_m.convolutions import clamp, extremes, factors, zero_point
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.operators import winograd
from deuteron.operators.cortex_m import QuantizedConvolutionParams, WinogradConvolutionParams, winograd_bytes

CALLS = 25
"""Random calls per seed."""

LIMIT = winograd.LARGEST_SUM - 1


def params(
    shape: tuple[int, int, int], out_c: int, pads: tuple[int, int], batches: int = 1
) -> QuantizedConvolutionParams:
    (in_h, in_w, in_c), (pad_h, pad_w) = shape, pads
    out = in_h + 2 * pad_h - 2, in_w + 2 * pad_w - 2
    return QuantizedConvolutionParams(
        batches, in_h, in_w, in_c, *out, out_c, 1, 3, 3, 1, 1, pad_h, pad_w, 1, 1, 128, -3, -128, 127, 0, 1
    )


def both(
    c_operators: OperatorLibrary,
    p: QuantizedConvolutionParams,
    inputs: tuple[Array, ...],
    channels: int = 0,
    keeps_tiles: int = 0,
) -> tuple[Array, Array]:
    """The outputs of both operators; inputs are those of quantized_conv2d."""
    output = np.full((p.batches, p.out_h, p.out_w, p.out_c), 85, np.int8)
    x, weights, *others = inputs
    own = replace(WinogradConvolutionParams(*astuple(p)), channels=channels, keeps_tiles=keeps_tiles)
    if not channels:
        weights = winograd.transformed(weights.astype(np.int8))
        assert weights.nbytes == winograd.nbytes(p)
    found = c_operators.run("winograd_conv2d", (x, weights, *others), own, output, [winograd_bytes(own)])
    return found, c_operators.run("quantized_conv2d", inputs, p, output, [0])


def test_random_layers(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([31, seed])
    for _ in range(CALLS):
        shape = tuple(int(generator.integers(1, high)) for high in (12, 12, 40))
        out_c, batches = int(generator.integers(1, 12)), int(generator.integers(1, 3))
        pads = [int(generator.integers(n < 3, 3)) for n in shape[:2]]
        low, high = clamp(generator)
        p = replace(
            params((shape[0], shape[1], shape[2]), out_c, (pads[0], pads[1]), batches),
            in_offset=-zero_point(generator), out_offset=zero_point(generator), act_min=low, act_max=high,
        )  # fmt: skip
        weights = extremes(generator, (out_c, 3, 3, p.in_c))
        sums = generator.integers(-9000, 9000, out_c).astype(np.int32)
        x = extremes(generator, (batches, p.in_h, p.in_w, p.in_c))
        inputs = (x, weights, *factors(generator, out_c, 9 * p.in_c), sums)
        channels = int(generator.integers(2, out_c + 3))
        for passes in ((0, 0), (channels, 0), (channels, 1)):
            found, expected = both(c_operators, p, inputs, *passes)
            np.testing.assert_array_equal(found, expected, f"{p} {passes}")


@pytest.mark.parametrize("in_c", [1, 4, 17, 227])
@pytest.mark.parametrize(("weight", "x"), [(-128, -128), (-128, 127), (127, -128), (127, 127)])
def test_sums_up_to_the_bound(c_operators: OperatorLibrary, in_c: int, weight: int, x: int) -> None:
    """The largest products, and the kernel sums with which they reach 2^25 - 1, or just do not pass it below."""
    p = replace(params((5, 6, in_c), 2, (1, 1)), in_offset=-x)  # padding has the largest value too
    weights = np.full((2, 3, 3, in_c), weight, np.int8)
    rest = LIMIT - 9 * in_c * abs(weight) * 128
    sums = np.array([rest, -rest], np.int32)
    assert winograd.is_exact(weights, sums)
    for beyond in (sums + 1, sums - 1):
        assert not winograd.is_exact(weights, beyond.astype(np.int32))
    multipliers, shifts = np.array([1 << 30, (1 << 31) - 1], np.int32), np.array([-17, -18], np.int32)
    inputs = np.full((1, 5, 6, in_c), x, np.int8), weights, multipliers, shifts, sums
    for channels in (0, 3):
        found, expected = both(c_operators, p, inputs, channels)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shift", [-62, -31, -23, -22, -1, 0, 5, 30])
def test_all_shifts(c_operators: OperatorLibrary, shift: int) -> None:
    generator = np.random.default_rng(33)
    p = params((6, 7, 5), 3, (1, 1))
    x, weights = extremes(generator, (1, 6, 7, 5)), extremes(generator, (3, 3, 3, 5))
    sums = np.array([0, LIMIT // 2, -LIMIT // 2], np.int32)
    factor = np.array([1 << 30, (1 << 31) - 1, 3], np.int32), np.full(3, shift, np.int32)
    found, expected = both(c_operators, p, (x, weights, *factor, sums))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("one_less", [{"kernel_h": 2}, {"stride_w": 2}, {"has_kernel_sum": 0}, {"groups": 2}], ids=str)
def test_other_layers_are_refused(c_operators: OperatorLibrary, one_less: dict[str, int]) -> None:
    p = params((6, 6, 4), 4, (1, 1))
    x, weights = np.zeros((1, 6, 6, 4), np.int8), np.zeros((4, 3, 3, 4), np.int8)
    numbers = np.zeros(4, np.int32)
    inputs = x, winograd.transformed(weights), numbers, numbers, numbers
    output, own = np.zeros((1, 6, 6, 4), np.int8), WinogradConvolutionParams(*astuple(p))
    c_operators.run("winograd_conv2d", inputs, own, output, [winograd_bytes(own)])
    for changed, scratch in ((replace(own, **one_less), 0), (own, -1)):
        with pytest.raises(RefusedError):
            c_operators.run("winograd_conv2d", inputs, changed, output, [winograd_bytes(own) + scratch])
    assert not winograd.fits(replace(p, **one_less))


@pytest.mark.parametrize("passes", [(1, 0), (-1, 0), (7, 0), (3, 2), (3, -1), (0, 1)])
def test_other_passes_are_refused(c_operators: OperatorLibrary, passes: tuple[int, int]) -> None:
    p = params((6, 6, 4), 4, (1, 1))
    x, weights, numbers = np.zeros((1, 6, 6, 4), np.int8), np.zeros((4, 3, 3, 4), np.int8), np.zeros(4, np.int32)
    for channels, keeps_tiles in ((6, 1), passes):
        own = replace(WinogradConvolutionParams(*astuple(p)), channels=channels, keeps_tiles=keeps_tiles)
        size = winograd_bytes(replace(own, channels=max(0, channels)))
        read = weights if channels else winograd.transformed(weights)
        call = ("winograd_conv2d", (x, read, numbers, numbers, numbers), own, np.zeros((1, 6, 6, 4), np.int8))
        if (channels, keeps_tiles) == (6, 1):
            c_operators.run(*call, [size])
            with pytest.raises(RefusedError):
                c_operators.run(*call, [size - 1])
        else:
            with pytest.raises(RefusedError):
                c_operators.run(*call, [size])
