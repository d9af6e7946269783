"""Random calls of the operators for activations of 16 bits."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tests.cortex_m.operator_library import Array

from deuteron.operators.cortex_m import PadParams
from deuteron.operators.int16 import (
    AddS16Params,
    ConvolutionS16Params,
    InterpolateS16Params,
    MulS16Params,
    PoolS16Params,
    ReduceSumS16Params,
    RequantizeParams,
)
from deuteron.operators.kernel_params import (
    Dims5,
    ExtremumParams,
    KernelParams,
    ReduceExtremumParams,
)

Case = tuple[KernelParams, tuple[Array, ...], Array]
"""A record, inputs, and an array like the output."""


def numbers(rng: np.random.Generator, *shape: int) -> Array:
    """Any int16 numbers, or only the ends of their range."""
    values = rng.integers(-32768, 32768, shape)
    return np.where(values < 0, -32768, 32767).astype(np.int16) if rng.integers(4) == 0 else values.astype(np.int16)


def few(rng: np.random.Generator, *ends: int) -> list[int]:
    """Numbers from 1 up to the ends."""
    return [int(rng.integers(1, end + 1)) for end in ends]


def axis(rng: np.random.Generator, *, gaps: bool) -> tuple[int, int, int, int, int, int]:
    """Input, output, kernel, stride, pad and dilation."""
    kernel, stride, step = few(rng, 4, 3, 3 if gaps else 1)
    pad = int(rng.integers(0, kernel + 2 if gaps else kernel // 2 + 1))
    reach = (kernel - 1) * step + 1
    size = max(1, reach - 2 * pad) + int(rng.integers(0, 6))
    return size, (size + 2 * pad - reach) // stride + 1, kernel, stride, pad, step


def convolution(rng: np.random.Generator) -> Case:
    """A plain, grouped or depthwise layer, or a linear one; now and then one with a large window."""
    batches, groups, each, outputs = few(rng, 2, 4, 6, 6)
    kind = rng.integers(4)
    if kind == 0:
        groups, each = int(rng.integers(1, 40)), 1
        outputs = int(rng.choice([1, outputs]))
    h, w = (axis(rng, gaps=True) for _ in range(2))
    if kind == 1:
        groups, each, h, w = 1, int(rng.integers(1, 1200)), (1, 1, 1, 1, 0, 1), (1, 1, 1, 1, 0, 1)
    if kind == 2:
        groups, each = 1, int(rng.integers(60, 200))
    in_c, out_c = groups * each, groups * outputs
    low = int(rng.choice([-32767, 0]))
    params = ConvolutionS16Params(
        batches, h[0], w[0], in_c, h[1], w[1], out_c, groups, h[2], w[2], h[3], w[3], h[4], w[4], h[5], w[5], low, 32767
    )
    weights = rng.integers(-128, 128, (out_c, h[2], w[2], each)).astype(np.int8)
    multipliers = rng.integers(1 << 21, 1 << 22, out_c).astype(np.int32)
    shifts = rng.integers(25 - 2 * (rng.integers(4) == 0), 41, out_c).astype(np.int32)
    bias = (rng.integers(-(1 << 31), 1 << 31, out_c) >> rng.integers(0, 20, out_c)).astype(np.int32)
    if rng.integers(3) == 0:  # ties
        multipliers[:], shifts, bias = 1 << 21, shifts % 3 + 24, bias >> 18 << 9
    inputs = (numbers(rng, batches, h[0], w[0], in_c), weights, multipliers, shifts, bias)
    return params, inputs, np.empty((batches, h[1], w[1], out_c), np.int16)


def pair(rng: np.random.Generator) -> tuple[Dims5, list[Dims5], tuple[Array, ...]]:
    """Dimensions, strides of two operands of which either may repeat, and the operands."""
    a, b, c, d, e = few(rng, 4, 4, 4, 4, 9)
    dims = (a, b, c, d, e)
    strides: list[Dims5] = []
    operands: list[Array] = []
    for _ in range(2):
        steps, step = [0] * 5, 1
        for i in reversed(range(5)):
            if rng.integers(3):
                steps[i], step = step, step * dims[i]
        a, b, c, d, e = steps
        strides.append((a, b, c, d, e))
        operands.append(numbers(rng, step))
    return dims, strides, tuple(operands)


def total(rng: np.random.Generator) -> Case:
    """A sum or difference."""
    dims, strides, operands = pair(rng)
    first, second = (int(n) for n in rng.integers((1 << 29, -(1 << 31) + 1), (1 << 31) - 1, 2))
    shift = int(rng.integers(28, 33))
    if rng.integers(2):  # ties
        first, second, shift = 1 << 30, int(rng.choice([-1, 1])) << 30, int(rng.integers(30, 38))
    params = AddS16Params(dims, *strides, first, second, shift, int(rng.choice([-32767, 0])), 32767)
    return params, operands, np.empty(dims, np.int16)


def product(rng: np.random.Generator) -> Case:
    """A product."""
    dims, strides, operands = pair(rng)
    mult, shift = int(rng.integers(1 << 29, 1 << 31)), int(rng.integers(40, 47))
    return MulS16Params(dims, *strides, mult, shift, -32767, 20000), operands, np.empty(dims, np.int16)


def function(rng: np.random.Generator) -> Case:
    """A function by a table of any numbers."""
    low, high = sorted(int(n) for n in rng.integers(-32768, 32768, 2))
    bits = int(rng.integers(3, 16))
    table = (rng.integers(-(1 << 31), 1 << 31, ((high - low) >> bits) + 2) >> int(rng.integers(0, 10))).astype(np.int32)
    x = numbers(rng, int(rng.integers(1, 200)))
    return InterpolateS16Params(x.size, low, high, bits), (x, table), np.empty(x.shape, np.int16)


def pool(rng: np.random.Generator) -> Case:
    """A largest value or mean."""
    batches, channels = few(rng, 2, 9)
    h, w = (axis(rng, gaps=False) for _ in range(2))
    divisor = int(rng.choice([0, h[2] * w[2]]))
    params = PoolS16Params(
        batches, h[0], w[0], channels, h[1], w[1], h[2], w[2], h[3], w[3], h[4], w[4], int(rng.integers(2)), divisor
    )
    return params, (numbers(rng, batches, h[0], w[0], channels),), np.empty((batches, h[1], w[1], channels), np.int16)


def mean(rng: np.random.Generator) -> Case:
    """A sum or mean."""
    outer, reduced, inner = few(rng, 4, 300, 5)
    divisor = int(rng.choice([1, reduced]))
    mult = int(rng.choice([1 << 30, rng.integers(1 << 29, 1 << 31)]))
    params = ReduceSumS16Params(outer, reduced, inner, divisor, 0, mult, int(rng.integers(30, 36)), 0)
    return params, (numbers(rng, outer, reduced, inner),), np.empty((outer, inner), np.int16)


def most(rng: np.random.Generator) -> Case:
    """The largest or least value of each run."""
    outer, reduced, inner = few(rng, 4, 40, 5)
    params = ReduceExtremumParams(outer, reduced, inner, int(rng.integers(2)))
    return params, (numbers(rng, outer, reduced, inner),), np.empty((outer, inner), np.int16)


def larger(rng: np.random.Generator) -> Case:
    """The larger or smaller of two values."""
    dims, strides, operands = pair(rng)
    return ExtremumParams(dims, *strides, int(rng.integers(2))), operands, np.empty(dims, np.int16)


def pad(rng: np.random.Generator) -> Case:
    """A value on any side of any dimension."""
    dims, before, after = (rng.integers((low,) * 4, 5) for low in (1, 0, 0))
    value = int(rng.integers(-32768, 32768))
    params = PadParams.from_words((*dims.tolist(), *before.tolist(), *after.tolist(), value))
    return params, (numbers(rng, *dims),), np.empty(dims + before + after, np.int16)


def widen(rng: np.random.Generator) -> Case:
    """From int8 to int16."""
    x = rng.integers(-128, 128, int(rng.integers(1, 99))).astype(np.int8)
    mult = int(rng.integers(1 << 29, 1 << 31))
    return RequantizeParams(x.size, int(rng.integers(-128, 128)), mult, 23, 0), (x,), np.empty(x.shape, np.int16)


def narrow(rng: np.random.Generator) -> Case:
    """From int16 to int8."""
    x = numbers(rng, int(rng.integers(1, 99)))
    mult = int(rng.integers(1 << 29, 1 << 31))
    return RequantizeParams(x.size, 0, mult, 38, int(rng.integers(-128, 128))), (x,), np.empty(x.shape, np.int8)


CASES: Mapping[str, Callable[[Any], Case]] = {
    "convolution_s16": convolution,
    "broadcast_add_s16": total,
    "broadcast_mul_s16": product,
    "interpolate_s16": function,
    "pool_s16": pool,
    "reduce_sum_s16": mean,
    "reduce_extremum_s16": most,
    "extremum_s16": larger,
    "pad_s16": pad,
    "requantize_s16": widen,
    "requantize_s8": narrow,
}
