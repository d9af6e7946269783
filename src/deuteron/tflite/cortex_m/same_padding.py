"""Padding of windows."""

SAME = 0
"""Padding of the schema; the other is VALID."""


def padding_before(size: int, out: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Return the padding before a dimension."""
    total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2 if padding == SAME else 0
