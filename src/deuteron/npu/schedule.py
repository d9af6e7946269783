"""Schedule of a program by its compiler: estimated times, and memories over time.

Programs that contain this information have none.
"""

from dataclasses import dataclass

SAME = " = "
"""Separator between the names of one value."""


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of a memory that hold one value from moment `first` to moment `last`.

    Moments are kernel calls in profiles, and commands in plans. A value with several names, as a result in place of
    an operand, has all of them, separated by ` = `.
    """

    name: str
    offset: int
    nbytes: int
    first: int
    last: int

    @property
    def names(self) -> tuple[str, ...]:
        """Its names."""
        return tuple(self.name.split(SAME))


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory of a partition: its size, the peak of live bytes, and its blocks."""

    name: str
    nbytes: int
    bound: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of a compiler's schedule, which may be several commands; estimates in cycles of the NPU's clock.

    Attributes:
        commands: indices of its commands.
        cycles: cycles from start to end.
        compute: cycles on the NPU without waiting for memory.
        sram: cycles in which the SRAM port is busy.
        transfer: cycles of fetches of its weights and tables, mostly in parallel to other steps.
        macs: multiply-accumulates.
        sram_bytes: bytes through the SRAM port.
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
    """The steps and memories of a program; lifetimes of blocks are in commands.

    Attributes:
        compiler: name of the compiler; empty without estimates.
        system: name of the system configuration of the estimates.
        clock: clock of the NPU in Hz.
    """

    compiler: str = ""
    system: str = ""
    clock: int = 0
    steps: tuple[Step, ...] = ()
    memories: tuple[Memory, ...] = ()


NO_SCHEDULE = Schedule()
"""The schedule of programs without one."""
