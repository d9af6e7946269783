"""Memory regions of the operands of kernel calls."""

from dataclasses import dataclass
from enum import IntEnum


class Region(IntEnum):
    """Region of an operand, with its number in the microcode."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2
    WEIGHTS = 3
    PREFETCH = 4


WRITABLE = frozenset({Region.OUTPUT, Region.SCRATCH})


@dataclass(frozen=True, slots=True)
class Place:
    """`nbytes` bytes from `offset` on in a region; `index` is that of the input or output, 0 in other regions."""

    region: Region
    index: int
    offset: int
    nbytes: int

    def overlaps(self, other: "Place") -> bool:
        """Return True if both share a byte."""
        same = (self.region, self.index) == (other.region, other.index)
        return same and self.offset < other.offset + other.nbytes and other.offset < self.offset + self.nbytes
