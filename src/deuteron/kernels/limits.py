"""Sizes that bound every kernel call: `spec/microcode.md` section 6 as constants."""

ALIGNMENT = 16
"""Bytes: start of every block and constant, and every size in the microcode header."""

MAX_DIMENSION = 65_536
"""Largest dimension, kernel size, stride and dilation of a kernel parameter."""

MAX_REDUCTION = 1 << 23
"""Most elements that one average may cover: above it 255 * elements leaves a 32-bit accumulator."""

MAX_WORD = (1 << 31) - 1
"""Largest value of a parameter word."""

REQUANT_ROW_BYTES = 8
LUT_BYTES = 256
SOFTMAX_TABLE_BYTES = 1024


def round_up(size: int) -> int:
    """`size` bytes rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT
