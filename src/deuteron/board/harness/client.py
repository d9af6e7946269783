"""Requests to the harness on a board, and their replies (`spec/harness.md`)."""

import secrets
import struct
import time
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager

from deuteron.board.harness import frames
from deuteron.board.harness.line import Line
from deuteron.board.harness.protocol import (
    ALL_STEPS,
    EVENT,
    HEADER,
    STEP_EVENT,
    VERSION,
    Area,
    Command,
    Identity,
    RunResult,
    Status,
    fault_text,
)
from deuteron.board.host_executor import error_text
from deuteron.errors import BoardError, FormatError, InternalError, counted

SECONDS = 5.0
"""Time in which a board must answer a request that is not a run."""

START_SECONDS = 20.0
"""Time in which a board must start and answer the first request: it checks its whole program before."""

RUN_SECONDS = 600.0
"""Time after which a run counts as hung."""

_PART = struct.Struct("<3I")
_READ = struct.Struct("<4I")
_TWO = struct.Struct("<2I")
_WORD = struct.Struct("<I")

_FIRST_WAIT, _LONGEST_WAIT, _LONGEST_START_WAIT = 0.5, 10.0, 2.0
"""Seconds before a request is sent again: at first, at most, and at most to a board that starts."""

_SHOWN = 32
"""First bytes from a line that an error shows if there is no reply in them."""

_DRAIN_SECONDS = 0.5
"""Longest time for which old bytes of the line are dropped."""

_CHECKSUM_BYTES_PER_SECOND = 100_000
"""Slowest rate of a checksum on a board."""


class RestartedError(BoardError):
    """The board no longer knows the session: it has restarted, or serves another host."""


class FaultError(BoardError):
    """The processor stopped with a fault.

    Attributes:
        step: completed steps of the run; None if the board was not asked for a run.
    """

    step: int | None = None


class ChangedError(BoardError):
    """Memory of the board has other bytes than those that were written, or read, just before."""


class Client:
    """A session with a board: one request at a time, each sent again until its reply arrives.

    Attributes:
        identity: of the board, after `connect`.
        sent_again: frames that were sent more than once.
        on_block: called after each block of a tensor with the area, its index, complete bytes, and all bytes.
    """

    def __init__(
        self,
        line: Line,
        *,
        seconds: float = SECONDS,
        run_seconds: float = RUN_SECONDS,
        start_seconds: float = START_SECONDS,
        first_wait: float = _FIRST_WAIT,
    ) -> None:
        """Use an open line; `first_wait` is the time before a request is sent again, without that of its bytes."""
        self._line = line
        self._seconds = seconds
        self._start_seconds = start_seconds
        self._run_seconds = run_seconds
        self._first_wait = first_wait
        self._decoder = frames.Decoder()
        self._session = 0
        self._sequence = 0
        self._identity: Identity | None = None
        self._is_connecting = False
        self._received = 0
        self._first = b""
        self._request = b""
        self.sent_again = 0
        self.on_block: Callable[[Area, int, int, int], object] | None = None

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
        self._received, self._first = 0, b""
        while (old := self._line.receive(0)) and time.monotonic() < end:
            self._count(old)
        self._session = secrets.randbelow((1 << 32) - 1) + 1
        self._sequence = 0
        self._is_connecting = True
        try:
            data = self.request(Command.IDENTIFY, seconds=self._start_seconds)
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
            ChangedError: the board has other bytes afterwards.
        """
        block = (self.identity.block_bytes - _PART.size) // 16 * 16
        for at in range(0, len(data), block):
            self.request(Command.WRITE, _PART.pack(area, index, at) + data[at : at + block])
            self._report(area, index, at + block, len(data))
        self._check(area, index, data, "written")

    def read(self, area: Area, index: int, size: int) -> bytes:
        """Return the first `size` bytes of an area, read block by block, after comparing their checksum.

        Raises:
            ChangedError: the bytes changed meanwhile.
        """
        block = self.identity.block_bytes
        data = bytearray()
        for at in range(0, size, block):
            data += self.request(Command.READ, _READ.pack(area, index, at, min(block, size - at)))
            self._report(area, index, at + block, size)
        if len(data) != size:
            message = f"the board sent {len(data)} bytes of {area.name.lower()} {index}, not {size}"
            raise FormatError(message, where=self._line.name)
        self._check(area, index, data, "read")
        return bytes(data)

    def _report(self, area: Area, index: int, done: int, size: int) -> None:
        if self.on_block is not None:
            self.on_block(area, index, min(done, size), size)

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
        start = time.monotonic()
        data = self.request(Command.RUN, _TWO.pack(resume, stop), seconds=self._run_seconds)
        with self._located():
            result, identity = RunResult.parse(data, time.monotonic() - start), self.identity
        if result.step > identity.steps or result.events > identity.event_capacity:
            raise FormatError(
                f"the board's result of a run has {result.step:,} steps of {identity.steps:,}, and {result.events:,} "
                f"events of at most {identity.event_capacity:,}",
                where=self._line.name,
            )
        return result

    def events(self, result: RunResult) -> tuple[tuple[int, int, int, int], ...]:
        """Return the events of a run: kind, index, start and stop."""
        events = tuple(EVENT.iter_unpack(self.read(Area.EVENTS, 0, result.events * EVENT.size)))
        wrong = next((i for kind, i, *_ in events if kind == STEP_EVENT and i >= self.identity.steps), None)
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

        The wait doubles after each silence: a board executes every request that waits in its buffer. It stays short
        while a board starts, which does not execute requests yet.
        `expected_seconds` is the time that the command may take on a board, and part of the first wait.

        Raises:
            BoardError: no reply came within `seconds`, it is an error, or the line echoes the request.
            RestartedError: the board does not know the session.
        """
        self._sequence = (self._sequence + 1) % (1 << 16)
        self._request = HEADER.pack(VERSION, command, self._sequence, self._session) + data
        frame = frames.encode(self._request)
        if not self._is_connecting:
            self._received, self._first = 0, b""
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
                    wait = min(2 * wait, max(wait, _LONGEST_START_WAIT if self._is_connecting else _LONGEST_WAIT))
                again = time.monotonic() + wait

    def _count(self, data: bytes) -> None:
        self._received += len(data)
        self._first += data[: _SHOWN - len(self._first)]

    def _block_bytes(self) -> int:
        return 256 if self._identity is None else self._identity.block_bytes

    def _receive(self, seconds: float) -> tuple[tuple[int, int, int, bool, bytes] | None, bool]:
        """Return version, status, session, if it is to the request, and data of a reply; and if a frame was damaged."""
        is_damaged = False
        data = self._line.receive(max(0.0, seconds))
        self._count(data)
        for content in self._decoder.feed(data):
            if content is None or len(content) < HEADER.size:
                is_damaged = True
                continue
            if content == self._request:  # no reply equals its request: the numbers of commands are those of errors
                raise BoardError(
                    "the line echoes what is sent",
                    where=self._line.name,
                    hint="check that TX and RX are not connected, and turn off the echo of the adapter, the terminal "
                    "server or another application on the board",
                )
            version, status, sequence, session = HEADER.unpack_from(content)
            # A processor that has stopped reports the last request that it accepted, or none since it started.
            is_stopped = status == Status.FAULT and (self._is_connecting or session in (0, self._session))
            if (sequence, session) == (self._sequence, self._session) or is_stopped:
                is_current = sequence == self._sequence
                return (version, status, session, is_current, content[HEADER.size :]), False
            # Replies to requests that were sent twice, or to another host, are not for this request.
            is_damaged |= status == Status.DAMAGED and session == 0
        return None, is_damaged

    def _checked(
        self, command: Command, version: int, status: int, session: int, is_current: bool, data: bytes
    ) -> bytes:
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
            restarted = session != self._session and not self._is_connecting
            text, step = fault_text(data)
            error = FaultError(
                f"{'the board restarted, and ' if restarted else ''}the processor stopped with a fault: {text}",
                where=self._line.name,
                hint="look up the addresses in `firmware.map`, and reset the board",
            )
            error.step = step if command == Command.RUN and is_current and not restarted else None
            raise error
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
        first = repr(self._first)[2:-1] + ("..." if self._received > _SHOWN else "")
        came = f"; {counted(self._received, 'byte')} came, with no reply in them: `{first}`" if self._received else ""
        hint = (
            f"check {'power, cable, port and `--baud`' if self._line.has_rate else 'host, port and board'}, that the "
            "image was built with `--harness serial` and does not hang when it starts, and that no other program uses "
            "the line"
        )
        if self._received:
            hint = (
                f"check {'`--baud` and the ground' if self._line.has_rate else 'the port'}, and that no boot loader or "
                "application other than an image built with `--harness serial` sends on this line"
            )
        if self._identity is not None:
            hint = "it hangs, has stopped, or the line is lost: reset the board, and check power and cable"
            if command == Command.RUN:
                hint = "it hangs, has stopped, or the line is lost; for a long run, raise the limit with `--time-out`"
        return BoardError(
            f"the board did not {what} within {round(seconds, 1 if seconds >= 1 else 3):g} s{came}",
            where=self._line.name,
            hint=hint,
        )

    def _check(self, area: Area, index: int, data: bytes | bytearray, done: str) -> None:
        """Compare the board's checksum of an area with that of the bytes that were sent or received."""
        if data and self.checksum(area, index, len(data)) != zlib.crc32(data):
            raise ChangedError(
                f"{area.name.lower()} {index} has other bytes on the board than those that were {done}",
                where=self._line.name,
                hint="another master writes to this memory, or it does not keep its content: check DMA, stack, and the "
                "memory's clock and timing",
            )

    def _word(self, data: bytes) -> int:
        if len(data) != _WORD.size:
            raise FormatError(f"the board sent {len(data)} bytes in place of a word", where=self._line.name)
        return int.from_bytes(data, "little")
