"""Pairs of interleaved rows of int8 weights, as operators `interleaved_*` read them.

firmware/src/cortex_m/interleaved_weights.h describes the order.
"""

import numpy as np
import numpy.typing as npt

from deuteron.operators.cortex_m import QuantizedConvolutionParams, QuantizedLinearParams

Weights = npt.NDArray[np.int8]

MOST_WORDS = 144
"""Words of a window for which the inner loops of a core with DSP instructions are made."""
MOST_OF_A_ROW = 128
"""Words of a row of a product, of which there are three or more."""
MOST_ELEMENTS = 32
"""Elements of a row of a kernel whose pixels are no whole fours."""
MOST_ALONE = 640
"""Elements of a row of a linear layer, of which there are fewer than three."""
ROWS = 3
"""Rows of inputs that are multiplied at a time."""


def interleaved(weights: Weights) -> Weights:
    """Return weights [channels, rows, elements], of an even number of channels, as pairs of rows of words."""
    channels, rows, elements = weights.shape
    pairs = np.zeros((channels // 2, rows, 2 * words_of(elements), 2), np.int8)
    pairs[:, :, _places(elements)] = weights.reshape(channels // 2, 2, rows, elements).transpose(0, 2, 3, 1)
    return pairs.reshape(channels // 2, rows, words_of(elements), 4)


def of_16_bits(pairs: Weights) -> npt.NDArray[np.int16]:
    """Return interleaved weights with 16 bits each; the two of the first row are before those of the second."""
    return pairs[..., [0, 2, 1, 3]].astype(np.int16)


def bytes_of_16_bits(params: QuantizedConvolutionParams) -> int:
    """Return the bytes of a convolution's interleaved weights of 16 bits."""
    return params.out_c * params.kernel_h * words_of(params.kernel_w * params.in_c) * 4


def saved_by_16_bits(params: QuantizedConvolutionParams) -> int:
    """Return the instructions that weights of 16 bits save: to unpack two words for each pair of rows and three pixels.

    Each pair takes a branch more.
    """
    words = params.kernel_h * words_of(params.kernel_w * params.in_c)
    lines = params.batches * params.out_h
    joined = (params.kernel_h, params.kernel_w) != (1, 1) or (params.stride_h, params.stride_w) == (1, 1)
    threes = -(-lines * params.out_w // ROWS) if joined else lines * -(-params.out_w // ROWS)
    return threes * params.out_c // 2 * (2 * words - 1)


def words_of(elements: int) -> int:
    """Return the words of a pair of rows."""
    return -(-elements // 2)


def _places(elements: int) -> npt.NDArray[np.intp]:
    """Return the place of each element in a row of a pair: of each four 0, 2, 1, 3; of the last three 0, 2, 1."""
    k = np.arange(elements)
    words = np.where(elements - k // 4 * 4 <= 2, 1, 2)
    return k // 4 * 4 + k % 4 % words * 2 + k % 4 // words


def fits(params: QuantizedConvolutionParams | QuantizedLinearParams) -> bool:
    """Return true if a core with DSP instructions has faster inner loops for the layer with interleaved weights."""
    if params.has_kernel_sum != 1 or (params.act_min, params.act_max) != (-128, 127):
        return False
    if isinstance(params, QuantizedLinearParams):
        alone = params.in_features % 4 == 0 and params.in_features <= MOST_ALONE and params.out_features % 4 == 0
        many = params.rows >= ROWS and words_of(params.in_features) <= MOST_OF_A_ROW
        return params.weight_offset == 0 and params.out_features % 2 == 0 and (many or alone)
    row = params.kernel_w * params.in_c
    if (params.kernel_h, params.kernel_w, params.pad_h, params.pad_w) == (1, 1, 0, 0):
        is_made = words_of(row) <= MOST_OF_A_ROW
    else:
        is_made = params.kernel_h * words_of(row) <= MOST_WORDS and (params.in_c % 4 == 0 or row <= MOST_ELEMENTS)
    pixels = params.batches * params.out_h * params.out_w
    return is_made and pixels >= ROWS and (params.groups, params.dilation_w, params.out_c % 2) == (1, 1, 0)
