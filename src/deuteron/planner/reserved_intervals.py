"""Free scratch intervals available to weight DMA, next to intermediate results."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from deuteron.operators.limits import round_up
from deuteron.planner.interval_placement import first_fit
from deuteron.planner.lifetimes import Lifetime


@dataclass(frozen=True, slots=True)
class ReservedInterval:
    """`nbytes` bytes of scratch from `offset` on, in use from call `first` to call `last`, both included."""

    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """Size of scratch and its reserved intervals, in the order of their first calls."""

    nbytes: int = 0
    reserved: tuple[ReservedInterval, ...] = ()

    def free(self, calls: int) -> list[int]:
        """Return the unused bytes of scratch during each of so many calls."""
        changes = [0] * (calls + 1)
        for interval in self.reserved:
            changes[min(interval.first, calls)] -= interval.nbytes
            changes[min(interval.last + 1, calls)] += interval.nbytes
        return [self.nbytes + taken for taken in accumulate(changes[:calls])]

    def conflicts(self, blocks: Collection[Lifetime]) -> dict[Lifetime, list[tuple[int, int]]]:
        """Return for each block the intervals of bytes that are reserved during its lifetime, lowest first."""
        taken = [
            (interval.offset, interval.offset + interval.nbytes, interval.first, interval.last)
            for interval in self.reserved
        ]
        reserved = np.array(taken, np.int64).reshape(-1, 4)
        places, last = reserved[:, :2], reserved[:, 3]
        begun = np.searchsorted(reserved[:, 2], [block.last for block in blocks], side="right").tolist()
        return {
            block: _runs(places[:count][last[:count] >= block.first].tolist())
            for block, count in zip(blocks, begun, strict=True)
        }


def _runs(places: list[list[int]]) -> list[tuple[int, int]]:
    """Sort intervals and merge those that touch."""
    runs: list[tuple[int, int]] = []
    for at, end in sorted(places):
        if runs and at <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(end, runs[-1][1])
        else:
            runs.append((at, end))
    return runs


NO_SCRATCH = Scratch()
"""No scratch: weights are fetched to the prefetch area only."""


def place_between(
    met: Mapping[Lifetime, Sequence[tuple[int, int]]], scratch: Scratch, order: Callable[[Lifetime], tuple[int, ...]]
) -> dict[Lifetime, int]:
    """Place blocks in scratch by first fit between reserved intervals; return the offsets of those that fit.

    Args:
        met: the blocks, each with the reserved intervals of its lifetime (`Scratch.conflicts`).
        scratch: the memory.
        order: sort key of the blocks.
    """
    if not scratch.nbytes:
        return {}
    taken = np.empty((len(met), 4), np.int64)
    offsets: dict[Lifetime, int] = {}
    for block in sorted(met, key=lambda block: (*order(block), block.buffers)):
        nbytes = round_up(block.nbytes)
        others = taken[: len(offsets)]
        others = others[(others[:, 2] <= block.last) & (others[:, 3] >= block.first), :2]
        at = first_fit((*met[block], *((start, end) for start, end in others.tolist())), nbytes)
        if at + nbytes <= scratch.nbytes:
            taken[len(offsets)] = at, at + nbytes, block.first, block.last
            offsets[block] = at
    return offsets


def scratch_of(offsets: Mapping[Lifetime, int]) -> Scratch:
    """Return the scratch of a packing: each part of a block is a reserved interval."""
    reserved = (
        ReservedInterval(offset + part.offset, part.nbytes, part.first, part.last)
        for block, offset in offsets.items()
        for part in block.parts
    )
    ordered = tuple(sorted(reserved, key=lambda interval: (interval.first, interval.offset)))
    return Scratch(max((interval.offset + interval.nbytes for interval in ordered), default=0), ordered)
