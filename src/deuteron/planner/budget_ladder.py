"""Budgets that stand for all others, so that more memory is never slower.

What is tried for a budget depends on it: shares of it for weights, pieces of a size that goes into these. So a larger
one may come to a slower plan. Small programs are planned for budgets that depend on the program alone, and have the
fastest of those plans that fits into the budget that is asked for: more memory holds the same plans, and others.
"""

from collections.abc import Iterator

from deuteron.npu.neutron.kernels.limits import ALIGNMENT, round_up

FINE = 64
"""A budget has one part in so many less than the next."""


def rungs(most: int, sram: int) -> Iterator[int]:
    """Bytes of the budgets that count for one of `sram` bytes: the next above it, then all below it, largest first.

    They depend on `most` alone, the bytes that a program takes as it is; the largest has twice as much.
    """
    above, rung = 2 * round_up(most), round_up(most)
    while rung > max(sram, 0):
        above, rung = rung, _below(rung)
    yield above
    while rung > 0:
        yield rung
        rung = _below(rung)


def _below(rung: int) -> int:
    return rung - max(ALIGNMENT, rung // FINE // ALIGNMENT * ALIGNMENT)
