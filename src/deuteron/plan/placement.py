"""Where blocks of scratch go: greedy, largest first, each into the tightest gap."""

from collections.abc import Iterable

from deuteron.kernels.limits import round_up
from deuteron.plan.lifetimes import Lifetime


def place(blocks: Iterable[Lifetime]) -> dict[Lifetime, int]:
    """Byte offset of each block, a multiple of the alignment; blocks that meet do not overlap."""
    placed: dict[Lifetime, int] = {}
    for block in sorted(blocks, key=lambda b: (-b.nbytes, b.first, b.buffers)):
        taken = sorted((at, at + round_up(other.nbytes)) for other, at in placed.items() if other.meets(block))
        placed[block] = _tightest_gap(taken, round_up(block.nbytes))
    return placed


def _tightest_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Start of the smallest gap between the `taken` intervals that holds `size`, else the end of the last."""
    end, best, spare = 0, -1, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap - size < spare):
            best, spare = end, gap - size
        end = max(end, stop)
    return best if best >= 0 else end
