"""Scratch as fetches of weights see it: free but where blocks of it are in use."""

from collections.abc import Mapping
from dataclasses import dataclass

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


NO_SCRATCH = Scratch()
"""Where nothing is fetched to scratch."""


def scratch_of(offsets: Mapping[Lifetime, int]) -> Scratch:
    """Scratch with its blocks at these offsets."""
    walls = (Wall(offset, round_up(block.nbytes), block.first, block.last) for block, offset in offsets.items())
    ordered = tuple(sorted(walls, key=lambda wall: (wall.first, wall.offset)))
    return Scratch(max((wall.offset + wall.nbytes for wall in ordered), default=0), ordered)
