"""Scratch as fetches of weights see it: free but where blocks of it are in use."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.npu.neutron.plan.lifetimes import Lifetime


@dataclass(frozen=True, slots=True)
class Wall:
    """The bytes `offset` to `offset + nbytes` of scratch, in use from call `first` to call `last`, both included."""

    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """Bytes of scratch, and the walls in it, in the order of their first calls."""

    nbytes: int = 0
    walls: tuple[Wall, ...] = ()

    def free(self, calls: int) -> list[int]:
        """Bytes in which nothing is in use, during each of so many calls."""
        changes = [0] * (calls + 1)
        for wall in self.walls:
            changes[min(wall.first, calls)] -= wall.nbytes
            changes[min(wall.last + 1, calls)] += wall.nbytes
        return [self.nbytes + taken for taken in accumulate(changes[:calls])]


NO_SCRATCH = Scratch()
"""Where nothing is fetched to scratch."""


def between(
    blocks: Collection[Lifetime], scratch: Scratch, order: Callable[[Lifetime], tuple[int, ...]]
) -> dict[Lifetime, int]:
    """Offsets in scratch of the blocks that go there, in this order, each to the first gap between walls and others."""
    if not scratch.nbytes:
        return {}
    taken = [(wall.offset, wall.offset + wall.nbytes, wall.first, wall.last) for wall in scratch.walls]
    walls = np.array(taken + [(0, 0, 0, -1)] * len(blocks), np.int64)
    offsets: dict[Lifetime, int] = {}
    for block in sorted(blocks, key=lambda block: (*order(block), block.buffers)):
        at, nbytes = 0, round_up(block.nbytes)
        met = walls[(walls[:, 2] <= block.last) & (walls[:, 3] >= block.first), :2]
        for offset, end in sorted(met.tolist()):
            if offset - at >= nbytes:
                break
            at = max(at, end)
        if at + nbytes <= scratch.nbytes:
            walls[len(taken) + len(offsets)] = at, at + nbytes, block.first, block.last
            offsets[block] = at
    return offsets


def scratch_of(offsets: Mapping[Lifetime, int]) -> Scratch:
    """Scratch with its blocks at these offsets."""
    walls = (
        Wall(offset + part.offset, part.nbytes, part.first, part.last)
        for block, offset in offsets.items()
        for part in block.parts
    )
    ordered = tuple(sorted(walls, key=lambda wall: (wall.first, wall.offset)))
    return Scratch(max((wall.offset + wall.nbytes for wall in ordered), default=0), ordered)
