"""Add, mul, div, minimum, maximum and tables of the Cortex-M operators equal the wheel's Python definitions."""

from dataclasses import replace

import numpy as np
import pytest
from tests.cortex_m.elementwise_calls import extremes, factor, usual_add
from tests.cortex_m.executorch_definitions import wheel
from tests.cortex_m.operator_library import OperatorLibrary, RefusedError

from deuteron.operators.cortex_m import QuantizedAddParams, QuantizedDivParams, QuantizedMulParams
from deuteron.operators.kernel_params import ExtremumParams, LutParams

SHAPES = (
    ((1,), (1,)),
    ((2, 3, 4), (2, 3, 4)),
    ((1, 5, 6, 7), (1, 7)),  # last dimension repeated: a broadcast of channels in the order of channels last
    ((7,), (3, 2, 7)),
    ((130, 3), (3,)),
    ((1,), (199,)),
    ((257,), (257,)),
)


def zero_point(generator: np.random.Generator) -> int:
    """One of int8, often a limit, sometimes outside as after a hard swish."""
    return int(generator.choice([-128, 127, 0, int(generator.integers(-128, 128)), int(generator.integers(-999, 999))]))


def random_add(generator: np.random.Generator) -> QuantizedAddParams:
    """Numbers as the lowering makes them, and zero points at the limits."""
    zps = [zero_point(generator) for _ in range(3)]
    (am, a_shift), (bm, b_shift) = (factor(generator, -9, 1) for _ in range(2))
    om, o_shift = factor(generator, -25, -14)
    low, high = sorted(int(x) for x in generator.integers(-128, 128, 2))
    if generator.integers(2):
        low, high = -128, 127
    sign = int(generator.choice([-1, 1]))
    return QuantizedAddParams(zps[0], am, a_shift, zps[1], sign * bm, b_shift, zps[2], om, o_shift, low, high)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_add(c_operators: OperatorLibrary, shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    generator = np.random.default_rng([1, seed])
    a, b = (extremes(generator, shape) for shape in shapes)
    p = random_add(generator)
    full = np.broadcast_arrays(a, b)
    words = p.words()
    expected = wheel("quantized_add", full[0], *words[:3], full[1], *words[3:])
    found = c_operators.run("quantized_add", (a, b), p, np.empty(full[0].shape, np.int8))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_usual_add(c_operators: OperatorLibrary, shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    generator = np.random.default_rng([7, seed])
    for _ in range(20):
        a, b = (extremes(generator, shape) for shape in shapes)
        p = usual_add(generator)
        full = np.broadcast_arrays(a, b)
        words = p.words()
        expected = wheel("quantized_add", full[0], *words[:3], full[1], *words[3:])
        found = c_operators.run("quantized_add", (a, b), p, np.empty(full[0].shape, np.int8))
        np.testing.assert_array_equal(found, expected, str(p))


@pytest.mark.parametrize("field", ["a_shift", "b_shift", "out_shift"])
@pytest.mark.parametrize("shift", [-62, -33, -32, -31, -30, 0, 1, 8, 30])
def test_add_takes_every_shift(c_operators: OperatorLibrary, field: str, shift: int) -> None:
    generator = np.random.default_rng([2, shift & 63])
    a, b = extremes(generator, (999,)), extremes(generator, (999,))
    p = replace(random_add(generator), **{field: shift})
    words = p.words()
    expected = wheel("quantized_add", a, *words[:3], b, *words[3:])
    found = c_operators.run("quantized_add", (a, b), p, np.empty(a.shape, np.int8))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "change",
    [
        {"a_zp": -1921},
        {"b_zp": 1920},
        {"out_zp": 1920},
        {"a_shift": 31},
        {"b_shift": -63},
        {"out_shift": 31},
        {"act_min": -129},
        {"act_max": 128},
        {"act_min": 1, "act_max": 0},
    ],
    ids=str,
)
def test_add_refuses_numbers(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    p = QuantizedAddParams(0, 1 << 30, 0, 0, 1 << 30, 0, 0, 1 << 30, -19, -128, 127)
    x = np.zeros(4, np.int8)
    c_operators.run("quantized_add", (x, x), p, x)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("quantized_add", (x, x), replace(p, **change), x)


@pytest.mark.parametrize("sizes", [(4, 3, 4), (4, 4, 3), (4, 4, 8), (4, 0, 4), (2, 1, 1)], ids=str)
def test_add_refuses_sizes(c_operators: OperatorLibrary, sizes: tuple[int, int, int]) -> None:
    p = QuantizedAddParams(0, 1 << 30, 0, 0, 1 << 30, 0, 0, 1 << 30, -19, -128, 127)
    a, b, out = (np.zeros(size, np.int8) for size in sizes)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("quantized_add", (a, b), p, out)


def test_add_refuses_other_calls(c_operators: OperatorLibrary) -> None:
    words = QuantizedAddParams(0, 1 << 30, 0, 0, 1 << 30, 0, 0, 1 << 30, -19, -128, 127).words()
    x = np.zeros(4, np.int8)
    c_operators.call("quantized_add", words, (x, x), (), x)
    for inputs, scratch, given in (
        ((x,), (), words),
        ((x, x, x), (), words),
        ((x, x), (x,), words),
        ((x, x), (), words[:-1]),
        ((x, x), (), (*words, 0)),
        ((x, x.astype(np.uint8)), (), words),
    ):
        with pytest.raises(RefusedError, match="72"):
            c_operators.call("quantized_add", given, inputs, scratch, x)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_mul(c_operators: OperatorLibrary, shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    generator = np.random.default_rng([3, seed])
    a, b = (extremes(generator, shape) for shape in shapes)
    azp, bzp, ozp = (zero_point(generator) for _ in range(3))
    p = QuantizedMulParams(azp, bzp, ozp, *factor(generator, -20, 2))
    full = np.broadcast_arrays(a, b)
    expected = wheel("quantized_mul", full[0], p.a_zp, full[1], p.b_zp, p.out_zp, p.out_multiplier, p.out_shift)
    found = c_operators.run("quantized_mul", (a, b), p, np.empty(full[0].shape, np.int8))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "change", [{"a_zp": -1921}, {"b_zp": 1920}, {"out_zp": 1920}, {"out_shift": 31}, {"out_shift": -63}], ids=str
)
def test_mul_refuses_numbers(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    p = QuantizedMulParams(0, 0, 0, 1 << 30, -7)
    x = np.zeros(4, np.int8)
    c_operators.run("quantized_mul", (x, x), p, x)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("quantized_mul", (x, x), replace(p, **change), x)


SCALES = (1.0, 0.5, 1 / 3, 17.25, 1e-3, 1e-45, 3e38)


@pytest.mark.parametrize("dtype", [np.int8, np.int16], ids=str)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_div(c_operators: OperatorLibrary, dtype: type[np.signedinteger], scale: float, seed: int) -> None:
    generator = np.random.default_rng([4, seed])
    limits = np.iinfo(dtype)
    a, b = (generator.integers(limits.min, limits.max + 1, 999).astype(dtype) for _ in range(2))
    azp, bzp, ozp = (int(generator.choice([limits.min, limits.max, 0, 5])) for _ in range(3))
    b[:9] = bzp  # divisors of 0
    expected = wheel("quantized_div", a, azp, b, bzp, ozp, scale)
    p = QuantizedDivParams(azp, bzp, ozp, int(np.float32(scale).view(np.int32)))
    np.testing.assert_array_equal(c_operators.run("quantized_div", (a, b), p, np.empty(a.shape, dtype)), expected)


def test_div_takes_every_pair(c_operators: OperatorLibrary) -> None:
    numbers = np.arange(-128, 128).astype(np.int8)
    a, b = (np.ascontiguousarray(x) for x in np.meshgrid(numbers, numbers))
    for scale in (1.0, 0.5, 2.0, 12.5):
        p = QuantizedDivParams(0, 0, 0, int(np.float32(scale).view(np.int32)))
        expected = wheel("quantized_div", a, 0, b, 0, 0, scale)
        np.testing.assert_array_equal(c_operators.run("quantized_div", (a, b), p, np.empty(a.shape, np.int8)), expected)


def test_div_refuses(c_operators: OperatorLibrary) -> None:
    x, short, wide = np.zeros(4, np.int8), np.zeros(3, np.int8), np.zeros(4, np.int16)
    good = QuantizedDivParams(0, 0, 0, int(np.float32(1).view(np.int32)))
    c_operators.run("quantized_div", (x, x), good, x)
    for bad in (np.inf, np.nan, -1.0):
        with pytest.raises(RefusedError, match="72"):
            c_operators.run("quantized_div", (x, x), replace(good, scale=int(np.float32(bad).view(np.int32))), x)
    for inputs, output in (((x, short), x), ((x, x), short), ((x, wide), x), ((wide, wide), x)):
        with pytest.raises(RefusedError, match="72"):
            c_operators.run("quantized_div", inputs, good, output)
    unsigned = x.astype(np.uint8)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("quantized_div", (unsigned, unsigned), good, unsigned)


def test_activation(c_operators: OperatorLibrary) -> None:
    generator = np.random.default_rng(5)
    table = generator.integers(-128, 128, 256).astype(np.int8)
    for size in (1, 3, 4, 5, 257):
        x = extremes(generator, (size,))
        found = c_operators.run("quantized_activation", (x, table), LutParams(size), np.empty(size, np.int8))
        np.testing.assert_array_equal(found, wheel("quantized_activation", x, table))
    for inputs, size in (((x, table[:255]), 257), ((x, table), 256), ((x[:9], table), 257)):
        with pytest.raises(RefusedError, match="72"):
            c_operators.run("quantized_activation", inputs, LutParams(size), np.empty(size, np.int8))


@pytest.mark.parametrize("largest", [0, 1])
def test_extremum(c_operators: OperatorLibrary, largest: int) -> None:
    generator = np.random.default_rng([6, largest])
    name = ("minimum", "maximum")[largest]
    a, b = extremes(generator, (2, 3, 5, 4)), extremes(generator, (2, 1, 5, 1))
    p = ExtremumParams((1, 2, 3, 5, 4), (0, 60, 20, 4, 1), (0, 5, 0, 1, 0), largest)
    found = c_operators.run(name, (a, b), p, np.empty(a.shape, np.int8))
    np.testing.assert_array_equal(found, wheel(name, a, b))
    for bad in (
        replace(p, maximum=1 - largest),
        replace(p, b_strides=(0, 6, 0, 1, 0)),
        replace(p, dims=(1, 2, 3, 5, 5)),
        replace(p, dims=(0, 2, 3, 5, 4)),
        replace(p, a_strides=(0, 60, 20, -4, 1)),
    ):
        with pytest.raises(RefusedError, match="72"):
            c_operators.run(name, (a, b), bad, np.empty(a.shape, np.int8))
