"""The memories that an operand of a kernel call can lie in."""

from dataclasses import dataclass
from enum import IntEnum


class Region(IntEnum):
    """Where an operand lives; the value is its number in the microcode."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2
    WEIGHTS = 3
    PREFETCH = 4


WRITABLE = frozenset({Region.OUTPUT, Region.SCRATCH})


@dataclass(frozen=True, slots=True)
class Place:
    """`nbytes` bytes from `offset` on in a region; `index` says which input or output, it is 0 in the other regions."""

    region: Region
    index: int
    offset: int
    nbytes: int

    def overlaps(self, other: "Place") -> bool:
        """True when both cover a common byte."""
        same = (self.region, self.index) == (other.region, other.index)
        return same and self.offset < other.offset + other.nbytes and other.offset < self.offset + self.nbytes
