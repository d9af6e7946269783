"""Limits of every kernel call: `spec/microcode.md` section 6 as constants."""

ALIGNMENT = 16
"""Bytes: start of every block and constant, and every size in the microcode header."""

MAX_DIMENSION = 65_536
"""Largest dimension, kernel size, stride and dilation of a kernel parameter."""

MAX_REDUCTION = 1 << 23
"""Largest number of elements of one sum: above it 255 * elements leaves a 32-bit accumulator."""

MAX_MEAN_SHIFT = 61
"""Largest shift before a division by a count: count * 2^shift is at most 2^61."""

MAX_MATMUL_DEPTH = 1 << 15
"""Largest number of products in one sum of a matrix product: above it 255 * 255 * depth leaves a 32-bit accumulator."""

MAX_RESIZE_UNIT = 2 * MAX_DIMENSION
"""Largest start (either sign), step and unit of a resize: half a pixel of the largest map is one such unit."""

CHANNELS = 4
"""Number of DMA channels; each has at most one outstanding fetch."""

MAX_WORD = (1 << 31) - 1
"""Largest value of a parameter word."""

REQUANT_ROW_BYTES = 8
LUT_BYTES = 256
SOFTMAX_TABLE_BYTES = 1024


def round_up(size: int) -> int:
    """`size` bytes rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT
