"""What a compiler tells of a program beside the program itself: estimates of its time, and what lives where when.

Families whose programs say all of it themselves have none.
"""

from dataclasses import dataclass

SAME = " = "
"""Stands between the names of one value."""


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of a memory that hold one value from moment `first` to moment `last`.

    Profiles count moments in kernel calls of the partition, plans in commands. A value that has several names, as a
    result in the place of an operand does, is called by all of them with ` = ` between.
    """

    name: str
    offset: int
    nbytes: int
    first: int
    last: int

    @property
    def names(self) -> tuple[str, ...]:
        """Its name, or all of them."""
        return tuple(self.name.split(SAME))


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a partition: its size, the most that is alive at once, and what lives in it when."""

    name: str
    nbytes: int
    bound: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """An operation as a compiler schedules it, which may be several commands; estimates, in cycles of the NPU's clock.

    Attributes:
        commands: their numbers in the program.
        cycles: from its start to its end.
        compute: of these, on the NPU if no memory held it up.
        sram: that the SRAM port is busy.
        transfer: that fetches of its weights and tables take, most of it beside other steps.
        macs: multiply-accumulates.
        sram_bytes: through the SRAM port.
    """

    commands: tuple[int, ...]
    cycles: int
    compute: int
    sram: int
    transfer: int
    macs: int
    sram_bytes: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """All steps of a program, and its memories, whose blocks live from command to command.

    Attributes:
        compiler: whose estimates these are; empty where there are none.
        system: the system that it was told to estimate for, in its own words.
        clock: of the NPU there, in Hz.
    """

    compiler: str = ""
    system: str = ""
    clock: int = 0
    steps: tuple[Step, ...] = ()
    memories: tuple[Memory, ...] = ()


NO_SCHEDULE = Schedule()
"""That of a program that says all of it itself, or of which nobody has told."""
