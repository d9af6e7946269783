"""Numbers, words and records of the protocol of the serial line (`spec/harness.md`)."""

import struct
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from deuteron.errors import FormatError

VERSION = 1
ALL_STEPS = 0xFFFFFFFF
"""Stops a run at its end."""

HEADER = struct.Struct("<BBHI")
EVENT = struct.Struct("<4I")
_RUN = struct.Struct("<7I")
_IDENTITY = struct.Struct("<4I32s14I24s")
_FAULT_WORDS = 8

_BLOCK_BYTES = range(256, (1 << 16) + 1, 4)
"""Sizes of a block that a board may have."""

_MOST_EVENTS = 1 << 20
"""Most events that a board may have memory for: 16 MiB."""

_FLAG_PROFILING, _FLAG_NPU_EMULATED = 1, 2
STEP_EVENT = 1


class Command(IntEnum):
    """Commands, numbered as in `deuteron/harness.h`."""

    IDENTIFY = 0
    RESET = 1
    WRITE = 2
    READ = 3
    CHECKSUM = 4
    RUN = 5


class Status(IntEnum):
    """Statuses of replies, numbered as in `deuteron/harness.h`."""

    OK = 0
    DAMAGED = 1
    OTHER_VERSION = 2
    SESSION = 3
    SEQUENCE = 4
    COMMAND = 5
    LENGTH = 6
    RANGE = 7
    PROGRAM = 8
    RUN_STATE = 9
    FAULT = 10


class Area(IntEnum):
    """Areas of memory, numbered as in `deuteron/harness.h`."""

    INPUT = 0
    OUTPUT = 1
    VALUE = 2
    STATE = 3
    EVENTS = 4


class TickUnit(IntEnum):
    """Unit of ticks, numbered as in `deuteron/profile.h` and `deuteron/harness.h`.

    NONE is an emulator that does not count instructions as the image expects.
    """

    TIME = 0
    INSTRUCTIONS = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Identity:
    """A board's description of itself and its program.

    Attributes:
        block_bytes: most bytes of data in a frame.
        bundle_version: version of the program's tables.
        counts_crc: checksum of their counts.
        crc: checksum of the tables.
        program_sha256: hash of the `.pte`, in hexadecimal.
        is_profiling: whether runs record events inside steps.
        is_npu_emulated: whether the core emulates an NPU of the program.
        state_bytes: size of the state.
        event_capacity: events that a run can record.
        inputs, outputs, values, steps: their numbers.
        core_hz, ticks_hz: rates of the core and of ticks.
        tick_unit: of ticks.
        core: the CPUID register.
        stack_bytes: size of the stack, 0 if unknown.
        init_error: the executor's error, 0 if the program can run.
        init_ticks: ticks to check and prepare the program.
        board: name of the board.
    """

    block_bytes: int
    bundle_version: int
    counts_crc: int
    crc: int
    program_sha256: str
    is_profiling: bool
    is_npu_emulated: bool
    state_bytes: int
    event_capacity: int
    inputs: int
    outputs: int
    values: int
    steps: int
    core_hz: int
    ticks_hz: int
    tick_unit: TickUnit
    core: int
    stack_bytes: int
    init_error: int
    init_ticks: int
    board: str

    @property
    def counts_instructions(self) -> bool:
        """Return true if ticks count instructions of an emulated core."""
        return self.tick_unit is TickUnit.INSTRUCTIONS

    @classmethod
    def parse(cls, data: bytes) -> "Identity":
        """Return the identity of a reply; FormatError for another size, and for values that no board can have."""
        if len(data) != _IDENTITY.size:
            raise FormatError(f"the board's identity has {len(data)} bytes, not {_IDENTITY.size}")
        *first, sha, flags = _IDENTITY.unpack(data)[:6]
        *numbers, counts, core, stack, error, ticks, board = _IDENTITY.unpack(data)[6:]
        unit = counts if counts > max(TickUnit) else TickUnit(counts)
        values: tuple[Any, ...] = (
            *first, sha.hex(), bool(flags & _FLAG_PROFILING), bool(flags & _FLAG_NPU_EMULATED), *numbers, unit,
            core, stack, error, ticks, board.rstrip(b"\0").decode("ascii", "replace"),
        )  # fmt: skip
        identity = cls(**dict(zip((field.name for field in fields(cls)), values, strict=True)))
        identity._check()
        return identity

    def _check(self) -> None:
        """Reject values with which the host would fail or wait without end."""
        for name, value, is_allowed, allowed in (
            ("bytes of a block", self.block_bytes, self.block_bytes in _BLOCK_BYTES, "a multiple of 4, 256 to 65536"),
            ("rate of ticks", self.ticks_hz, self.ticks_hz > 0, "above 0 Hz"),
            ("number of events that fit", self.event_capacity, self.event_capacity <= _MOST_EVENTS, "at most 2^20"),
            ("unit of ticks", self.tick_unit, self.tick_unit in tuple(TickUnit), "0 to 2"),
            ("name", repr(self.board), self.board.isascii() and self.board.isprintable(), "printable ASCII"),
        ):
            if not is_allowed:
                raise FormatError(
                    f"the board's identity is damaged: its {name} is {value}, it must be {allowed}",
                    hint="build the firmware with this version of Deuteron and load it",
                )


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run.

    Attributes:
        error: a NeutronError, 0 for none.
        step: completed steps.
        start, stop: ticks of a counter that wraps at 2^32.
        stack_used: maximum bytes of the stack in use since start-up, 0 if unknown.
        events: recorded events.
        lost: events that did not fit.
        seconds: time from the request to the reply, on the host's clock; 0 if unknown.
    """

    error: int
    step: int
    start: int
    stop: int
    stack_used: int
    events: int
    lost: int
    seconds: float = 0.0

    @classmethod
    def parse(cls, data: bytes, seconds: float) -> "RunResult":
        """Return the result of a reply; FormatError for another size."""
        if len(data) != _RUN.size:
            raise FormatError(f"the board's result of a run has {len(data)} bytes, not {_RUN.size}")
        return cls(*_RUN.unpack(data), seconds=seconds)


_EXCEPTIONS = {2: "NMI", 3: "HardFault", 4: "MemManage", 5: "BusFault", 6: "UsageFault", 7: "SecureFault"}


def fault_text(data: bytes) -> tuple[str, int | None]:
    """Return a description of a fault, and the completed steps of the run, from the data of its report.

    Older images do not send the steps.
    """
    words = struct.unpack_from(f"<{len(data) // 4}I", data)
    if len(data) % 4 or len(words) not in (_FAULT_WORDS, _FAULT_WORDS + 1):
        return f"{len(data)} bytes of unknown form", None
    exception, cfsr, hfsr, mmfar, bfar, stack, pc, link = words[:_FAULT_WORDS]
    name = _EXCEPTIONS.get(exception, f"no handler for exception {exception}")
    address = f", address 0x{bfar:08X}" if cfsr >> 15 & 1 else f", address 0x{mmfar:08X}" if cfsr >> 7 & 1 else ""
    registers = f"pc 0x{pc:08X}, lr 0x{link:08X}, sp 0x{stack:08X}, cfsr 0x{cfsr:08X}, hfsr 0x{hfsr:08X}"
    return f"{name}{address}, {registers}", words[_FAULT_WORDS] if len(words) > _FAULT_WORDS else None
