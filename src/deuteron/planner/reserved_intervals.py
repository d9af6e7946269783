"""Scratch as fetches of weights see it: free but where blocks of it are in use."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.planner.lifetimes import Lifetime


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

    def met(self, blocks: Collection[Lifetime]) -> dict[Lifetime, list[tuple[int, int]]]:
        """Of each block the runs of bytes (the first, and the one after the last) that are in use while it is."""
        taken = [(wall.offset, wall.offset + wall.nbytes, wall.first, wall.last) for wall in self.walls]
        walls = np.array(taken, np.int64).reshape(-1, 4)
        places, last = walls[:, :2], walls[:, 3]
        begun = np.searchsorted(walls[:, 2], [block.last for block in blocks], side="right").tolist()
        return {
            block: _runs(places[:count][last[:count] >= block.first].tolist())
            for block, count in zip(blocks, begun, strict=True)
        }


def _runs(places: list[list[int]]) -> list[tuple[int, int]]:
    """The same bytes, lowest first, in as few places as possible."""
    runs: list[tuple[int, int]] = []
    for at, end in sorted(places):
        if runs and at <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((at, end))
    return runs


NO_SCRATCH = Scratch()
"""Where nothing is fetched to scratch."""


def between(
    met: Mapping[Lifetime, Sequence[tuple[int, int]]], scratch: Scratch, order: Callable[[Lifetime], tuple[int, ...]]
) -> dict[Lifetime, int]:
    """Offsets in scratch of the blocks that go there, in this order, each to the first gap between walls and others.

    Args:
        met: the blocks, each with the walls that it meets (`Scratch.met`).
        scratch: what they go to.
        order: key of what comes first.
    """
    if not scratch.nbytes:
        return {}
    taken = np.empty((len(met), 4), np.int64)
    offsets: dict[Lifetime, int] = {}
    for block in sorted(met, key=lambda block: (*order(block), block.buffers)):
        at, nbytes = 0, round_up(block.nbytes)
        others = taken[: len(offsets)]
        others = others[(others[:, 2] <= block.last) & (others[:, 3] >= block.first), :2]
        for offset, end in sorted((*met[block], *map(tuple, others.tolist()))):
            if offset - at >= nbytes:
                break
            at = max(at, end)
        if at + nbytes <= scratch.nbytes:
            taken[len(offsets)] = at, at + nbytes, block.first, block.last
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
