"""Add, mul, div, minimum, maximum and tables of the Cortex-M operators equal the wheel's Python definitions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cortex_m.bench import Array, Bench, RefusedError

from deuteron.kernels.cpu_operators import QuantizedAddParams

SHAPES = (
    ((1,), (1,)),
    ((2, 3, 4), (2, 3, 4)),
    ((1, 5, 6, 7), (1, 7)),  # last dimension repeated: a broadcast of channels in the order of channels last
    ((7,), (3, 2, 7)),
    ((257,), (257,)),
)


def extremes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """int8 values, each limit among them where there is room."""
    values = generator.integers(-128, 128, shape).astype(np.int8)
    values.flat[0] = -128
    values.flat[-1] = 127
    return values


def factor(generator: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    """A multiplier of 31 bits, and a shift."""
    return int(generator.integers(1 << 30, 1 << 31)), int(generator.integers(low, high))


def random_add(generator: np.random.Generator) -> QuantizedAddParams:
    """Numbers as the lowering makes them, and zero points at the limits."""
    zps = [int(generator.choice([-128, 127, 0, int(generator.integers(-128, 128))])) for _ in range(3)]
    (am, a_shift), (bm, b_shift) = (factor(generator, -9, 1) for _ in range(2))
    om, o_shift = factor(generator, -25, -14)
    low, high = sorted(int(x) for x in generator.integers(-128, 128, 2))
    if generator.integers(2):
        low, high = -128, 127
    sign = int(generator.choice([-1, 1]))
    return QuantizedAddParams(zps[0], am, a_shift, zps[1], sign * bm, b_shift, zps[2], om, o_shift, low, high)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_add(bench: Bench, shapes: tuple[tuple[int, ...], tuple[int, ...]], seed: int) -> None:
    generator = np.random.default_rng([1, seed])
    a, b = (extremes(generator, shape) for shape in shapes)
    p = random_add(generator)
    full = tuple(torch.from_numpy(x).contiguous() for x in np.broadcast_arrays(*together(a, b)))
    words = p.words()
    expected = torch.ops.cortex_m.quantized_add(full[0], *words[:3], full[1], *words[3:])
    found = bench.run("quantized_add", (a, b), p, np.empty(full[0].shape, np.int8))
    np.testing.assert_array_equal(found, expected.numpy())


def together(a: Array, b: Array) -> tuple[Array, Array]:
    """The operands in shapes that numpy broadcasts: the smaller as a row of channels."""
    return (a, b.reshape(-1)) if a.size > b.size else (a.reshape(-1), b) if b.size > a.size else (a, b)


@pytest.mark.parametrize("field", ["a_shift", "b_shift", "out_shift"])
@pytest.mark.parametrize("shift", [-62, -33, -32, -31, -30, 0, 1, 8, 30])
def test_add_takes_every_shift(bench: Bench, field: str, shift: int) -> None:
    generator = np.random.default_rng([2, shift & 63])
    a, b = extremes(generator, (999,)), extremes(generator, (999,))
    p = replace(random_add(generator), **{field: shift})
    words = p.words()
    expected = torch.ops.cortex_m.quantized_add(torch.from_numpy(a), *words[:3], torch.from_numpy(b), *words[3:])
    found = bench.run("quantized_add", (a, b), p, np.empty(a.shape, np.int8))
    np.testing.assert_array_equal(found, expected.numpy())


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
def test_add_refuses_numbers(bench: Bench, change: dict[str, int]) -> None:
    p = QuantizedAddParams(0, 1 << 30, 0, 0, 1 << 30, 0, 0, 1 << 30, -19, -128, 127)
    x = np.zeros(4, np.int8)
    bench.run("quantized_add", (x, x), p, x)
    with pytest.raises(RefusedError, match="72"):
        bench.run("quantized_add", (x, x), replace(p, **change), x)


@pytest.mark.parametrize("sizes", [(4, 3, 4), (4, 4, 3), (4, 4, 8), (4, 0, 4), (2, 1, 1)], ids=str)
def test_add_refuses_sizes(bench: Bench, sizes: tuple[int, int, int]) -> None:
    p = QuantizedAddParams(0, 1 << 30, 0, 0, 1 << 30, 0, 0, 1 << 30, -19, -128, 127)
    a, b, out = (np.zeros(size, np.int8) for size in sizes)
    with pytest.raises(RefusedError, match="72"):
        bench.run("quantized_add", (a, b), p, out)


def test_add_refuses_other_calls(bench: Bench) -> None:
    words = QuantizedAddParams(0, 1 << 30, 0, 0, 1 << 30, 0, 0, 1 << 30, -19, -128, 127).words()
    x = np.zeros(4, np.int8)
    bench.call("quantized_add", words, (x, x), (), x)
    for inputs, scratch, given in (
        ((x,), (), words),
        ((x, x, x), (), words),
        ((x, x), (x,), words),
        ((x, x), (), words[:-1]),
        ((x, x), (), (*words, 0)),
        ((x, x.astype(np.uint8)), (), words),
    ):
        with pytest.raises(RefusedError, match="72"):
            bench.call("quantized_add", given, inputs, scratch, x)
