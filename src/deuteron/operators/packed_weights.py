"""Weights of four bits, two in a byte, as operators `*_s4` read them.

firmware/src/cortex_m/packed_weights.h has the arithmetic.
"""

import numpy as np
import numpy.typing as npt

from deuteron.operators.cortex_m import QuantizedConvolutionParams

Weights = npt.NDArray[np.int8]

MOST_TAPS = 512
"""Most positions of the kernel of `quantized_depthwise_conv2d_s4`."""

SECOND = 16
"""The factor of the second row of a pair in a byte."""


def packed(rows: Weights) -> Weights | None:
    """Return rows [..., rows, elements] in pairs: [..., ceil(rows / 2), elements]; None if they need more bits.

    A byte is the weight of the first row of a pair plus 16 times that of the second. Weights of four bits are from -8
    to 7. A byte cannot have a second weight of -8 if the first is below 0.
    """
    *outer, count, elements = rows.shape
    if rows.size and not (rows.min() >= -8 and rows.max() <= 7):
        return None
    whole = np.zeros((*outer, count + count % 2, elements), np.int16)
    whole[..., :count, :] = rows
    both = whole[..., ::2, :] + SECOND * whole[..., 1::2, :]
    return None if both.size and both.min() < -128 else both.astype(np.int8)


def unpacked(rows: Weights, count: int) -> Weights:
    """Return `count` rows of packed ones [..., ceil(count / 2), elements]."""
    second = (rows.astype(np.int16) + SECOND // 2) >> 4
    first = rows - SECOND * second
    *outer, pairs, elements = rows.shape
    both = np.stack((first, second), axis=-2).reshape(*outer, 2 * pairs, elements)
    return both[..., :count, :].astype(np.int8)


def rows_of(params: QuantizedConvolutionParams, *, depthwise: bool) -> tuple[int, ...]:
    """Return the shape of a convolution's weights as groups, rows and elements of a row."""
    taps = params.kernel_h * params.kernel_w
    if depthwise:
        return 1, taps, params.out_c
    return params.groups, params.out_c // params.groups, taps * (params.in_c // params.groups)


def fits(params: QuantizedConvolutionParams, *, depthwise: bool) -> bool:
    """Return true if an operator with packed weights computes convolutions of this kind."""
    if depthwise:
        return params.groups == params.in_c == params.out_c and params.kernel_h * params.kernel_w <= MOST_TAPS
    return params.has_kernel_sum == 1
