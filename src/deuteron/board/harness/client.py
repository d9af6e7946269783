"""Requests to the harness on a board, and their replies (`spec/harness.md`)."""

import secrets
import struct
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

from deuteron.board.harness import frames
from deuteron.board.harness.line import Line
from deuteron.board.host_executor import error_text
from deuteron.errors import BoardError, FormatError, InternalError, counted

VERSION = 1
ALL_STEPS = 0xFFFFFFFF
"""Stops a run at its end."""

SECONDS = 5.0
"""Time in which a board must answer a request that is not a run."""

RUN_SECONDS = 600.0
"""Time after which a run counts as hung."""

_HEADER = struct.Struct("<BBHI")
_PART = struct.Struct("<3I")
_READ = struct.Struct("<4I")
_TWO = struct.Struct("<2I")
_WORD = struct.Struct("<I")
_RUN = struct.Struct("<7I")
_IDENTITY = struct.Struct("<4I32s14I24s")
_EVENT = struct.Struct("<4I")
_FAULT = struct.Struct("<8I")

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 10.0
"""Seconds before a request is sent again, at first and at most."""

_DRAIN_SECONDS = 0.5
"""Longest time for which old bytes of the line are dropped."""

_CHECKSUM_BYTES_PER_SECOND = 100_000
"""Slowest rate of a checksum on a board."""

_BLOCK_BYTES = range(256, (1 << 16) + 1, 4)
"""Sizes of a block that a board may have."""

_MOST_EVENTS = 1 << 20
"""Most events that a board may have memory for: 16 MiB."""

_FLAG_PROFILING, _FLAG_NPU_EMULATED = 1, 2
_STEP_EVENT = 1


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


class RestartedError(BoardError):
    """The board no longer knows the session: it has restarted, or serves another host."""


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
        counts_instructions: whether ticks count instructions of an emulated core.
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
    counts_instructions: bool
    core: int
    stack_bytes: int
    init_error: int
    init_ticks: int
    board: str

    @classmethod
    def parse(cls, data: bytes) -> "Identity":
        """Return the identity of a reply; FormatError for another size, and for values that no board can have."""
        if len(data) != _IDENTITY.size:
            raise FormatError(f"the board's identity has {len(data)} bytes, not {_IDENTITY.size}")
        *first, sha, flags = _IDENTITY.unpack(data)[:6]
        *numbers, counts, core, stack, error, ticks, board = _IDENTITY.unpack(data)[6:]
        values: tuple[Any, ...] = (
            *first, sha.hex(), bool(flags & _FLAG_PROFILING), bool(flags & _FLAG_NPU_EMULATED), *numbers, counts == 1,
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
    """

    error: int
    step: int
    start: int
    stop: int
    stack_used: int
    events: int
    lost: int


class Client:
    """A session with a board: one request at a time, each sent again until its reply arrives.

    Attributes:
        identity: of the board, after `connect`.
        sent_again: frames that were sent more than once.
    """

    def __init__(
        self, line: Line, *, seconds: float = SECONDS, run_seconds: float = RUN_SECONDS, first_wait: float = _FIRST_WAIT
    ) -> None:
        """Use an open line; `first_wait` is the time before a request is sent again, without that of its bytes."""
        self._line = line
        self._seconds = seconds
        self._run_seconds = run_seconds
        self._first_wait = first_wait
        self._decoder = frames.Decoder()
        self._session = 0
        self._sequence = 0
        self._identity: Identity | None = None
        self._is_connecting = False
        self._received = 0
        self._request = b""
        self.sent_again = 0

    @property
    def line(self) -> Line:
        """Return the line."""
        return self._line

    @property
    def identity(self) -> Identity:
        """Return the identity of the connected board."""
        if self._identity is None:
            raise InternalError("the board is not connected")
        return self._identity

    def connect(self) -> Identity:
        """Start a session and return what the board says about itself."""
        self._decoder.clear()
        end = time.monotonic() + _DRAIN_SECONDS
        self._received = 0
        while (old := self._line.receive(0)) and time.monotonic() < end:
            self._received += len(old)
        self._session = secrets.randbelow((1 << 32) - 1) + 1
        self._sequence = 0
        self._is_connecting = True
        try:
            data = self.request(Command.IDENTIFY)
        finally:
            self._is_connecting = False
        with self._located():
            self._identity = Identity.parse(data)
        return self._identity

    def reset(self) -> None:
        """Set the initial state, and abandon an unfinished run."""
        self.request(Command.RESET)

    def write(self, area: Area, index: int, data: bytes) -> None:
        """Write an input or the state, block by block, and compare its checksum.

        Raises:
            BoardError: the board has other bytes afterwards.
        """
        block = (self.identity.block_bytes - _PART.size) // 16 * 16
        for at in range(0, len(data), block):
            self.request(Command.WRITE, _PART.pack(area, index, at) + data[at : at + block])
        self._check(area, index, data, "written")

    def read(self, area: Area, index: int, size: int) -> bytes:
        """Return the first `size` bytes of an area, read block by block, after comparing their checksum.

        Raises:
            BoardError: the bytes changed meanwhile.
        """
        block = self.identity.block_bytes
        data = b"".join(
            self.request(Command.READ, _READ.pack(area, index, at, min(block, size - at)))
            for at in range(0, size, block)
        )
        if len(data) != size:
            message = f"the board sent {len(data)} bytes of {area.name.lower()} {index}, not {size}"
            raise FormatError(message, where=self._line.name)
        self._check(area, index, data, "read")
        return data

    def checksum(self, area: Area, index: int, size: int) -> int:
        """Return the CRC-32 of the first `size` bytes of an area, computed by the board."""
        expected = size / _CHECKSUM_BYTES_PER_SECOND
        data = _READ.pack(area, index, 0, size)
        return self._word(
            self.request(Command.CHECKSUM, data, seconds=self._seconds + expected, expected_seconds=expected)
        )

    def run(self, *, stop: int = ALL_STEPS, resume: bool = False) -> RunResult:
        """Run until `stop` steps are complete, from the start or from where the last run stopped.

        The result may have more steps than `stop`: the executor runs some steps together.
        """
        data = self.request(Command.RUN, _TWO.pack(resume, stop), seconds=self._run_seconds)
        if len(data) != _RUN.size:
            message = f"the board's result of a run has {len(data)} bytes, not {_RUN.size}"
            raise FormatError(message, where=self._line.name)
        result, identity = RunResult(*_RUN.unpack(data)), self.identity
        if result.step > identity.steps or result.events > identity.event_capacity:
            raise FormatError(
                f"the board's result of a run has {result.step:,} steps of {identity.steps:,}, and {result.events:,} "
                f"events of at most {identity.event_capacity:,}",
                where=self._line.name,
            )
        return result

    def events(self, result: RunResult) -> tuple[tuple[int, int, int, int], ...]:
        """Return the events of a run: kind, index, start and stop."""
        events = tuple(_EVENT.iter_unpack(self.read(Area.EVENTS, 0, result.events * _EVENT.size)))
        wrong = next((i for kind, i, *_ in events if kind == _STEP_EVENT and i >= self.identity.steps), None)
        if wrong is not None:
            message = f"an event of the board has step {wrong:,}, the program has {self.identity.steps:,}"
            raise FormatError(message, where=self._line.name)
        return events

    @contextmanager
    def _located(self) -> Generator[None]:
        """Add the line's name to an error."""
        try:
            yield
        except FormatError as e:
            raise FormatError(e.message, where=self._line.name, hint=e.hint) from e

    def request(
        self, command: Command, data: bytes = b"", *, seconds: float | None = None, expected_seconds: float = 0
    ) -> bytes:
        """Return the data of the reply to a request, which is sent again after damage and silence.

        The wait doubles after each silence: a board executes every request that waits in its buffer.
        `expected_seconds` is the time that the command may take on a board, and part of the first wait.

        Raises:
            BoardError: no reply came within `seconds`, it is an error, or the line echoes the request.
            RestartedError: the board does not know the session.
        """
        self._sequence = (self._sequence + 1) % (1 << 16)
        self._request = _HEADER.pack(VERSION, command, self._sequence, self._session) + data
        frame = frames.encode(self._request)
        if not self._is_connecting:
            self._received = 0
        limit = self._seconds if seconds is None else seconds
        on_line = (len(frame) + self._block_bytes()) / self._line.bytes_per_second
        wait = self._first_wait + on_line + expected_seconds
        end = time.monotonic() + limit + on_line
        self._line.send(frame)
        again = time.monotonic() + wait
        while True:
            now = time.monotonic()
            if now >= end:
                raise self._silent(command, limit)
            reply, is_damaged = self._receive(min(again, end) - now)
            if reply is not None:
                return self._checked(command, *reply)
            if is_damaged or time.monotonic() >= again:
                self.sent_again += 1
                self._line.send(frame)
                if not is_damaged:
                    wait = min(2 * wait, max(wait, _LONGEST_WAIT))
                again = time.monotonic() + wait

    def _block_bytes(self) -> int:
        return 256 if self._identity is None else self._identity.block_bytes

    def _receive(self, seconds: float) -> tuple[tuple[int, int, bytes] | None, bool]:
        """Return version, status and data of the current reply, if it came; and whether a frame was damaged."""
        is_damaged = False
        data = self._line.receive(max(0.0, seconds))
        self._received += len(data)
        for content in self._decoder.feed(data):
            if content is None or len(content) < _HEADER.size:
                is_damaged = True
                continue
            if content == self._request:  # no reply equals its request: the numbers of commands are those of errors
                raise BoardError(
                    "the line echoes what is sent",
                    where=self._line.name,
                    hint="check that TX and RX are not connected, and turn off the echo of the adapter, the terminal "
                    "server or another application on the board",
                )
            version, status, sequence, session = _HEADER.unpack_from(content)
            # A processor that has stopped knows no session but its last.
            is_stopped = status == Status.FAULT and self._is_connecting
            if (sequence, session) == (self._sequence, self._session) or is_stopped:
                return (version, status, content[_HEADER.size :]), False
            # Replies to requests that were sent twice, or to another host, are not for this request.
            is_damaged |= status == Status.DAMAGED and session == 0
        return None, is_damaged

    def _checked(self, command: Command, version: int, status: int, data: bytes) -> bytes:
        """Return the data of a reply, or raise the error that it reports."""
        if version != VERSION or status == Status.OTHER_VERSION:
            raise BoardError(
                f"the board has version {version} of the protocol, this version of Deuteron has version {VERSION}",
                where=self._line.name,
                hint="build the firmware with this version of Deuteron and load it, or use the one that built it",
            )
        if status == Status.OK:
            return data
        if status in (Status.SESSION, Status.SEQUENCE):
            raise RestartedError(
                f"the board does not know this session at `{command.name.lower()}`: it restarted, or another program "
                "uses it",
                where=self._line.name,
                hint="check the board's supply, watchdog and reset, and that only one program uses the line",
            )
        if status == Status.PROGRAM:
            raise self._refused(self._word(data))
        if status == Status.FAULT:
            raise BoardError(
                f"the processor stopped with a fault: {_fault(data)}",
                where=self._line.name,
                hint="look up the addresses in `firmware.map`, and reset the board",
            )
        name = Status(status).name if status in Status.__members__.values() else f"status {status}"
        raise BoardError(
            f"the board rejects the command `{command.name.lower()}`: {name}",
            where=self._line.name,
            hint="build the firmware with this version of Deuteron and load it",
        )

    def _refused(self, code: int) -> BoardError:
        return BoardError(
            f"the executor refuses the program: {error_text(code)}",
            where=self._line.name,
            hint="build the firmware again and load it; flash that is damaged or not completely written does this, too",
        )

    def _silent(self, command: Command, seconds: float) -> BoardError:
        what = "end a run" if command == Command.RUN else f"answer `{command.name.lower()}`"
        came = f"; {counted(self._received, 'byte')} came, with no reply in them" if self._received else ""
        hint = "check power, cable, port and `--baud`, and that the image was built with `--harness serial`"
        if self._received:
            hint = (
                "check `--baud` and the ground, and that no boot loader or application other than an image built with "
                "`--harness serial` sends on this line"
            )
        if self._identity is not None:
            hint = "it hangs, has stopped, or the line is lost; for a long run, raise the limit with `--time-out`"
        return BoardError(f"the board did not {what} within {seconds:g} s{came}", where=self._line.name, hint=hint)

    def _check(self, area: Area, index: int, data: bytes, done: str) -> None:
        """Compare the board's checksum of an area with that of the bytes that were sent or received."""
        if data and self.checksum(area, index, len(data)) != zlib.crc32(data):
            raise BoardError(
                f"{area.name.lower()} {index} has other bytes on the board than those that were {done}",
                where=self._line.name,
                hint="another master writes to this memory, or it does not keep its content: check DMA, stack, and the "
                "memory's clock and timing",
            )

    def _word(self, data: bytes) -> int:
        if len(data) != _WORD.size:
            raise FormatError(f"the board sent {len(data)} bytes in place of a word", where=self._line.name)
        return int.from_bytes(data, "little")


_EXCEPTIONS = {2: "NMI", 3: "HardFault", 4: "MemManage", 5: "BusFault", 6: "UsageFault", 7: "SecureFault"}


def _fault(data: bytes) -> str:
    """Return a description of a `dtn_fault_t`."""
    if len(data) != _FAULT.size:
        return f"{len(data)} bytes of unknown form"
    exception, cfsr, hfsr, mmfar, bfar, stack, pc, link = _FAULT.unpack(data)
    name = _EXCEPTIONS.get(exception, f"no handler for exception {exception}")
    address = f", address 0x{bfar:08X}" if cfsr >> 15 & 1 else f", address 0x{mmfar:08X}" if cfsr >> 7 & 1 else ""
    return f"{name}{address}, pc 0x{pc:08X}, lr 0x{link:08X}, sp 0x{stack:08X}, cfsr 0x{cfsr:08X}, hfsr 0x{hfsr:08X}"
