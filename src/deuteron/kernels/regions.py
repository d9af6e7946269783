"""The memories that an operand of a kernel call can lie in."""

from enum import IntEnum


class Region(IntEnum):
    """Where an operand lives; the value is its number in the microcode."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2
    WEIGHTS = 3
    PREFETCH = 4


WRITABLE = frozenset({Region.OUTPUT, Region.SCRATCH})
