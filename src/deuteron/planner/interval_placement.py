"""First-fit and best-fit placement of one interval of memory among occupied ones."""

from collections.abc import Iterable

Interval = tuple[int, int]
"""Bytes from the first offset up to, but without, the second."""


def first_fit(occupied: Iterable[Interval], size: int) -> int:
    """Return the lowest offset at which `size` bytes overlap none of the occupied intervals."""
    offset = 0
    for start, end in sorted(occupied):
        if start - offset >= size:
            break
        offset = max(offset, end)
    return offset


def best_fit(occupied: Iterable[Interval], size: int) -> int:
    """Return the start of the tightest gap that holds `size` bytes, else the end of the last occupied interval."""
    end, best, tightest = 0, -1, 0
    for start, stop in sorted(occupied):
        gap = start - end
        if gap >= size and (best < 0 or gap < tightest):
            best, tightest = end, gap
        end = max(end, stop)
    return best if best >= 0 else end
