"""Weights of `winograd_conv2d`, transformed when a bundle is made, and the bound of its sums.

firmware/src/cortex_m/winograd.h has the arithmetic.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from deuteron.operators.cortex_m import PRODUCTS, QuantizedConvolutionParams, winograd_fours

LARGEST_SUM = 1 << 25
"""Sums of an output must be at least this, negated, and below it: they are found as sum * 2^6 modulo 2^32."""

_G = np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4], [0, 0, 1]], np.int64)
_INPUT = 128
"""Largest absolute value of an input; kernel sums include its offset."""


def fits(params: QuantizedConvolutionParams) -> bool:
    """Return true if `winograd_conv2d` computes convolutions of this kind."""
    windows = (params.kernel_h, params.kernel_w, params.stride_h, params.stride_w)
    return (
        windows == (3, 3, 1, 1)
        and (params.dilation_h, params.dilation_w, params.groups, params.has_kernel_sum) == (1, 1, 1, 1)
    )  # fmt: skip


def is_exact(weights: npt.NDArray[np.int8], kernel_sums: npt.NDArray[np.int32]) -> bool:
    """Return true if no input makes a sum that `winograd_conv2d` cannot compute; weights [out_c, 3, 3, in_c]."""
    largest = np.abs(weights.astype(np.int64)).sum(axis=(1, 2, 3)) * _INPUT + np.abs(kernel_sums.astype(np.int64))
    return bool((largest < LARGEST_SUM).all())


def groups(out_c: int) -> list[int]:
    """Return the sizes of the groups of output channels; the last may have one more than there are channels."""
    threes = out_c // 3 - (out_c % 3 == 1)
    return [3] * max(0, threes) + [2] * (-(-(out_c - 3 * max(0, threes)) // 2))


def transformed(weights: npt.NDArray[np.int8]) -> npt.NDArray[np.int16]:
    """Return weights [out_c, 3, 3, in_c] as `winograd_conv2d` reads them."""
    out_c, _, _, in_c = weights.shape
    fours, sizes = winograd_fours(in_c), groups(out_c)
    positions = np.zeros((sum(sizes), PRODUCTS, 4 * fours), np.int16)
    positions[:out_c, :, :in_c] = np.einsum("ai,oijc,bj->oabc", _G, weights.astype(np.int64), _G).reshape(
        out_c, PRODUCTS, in_c
    )
    # Input channels 4q + e + 2h: halves h of words e.
    words = positions.reshape(-1, PRODUCTS, fours, 2, 2).swapaxes(3, 4)
    starts = np.cumsum([0, *sizes])
    parts = [words[a:b].transpose(1, 2, 3, 0, 4) for a, b in pairwise(starts)]
    return np.concatenate([part.ravel() for part in parts])


def nbytes(params: QuantizedConvolutionParams) -> int:
    """Return the bytes of the transformed weights."""
    return 2 * PRODUCTS * 4 * winograd_fours(params.in_c) * sum(groups(params.out_c))
