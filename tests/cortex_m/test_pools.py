"""The pools: maxima equal the wheel's; means are correctly rounded, and the wheel's float32 differs at ties only."""

from dataclasses import replace

import numpy as np
import pytest
from tests.cortex_m.executorch_definitions import wheel
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.operators.kernel_params import AveragePoolParams, MaxPoolParams

NONE = np.zeros(0, np.uint8)


def axis(generator: np.random.Generator, *, ceil: bool) -> tuple[int, int, int, int, int]:
    """Input, output, kernel, stride and padding as PyTorch allows them."""
    kernel = int(generator.integers(1, 5))
    stride, pad = int(generator.integers(1, 4)), int(generator.integers(0, kernel // 2 + 1))
    size = int(generator.integers(kernel, 12))
    out = -(-(size + 2 * pad - kernel) // stride) + 1 if ceil else (size + 2 * pad - kernel) // stride + 1
    if ceil and (out - 1) * stride >= size + pad:
        out -= 1  # the last window must start on the map or in the padding before it
    return size, out, kernel, stride, pad


def random_map(generator: np.random.Generator, h: int, w: int) -> Array:
    """A map with the limits of int8."""
    x = generator.integers(-128, 128, (int(generator.integers(1, 3)), h, w, int(generator.integers(1, 6))))
    x.flat[0], x.flat[-1] = -128, 127
    return x.astype(np.int8)


def test_max_pool(c_operators: OperatorLibrary, seed: int) -> None:
    generator = np.random.default_rng([9, seed])
    for _ in range(20):
        (h, out_h, kh, sh, ph), (w, out_w, kw, sw, pw) = (axis(generator, ceil=False) for _ in range(2))
        x = random_map(generator, h, w)
        low, high = sorted(int(n) for n in generator.integers(-128, 128, 2))
        p = MaxPoolParams(x.shape[0], h, w, x.shape[3], out_h, out_w, kh, kw, sh, sw, ph, pw, low, high)
        expected = wheel(
            "quantized_max_pool2d", x, [kh, kw], [sh, sw], [ph, pw], [1, 1], False, 3, 3, low, high, channels_last=True
        )
        np.testing.assert_array_equal(
            c_operators.run("quantized_max_pool2d", (x,), p, np.empty(expected.shape, np.int8)), expected, str(p)
        )


@pytest.mark.parametrize("ceil", [False, True])
def test_average_pool(c_operators: OperatorLibrary, ceil: bool, seed: int) -> None:
    generator = np.random.default_rng([10, seed, ceil])
    for _ in range(20):
        (h, out_h, kh, sh, ph), (w, out_w, kw, sw, pw) = (axis(generator, ceil=ceil) for _ in range(2))
        x = random_map(generator, h, w)
        zp = int(generator.choice([-128, 127, 0, -3]))
        p = AveragePoolParams(
            x.shape[0], h, w, x.shape[3], out_h, out_w, kh, kw, sh, sw, ph, pw, zp, 2, 1, zp, -128, 127
        )
        multiplier, shift = int(generator.integers(1 << 30, 1 << 31)), int(generator.integers(-9, 1))
        reference = wheel(
            "quantized_avg_pool2d", x, [kh, kw], [sh, sw], [ph, pw], ceil, zp, multiplier, shift, NONE,
            channels_last=True,
        )  # fmt: skip
        found = c_operators.run("quantized_avg_pool2d", (x,), p, np.empty(reference.shape, np.int8), [0])
        value = means(x, p)
        np.testing.assert_array_equal(found, np.clip(np.rint(value) + zp, -128, 127), str(p))
        off_tie = np.abs(value - np.floor(value) - 0.5) > 1e-4
        np.testing.assert_array_equal(found[off_tie], reference[off_tie], str(p))
        assert np.abs(found.astype(int) - reference).max() <= 1


@pytest.mark.parametrize("size", [(5, 7), (16, 16), (3, 300), (17, 16)], ids=str)
@pytest.mark.parametrize("channels", [1, 7, 8, 32, 45])
def test_pools_of_a_whole_map(c_operators: OperatorLibrary, size: tuple[int, int], channels: int) -> None:
    generator = np.random.default_rng([11, channels])
    x = generator.integers(-128, 128, (2, *size, channels)).astype(np.int8)
    x[0, :, :, 0], x[1, :, :, 0] = -128, 127
    shape = (2, *size, channels, 1, 1, *size, 1, 1, 0, 0)
    out = np.empty((2, 1, 1, channels), np.int8)
    average = AveragePoolParams(*shape, -3, 4, 2, -3, -100, 100)
    value = (x.astype(np.int64) + 3).mean(axis=(1, 2), keepdims=True)
    wanted = np.clip(np.rint(value) - 3, -100, 100)
    np.testing.assert_array_equal(c_operators.run("quantized_avg_pool2d", (x,), average, out, [0]), wanted)
    scaled = replace(average, mult=3 << 20, shift=22)
    wanted = np.clip(np.rint(value * 0.75) - 3, -100, 100)
    np.testing.assert_array_equal(c_operators.run("quantized_avg_pool2d", (x,), scaled, out, [0]), wanted)
    largest = MaxPoolParams(*shape, -100, 120)
    wanted = np.clip(x.max(axis=(1, 2), keepdims=True), -100, 120)
    np.testing.assert_array_equal(c_operators.run("quantized_max_pool2d", (x,), largest, out), wanted)


def test_the_definition_misses_halves_by_its_scale_alone() -> None:
    """As `spec/rounding.md` says: windows of six elements, halves and others, with the scale of its example."""
    sums = np.arange(-300, 300)
    x = np.zeros((len(sums), 2, 3, 1), np.int8)
    for i in range(6):
        x[:, i // 3, i % 3, 0] = sums // 6 + (i < sums % 6)
    wanted = np.rint(sums / 6)

    def found(multiplier: int, shift: int) -> Array:
        window, pads = [2, 3], [0, 0]
        made = wheel(
            "quantized_avg_pool2d", x, window, window, pads, False, 0, multiplier, shift, NONE, channels_last=True
        )
        return made.reshape(-1)

    wrong = found(1145326848, -7) != wanted
    assert wrong.any()
    assert (sums[wrong] % 6 == 3).all()
    np.testing.assert_array_equal(found(1 << 30, 1), wanted)


def means(x: Array, p: AveragePoolParams) -> np.ndarray:
    """The mean of each window's elements on the map, less the zero point."""
    result = np.zeros((p.batches, p.out_h, p.out_w, p.channels))
    for i in range(p.out_h):
        for j in range(p.out_w):
            top, left = i * p.stride_h - p.pad_top, j * p.stride_w - p.pad_left
            window = x[:, max(0, top) : top + p.kernel_h, max(0, left) : left + p.kernel_w]
            result[:, i, j] = window.astype(np.float64).mean(axis=(1, 2)) - p.in_zp
    return result


def test_pools_refuse(c_operators: OperatorLibrary) -> None:
    x, out = np.zeros((1, 4, 4, 2), np.int8), np.zeros((1, 2, 2, 2), np.int8)
    largest = MaxPoolParams(1, 4, 4, 2, 2, 2, 2, 2, 2, 2, 0, 0, -128, 127)
    mean = AveragePoolParams(1, 4, 4, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0, 2, 1, 0, -128, 127)
    c_operators.run("quantized_max_pool2d", (x,), largest, out)
    c_operators.run("quantized_avg_pool2d", (x,), mean, out, [0])
    for change in ({"out_h": 3}, {"in_w": 5}, {"stride_h": 0}, {"pad_top": 2}, {"kernel_w": -1}, {"act_min": 128}):
        with pytest.raises(RefusedError, match="72"):
            c_operators.run("quantized_max_pool2d", (x,), replace(largest, **change), out)
        with pytest.raises(RefusedError, match="72"):
            c_operators.run("quantized_avg_pool2d", (x,), replace(mean, **change), out, [0])
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("quantized_avg_pool2d", (x,), mean, out)  # without the scratch
