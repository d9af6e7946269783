"""Random calls of convolutions, and what the wheel's Python definitions make of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from tests.cortex_m.operator_library import Array, OperatorLibrary

from deuteron.operators.cortex_m import QuantizedConvolutionParams

Pair = tuple[int, int]
LIMITS = (-128, 127)


@dataclass(frozen=True, slots=True)
class Call:
    """The values of a call: input NHWC, and weights as the operator takes them; `params.has_bias` goes with `bias`."""

    operator: str
    params: QuantizedConvolutionParams
    input: Array
    weights: Array
    multipliers: Array
    shifts: Array
    bias: Array | None

    def run(self, c_operators: OperatorLibrary, scratch: Sequence[int]) -> Array:
        """The output of the firmware, with this many bytes of scratch memory."""
        p = self.params
        inputs = (self.input, self.weights, self.multipliers, self.shifts, *(() if self.bias is None else (self.bias,)))
        output = np.full((p.batches, p.out_h, p.out_w, p.out_c), 85, np.int8)
        return c_operators.run(self.operator, inputs, p, output, scratch)


def extremes(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """int8 values: random ones, or nothing but limits, for the largest sums."""
    if generator.integers(4):
        return generator.integers(-128, 128, shape).astype(np.int8)
    return generator.choice(LIMITS if generator.integers(2) else [int(generator.choice(LIMITS))], shape).astype(np.int8)


def zero_point(generator: np.random.Generator) -> int:
    """One of int8, its limits more often than others."""
    return int(generator.choice([*LIMITS, 0, int(generator.integers(-128, 128))]))


def clamp(generator: np.random.Generator) -> Pair:
    """All of int8, or a part of it."""
    low, high = sorted(int(x) for x in generator.integers(-128, 128, 2))
    return LIMITS if generator.integers(2) else (low, high)


def factors(generator: np.random.Generator, count: int, products: int) -> tuple[Array, Array]:
    """Multipliers and shifts: most give results within int8, some are as far off as they may be."""
    usual = -int(np.log2(products * 64 + 1))
    shifts = generator.integers(usual - 3, usual + 4, count)
    odd = generator.integers(0, 8, count) == 0
    shifts[odd] = generator.choice([-62, -33, -32, -31, -30, -1, 0, 1, 8], count)[odd]
    multipliers = generator.integers(1 << 30, 1 << 31, count)
    multipliers[generator.integers(0, 8, count) == 0] = generator.choice([0, 1, (1 << 31) - 1])
    return multipliers.astype(np.int32), shifts.astype(np.int32)


def biases(generator: np.random.Generator, count: int, products: int) -> Array:
    """Numbers as large as sums of products; now and then ones that overflow them."""
    if generator.integers(8) == 0:
        return generator.choice([-(1 << 31), (1 << 31) - 1, 0], count).astype(np.int32)
    return generator.integers(-1 - products * 8192, products * 8192, count).astype(np.int32)


def _out(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def _pairs(generator: np.random.Generator, low: int, high: int) -> Pair:
    a, b = (int(x) for x in generator.integers(low, high, 2))
    return a, b


def call_of(
    generator: np.random.Generator,
    operator: str,
    batches: int,
    size: Pair,
    channels: Pair,
    kernel: Pair,
    stride: Pair = (1, 1),
    pad: Pair = (0, 0),
    dilation: Pair = (1, 1),
    groups: int = 1,
    extra: Pair = (0, 0),
) -> Call:
    """A call of that geometry, with random numbers; `extra` is what a transposed convolution's output is larger by."""
    in_c, out_c = channels
    if operator == "quantized_transpose_conv2d":
        out = tuple((size[i] - 1) * stride[i] + kernel[i] - 2 * pad[i] + extra[i] for i in range(2))
    else:
        out = tuple(_out(size[i], kernel[i], stride[i], pad[i], dilation[i]) for i in range(2))
    products = kernel[0] * kernel[1] * in_c // groups
    multipliers, shifts = factors(generator, out_c, products)
    bias = biases(generator, out_c, products) if generator.integers(4) else None
    shape = (*kernel, out_c) if operator == "quantized_depthwise_conv2d" else (out_c, *kernel, in_c // groups)
    params = QuantizedConvolutionParams(
        batches, *size, in_c, *out, out_c, groups, *kernel, *stride, *pad, *dilation,
        -zero_point(generator), zero_point(generator), *clamp(generator), int(bias is not None),
    )  # fmt: skip
    x = extremes(generator, (batches, *size, in_c))
    return Call(operator, params, x, extremes(generator, shape), multipliers, shifts, bias)


def random_conv(generator: np.random.Generator) -> Call:
    """A convolution of any kind."""
    groups = int(generator.choice([1, 1, 1, 2, 3]))
    inputs, outputs = _pairs(generator, 1, 7)
    kernel = (1, 1) if generator.integers(3) == 0 else _pairs(generator, 1, 5)
    pad = (0, 0) if generator.integers(2) else _pairs(generator, 0, 4)
    dilation = (1, 1) if generator.integers(2) else _pairs(generator, 1, 4)
    need = [max(1, dilation[i] * (kernel[i] - 1) + 1 - 2 * pad[i]) for i in range(2)]
    size = tuple(need[i] + int(generator.integers(0, 6)) for i in range(2))
    return call_of(
        generator,
        "quantized_conv2d",
        int(generator.integers(1, 3)),
        (size[0], size[1]),
        (groups * inputs, groups * outputs),
        kernel,
        _pairs(generator, 1, 4),
        pad,
        dilation,
        groups,
    )


def random_depthwise(generator: np.random.Generator) -> Call:
    """A depthwise convolution: a random one with as many groups as channels, and one or more outputs each."""
    conv = random_conv(generator).params
    in_c, multiplier = int(generator.integers(1, 11)), int(generator.choice([1, 1, 2, 5]))
    return call_of(
        generator,
        "quantized_depthwise_conv2d",
        conv.batches,
        (conv.in_h, conv.in_w),
        (in_c, in_c * multiplier),
        (conv.kernel_h, conv.kernel_w),
        (conv.stride_h, conv.stride_w),
        (conv.pad_h, conv.pad_w),
        (conv.dilation_h, conv.dilation_w),
        in_c,
    )


def random_transposed(generator: np.random.Generator) -> Call:
    """A transposed convolution."""
    kernel, stride = _pairs(generator, 1, 6), _pairs(generator, 1, 4)
    size = _pairs(generator, 1, 6)
    room = [(size[i] - 1) * stride[i] + kernel[i] - 1 for i in range(2)]
    pad = (int(generator.integers(0, room[0] // 2 + 1)), int(generator.integers(0, room[1] // 2 + 1)))
    extra = (int(generator.integers(0, stride[0])), int(generator.integers(0, stride[1])))
    return call_of(
        generator,
        "quantized_transpose_conv2d",
        int(generator.integers(1, 3)),
        size,
        _pairs(generator, 1, 11),
        kernel,
        stride,
        pad,
        extra=extra,
    )


def expected(call: Call) -> Array:
    """The wheel's result.

    Its convolutions know no dilation, so zeros are put between the weights. Its transposed one sums in float32: it is
    that of a convolution whose input has zero points between the elements, and whose weights are turned round.
    """
    p, x, weights = call.params, call.input, call.weights
    stride, pad = (p.stride_h, p.stride_w), (p.pad_h, p.pad_w)
    if call.operator == "quantized_transpose_conv2d":
        x, weights, stride, pad = _spread(call), weights[:, ::-1, ::-1], (1, 1), (0, 0)
    axes = (0, 1) if call.operator == "quantized_depthwise_conv2d" else (1, 2)
    weights = _dilated(_dilated(weights, axes[0], p.dilation_h), axes[1], p.dilation_w)
    depthwise = (p.out_c // p.in_c,) if call.operator == "quantized_depthwise_conv2d" else ()
    operator = torch.ops.cortex_m.quantized_depthwise_conv2d if depthwise else torch.ops.cortex_m.quantized_conv2d
    result = operator(
        torch.from_numpy(x.copy()).permute(0, 3, 1, 2),
        torch.from_numpy(weights[None].copy() if depthwise else weights.copy()),
        None if call.bias is None else torch.from_numpy(call.bias),
        stride, pad, (1, 1), *depthwise, p.in_offset, p.out_offset,
        torch.from_numpy(call.multipliers), torch.from_numpy(call.shifts), p.act_min, p.act_max,
        torch.empty(0, dtype=torch.uint8),
    )  # fmt: skip
    return result.permute(0, 2, 3, 1).numpy()


def _dilated(weights: Array, axis: int, dilation: int) -> Array:
    """The weights with dilation - 1 zeros between neighbours along an axis."""
    shape = list(weights.shape)
    shape[axis] = (shape[axis] - 1) * dilation + 1
    wide = np.zeros(shape, weights.dtype)
    wide[tuple(slice(None, None, dilation if i == axis else 1) for i in range(wide.ndim))] = weights
    return wide


def _spread(call: Call) -> Array:
    """The input of a transposed convolution, for a convolution without stride and pads."""
    p = call.params
    before = (p.kernel_h - 1 - p.pad_h, p.kernel_w - 1 - p.pad_w)
    size = [p.out_h + p.kernel_h - 1, p.out_w + p.kernel_w - 1]
    wide = np.full((p.batches, *(n + 2 * 64 for n in size), p.in_c), -p.in_offset, np.int64)
    for y in range(p.in_h):
        for x in range(p.in_w):
            wide[:, 64 + before[0] + y * p.stride_h, 64 + before[1] + x * p.stride_w] = call.input[:, y, x]
    return wide[:, 64 : 64 + size[0], 64 : 64 + size[1]].astype(np.int8)


def with_params(call: Call, **fields: int) -> Call:
    """The call with other words."""
    return replace(call, params=replace(call.params, **fields))
