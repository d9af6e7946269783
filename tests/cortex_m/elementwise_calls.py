"""Random calls of the operators that work element by element, or on windows: for hosts and for boards."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tests.cortex_m import int16_calls
from tests.cortex_m.operator_library import Array

from deuteron.operators.cortex_m import (
    GatherParams,
    PadParams,
    QuantizedAddParams,
    QuantizedDivParams,
    QuantizedMulParams,
    QuantizedSoftmaxParams,
    RegionCopyParams,
)
from deuteron.operators.int16 import AddS16Params, MulS16Params, RequantizeParams
from deuteron.operators.kernel_params import (
    AveragePoolParams,
    ExtremumParams,
    KernelParams,
    LutParams,
    MaxPoolParams,
)

HALF = (1 << 30, 0)


@dataclass(frozen=True, slots=True)
class Words(KernelParams):
    """Parameter words of an operator without a record class."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the operator or the whole name of its function, and an array like its output."""

    operator: str
    inputs: tuple[Array, ...]
    params: KernelParams
    output: Array
    scratch: tuple[int, ...] = ()


def extremes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """int8 values, with each limit among them if there are enough."""
    values = generator.integers(-128, 128, shape).astype(np.int8)
    values.flat[0] = -128
    values.flat[-1] = 127
    return values


def factor(generator: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    """A multiplier of 31 bits, and a shift."""
    return int(generator.integers(1 << 30, 1 << 31)), int(generator.integers(low, high))


def zero_point(generator: np.random.Generator) -> int:
    """One of int8, often a limit."""
    return int(generator.choice([-128, 127, 0, int(generator.integers(-128, 128))]))


def limits(generator: np.random.Generator) -> tuple[int, int]:
    """Those of an int8 output, as often as not the type's."""
    low, high = sorted(int(x) for x in generator.integers(-128, 128, 2))
    return (-128, 127) if generator.integers(2) else (low, high)


def usual_add(generator: np.random.Generator) -> QuantizedAddParams:
    """Numbers as nearly all sums have them: one operand is halved, or both, and zero points are of int8."""
    a_zp, b_zp, out_zp = (zero_point(generator) for _ in range(3))
    other = HALF if generator.integers(4) == 0 else factor(generator, -12, 0)
    if generator.integers(4) == 0:
        other = -other[0], other[1]
    a, b = (HALF, other) if generator.integers(2) else (other, HALF)
    return QuantizedAddParams(a_zp, *a, b_zp, *b, out_zp, *factor(generator, -22, -16), *limits(generator))


def copies(generator: np.random.Generator, size: int) -> Iterator[Call]:
    """Copies with near and far steps, of `size` elements a run."""
    for step in (1, 3, 17, 18, 200, 9362, 9363):
        far = generator.integers(-128, 128, 1 + (size - 1) * step).astype(np.int8)
        near = generator.integers(-128, 128, size).astype(np.int8)
        dims, ones = (1, 1, 1, 1, 1, size), (0, 0, 0, 0, 0, 1)
        gaps = (0, 0, 0, 0, 0, step)
        yield Call("dtn_cm_copy", (far,), RegionCopyParams(0, 0, dims, gaps, ones), near)
        yield Call("dtn_cm_copy", (near,), RegionCopyParams(0, 0, dims, ones, gaps), np.zeros_like(far))
    back = RegionCopyParams(0, size - 1, (1, 1, 1, 1, 1, size), (0, 0, 0, 0, 0, -1), (0, 0, 0, 0, 0, 1))
    yield Call("dtn_cm_copy", (near,), back, near)


def sized(generator: np.random.Generator, size: int) -> Iterator[Call]:
    """Calls over `size` elements."""
    a, b, out = extremes(generator, (size,)), extremes(generator, (size,)), np.zeros(size, np.int8)
    one = extremes(generator, (1,))
    for _ in range(4):
        yield Call("quantized_add", (a, b), usual_add(generator), out)
        zps = (zero_point(generator) for _ in range(3))
        yield Call("quantized_mul", (a, b), QuantizedMulParams(*zps, *factor(generator, -20, 0)), out)
    yield Call("quantized_add", (one, b), usual_add(generator), out)
    table = generator.integers(-128, 128, 256).astype(np.int8)
    yield Call("quantized_activation", (a, table), LutParams(size), out)
    for largest, name in enumerate(("minimum", "maximum")):
        strides = (0, 0, 0, 0, 1)
        yield Call(name, (a, b), ExtremumParams((1, 1, 1, 1, size), strides, strides, largest), out)
    yield from copies(generator, size)
    real = (generator.normal(0, 60, size) * np.float32(0.05)).astype(np.float32)
    real[: size // 8] = generator.integers(-300, 300, size // 8) * 0.025  # many halves
    scale = int(np.float32(0.05).view(np.uint32))
    words = (scale, zero_point(generator), *limits(generator))
    yield Call("dtn_op_quantize_per_tensor", (real,), Words(words), out)
    yield Call("dtn_op_dequantize_per_tensor", (a,), Words((scale, zero_point(generator))), np.zeros(size, np.float32))


def pools(generator: np.random.Generator) -> Iterator[Call]:
    """Pools over windows of some pixels, and of whole maps."""
    for h, w, kernel, stride, pad in ((5, 7, 2, 2, 0), (6, 6, 3, 1, 1), (17, 16, 0, 1, 0)):
        for channels in (1, 7, 16, 45):
            window_h, window_w = (kernel, kernel) if kernel else (h, w)
            out_h, out_w = ((n + 2 * pad - k) // stride + 1 for n, k in ((h, window_h), (w, window_w)))
            shape = (1, h, w, channels, out_h, out_w, window_h, window_w, stride, stride, pad, pad)
            x, y = extremes(generator, (1, h, w, channels)), np.zeros((1, out_h, out_w, channels), np.int8)
            zp = zero_point(generator)
            average = AveragePoolParams(*shape, zp, 2, 1, zp, *limits(generator))
            yield Call("quantized_avg_pool2d", (x,), average, y, (0,))
            yield Call("quantized_max_pool2d", (x,), MaxPoolParams(*shape, *limits(generator)), y)


def special() -> Iterator[Call]:
    """Quantizing what is no number, too large, tiny, or half a step, with usual and unusual scales."""
    tiny, huge = np.float32(1e-40), np.float32(3e38)
    near = np.nextafter(np.float32(2.0**63), np.float32(0))
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 2.0**63, near, -(2.0**63), 0, -0.0, tiny, -tiny, huge, -huge,
                  0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.0**22, 2.0**23, 2.0**24, -(2.0**23), -(2.0**24), 0.49999997,
                  -12582912.0, -12582913.0, 1e7, -1e7], np.float32)  # fmt: skip
    for scale in (1.0, 0.05, 1e-30, 1e-38, 1e-40, 3e38):
        for zp in (-128, 127, 5):
            words = (int(np.float32(scale).view(np.uint32)), zp, -128, 127)
            yield Call("dtn_op_quantize_per_tensor", (x,), Words(words), np.zeros(x.size, np.int8))
            words = (words[0], zp, -32768 if zp > 0 else -300, 32767)
            yield Call("dtn_op_quantize_per_tensor", (x,), Words(words), np.zeros(x.size, np.int16))
            every = np.arange(-128, 128).astype(np.int8)
            words = (int(np.float32(scale).view(np.uint32)), zp)
            yield Call("dtn_op_dequantize_per_tensor", (every,), Words(words), np.zeros(256, np.float32))


def moved(generator: np.random.Generator) -> Iterator[Call]:
    """Pads, transposes and rows of a table."""
    for shape, before, after in (
        ((1, 4, 5, 3), (0, 1, 2, 0), (0, 2, 1, 0)),
        ((2, 3, 1, 16), (0, 0, 0, 5), (1, 0, 0, 12)),
        ((1, 1, 7, 19), (0, 2, 0, 1), (0, 0, 0, 0)),
    ):
        padded = np.zeros(tuple(sum(sizes) for sizes in zip(shape, before, after, strict=True)), np.int8)
        yield Call("pad", (extremes(generator, shape),), PadParams(shape, before, after, zero_point(generator)), padded)
    for batches, rows, columns in ((1, 5, 19), (2, 33, 3), (3, 16, 16), (1, 1, 21)):
        x = extremes(generator, (batches, rows, columns))
        yield Call(
            "dtn_op_transpose", (x,), Words((batches, rows, columns)), np.zeros((batches, columns, rows), np.int8)
        )
    for width in (1, 7, 33):
        table, rows = extremes(generator, (2, 5, width)), generator.integers(0, 5, 9)
        yield Call("gather", (table, rows), GatherParams(2, 5, width, 9), np.zeros((2, 9, width), np.int8))


def shares(generator: np.random.Generator) -> Iterator[Call]:
    """Softmaxes, near and over other dimensions, and quotients."""
    for outer, depth, inner in ((3, 10, 1), (1, 45, 1), (2, 7, 5)):
        x = extremes(generator, (outer, depth, inner))
        params = QuantizedSoftmaxParams(outer, depth, inner, *factor(generator, 20, 25))
        yield Call("softmax", (x,), params, np.zeros_like(x))
    halves = np.zeros((1, 512, 1), np.int8)
    yield Call("softmax", (halves,), QuantizedSoftmaxParams(1, 512, 1, 1 << 30, 20), halves)
    more = np.full((1, 512, 1), 127, np.int8)  # shares of a half, which only the product's lower half makes more
    more[0, 511] = 126
    yield Call("softmax", (more,), QuantizedSoftmaxParams(1, 512, 1, 1090519040, 13), more)
    odd = np.repeat(np.arange(127, 116, -1), (1, 8, 2, 1, 0, 5, 5, 2, 4, 3, 2)).astype(np.int8)  # eight shares of 15.5
    yield Call("softmax", (odd,), QuantizedSoftmaxParams(1, 33, 1, 1133436628, 28), odd)
    for size in (1, 19, 67):
        scale = int(np.float32(0.37).view(np.uint32))
        zps = (zero_point(generator) for _ in range(3))
        x, y = extremes(generator, (size,)), extremes(generator, (size,))
        yield Call("quantized_div", (x, y), QuantizedDivParams(*zps, scale), np.zeros(size, np.int8))


def int16(generator: np.random.Generator) -> Iterator[Call]:
    """Operators for int16 activations: random ones, and sums, products and conversions of rows with ties."""
    for name, case in int16_calls.CASES.items():
        for _ in range(6 if name != "convolution_s16" else 0):
            params, inputs, output = case(generator)
            yield Call(f"dtn_cm_{name}", inputs, params, output)
    dims, strides = (1, 1, 1, 1, 67), (0, 0, 0, 0, 1)
    a, b, out = int16_calls.numbers(generator, 67), int16_calls.numbers(generator, 67), np.zeros(67, np.int16)
    small = extremes(generator, (67,))
    for shift in (1, 18, 19, 30, 31, 32, 33, 40, 49, 50, 62):
        limits = -32767 if shift % 2 else -20000, 32767
        for mults in ((1 << 30, 1 << 30), ((1 << 31) - 1, -(1 << 31)), (3 << 29, -5)):
            yield Call(
                "dtn_cm_broadcast_add_s16", (a, b), AddS16Params(dims, strides, strides, *mults, shift, *limits), out
            )
        for mult in (1 << 30, (1 << 31) - 1):
            for other in (strides, (0, 0, 0, 0, 0)):
                params = MulS16Params(dims, strides, other, mult, shift, *limits)
                yield Call("dtn_cm_broadcast_mul_s16", (a, b if any(other) else b[:1]), params, out)
            yield Call("dtn_cm_requantize_s16", (small,), RequantizeParams(67, -128, mult, shift, 0), out)
            yield Call("dtn_cm_requantize_s8", (a,), RequantizeParams(67, 0, mult, shift, 127), small)


def calls(seed: int) -> Iterator[Call]:
    """All of these."""
    generator = np.random.default_rng(seed)
    for size in (1, 3, 5, 16, 19, 67):
        yield from sized(generator, size)
    yield from pools(generator)
    yield from special()
    yield from moved(generator)
    yield from shares(generator)
    yield from int16(generator)
