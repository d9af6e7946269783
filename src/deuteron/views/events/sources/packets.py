"""Converts the packets that a board sends for its runs (`firmware/include/deuteron/profile.h`) to events."""

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from deuteron.errors import FormatError
from deuteron.views.events.events import Clock, Event, Measure, NpuCount, NpuCycles, SpanKind, Stream, Track
from deuteron.views.events.gaps import with_gaps
from deuteron.views.events.instruction_map import Instructions

VERSION = 1
MAGIC = b"DTNP"
_HEADER = struct.Struct("<4sI32s8I")
_EVENT = struct.Struct("<4I")
_WRAP = 1 << 32
_INSTRUCTIONS = 1
_AGAIN = "run the image again, and copy everything that it sends"


class _Entry(IntEnum):
    """Subject of an event, numbered as in `deuteron/executor.h`."""

    COPY_IN = 0
    STEP = 1
    COPY_OUT = 2
    COMMAND = 3
    DRIVER = 4
    RECORDING = 5
    NPU = 6
    COUNTER = 7


_KIND_BITS = 8
"""A COUNTER's event number is above the bits of the kind."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the program: a DELEGATE with its partition, an OPERATOR with its index, or a TRANSPOSE."""

    kind: SpanKind
    name: str
    partition: int = -1
    index: int = -1


@dataclass(frozen=True, slots=True)
class Packet:
    """One run; ticks count from its start and do not wrap.

    Attributes:
        number: number of the run on the board.
        hz: ticks per second.
        counts: true if ticks count instructions.
        stop: ticks of the whole run.
        events: kind, index, start and stop, in order of `stop`.
        lost: events that did not fit into the recorder's memory.
        npu_cycles: step of a partition, and cycles that the NPU's own counter counted in it.
        npu_counts: step of a partition, event number of another counter of the NPU, and its count.
    """

    number: int
    hz: int
    counts: bool
    stop: int
    events: tuple[tuple[int, int, int, int], ...]
    lost: int
    npu_cycles: tuple[tuple[int, int], ...] = ()
    npu_counts: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """Data from a board.

    Attributes:
        packets: one per run, at least one.
        warnings: sentences about missing runs.
    """

    packets: tuple[Packet, ...]
    warnings: tuple[str, ...]


def write(
    sha256: str,
    hz: int,
    run: int,
    start: int,
    stop: int,
    events: Sequence[tuple[int, int, int, int]],
    *,
    counts: bool,
    lost: int = 0,
) -> bytes:
    """Return the packet of a run, for `read`.

    Args:
        sha256: hash of the image's program, in hexadecimal.
        hz: ticks per second.
        run: number of the run.
        start: ticks at its start.
        stop: ticks at its end.
        events: kind, index, start and stop of each event.
        counts: whether ticks count instructions.
        lost: events that were not recorded.
    """
    data = b"".join(_EVENT.pack(*event) for event in events)
    head = _HEADER.pack(
        MAGIC,
        VERSION,
        bytes.fromhex(sha256),
        hz,
        _INSTRUCTIONS if counts else 0,
        run,
        start,
        stop,
        len(events),
        lost,
        0,
    )[:-4]
    return head + zlib.crc32(data, zlib.crc32(head)).to_bytes(4, "little") + data


def is_packets(data: bytes) -> bool:
    """Return true for bytes that start like packets."""
    return data[: len(MAGIC)] == MAGIC


def read(data: bytes, sha256: str, where: str) -> Received:
    """Read the runs that a board sent; drop a truncated last packet if there are others.

    Args:
        data: the bytes.
        sha256: hash of the image's program, in hexadecimal.
        where: the file, for errors.

    Raises:
        FormatError: the data are damaged, or of another program.
    """
    if not data:
        raise FormatError("the file is empty: no run sent events", where=where, hint=_AGAIN)
    packets: list[Packet] = []
    at = 0
    cut: list[str] = []
    while at < len(data):
        try:
            packet, at = _packet(data, at, len(packets), sha256, where)
        except _TruncatedError as e:
            if not packets:
                raise
            cut.append(f"{e.message}; it is left out")
            break
        packets.append(packet)
    return Received(tuple(packets), (*_missing(packets), *cut))


def _missing(packets: Sequence[Packet]) -> Iterator[str]:
    """Yield sentences about gaps in the numbers of runs."""
    for before, number in pairwise((-1, *(packet.number for packet in packets))):
        missed = number - before - 1
        if missed < 0:
            yield f"run {before} is followed by run {number}: the board restarted between them"
        elif missed:
            yield f"{missed:,} {'run is' if missed == 1 else 'runs are'} missing before run {number}"


def _packet(data: bytes, at: int, number: int, sha256: str, where: str) -> tuple[Packet, int]:
    """Return the packet at an offset, and its end."""
    if len(data) - at < _HEADER.size:
        raise _truncated(number, _HEADER.size, len(data) - at, where)
    magic, version, program, hz, counts, run, start, stop, count, lost, crc = _HEADER.unpack_from(data, at)
    if magic != MAGIC:
        raise FormatError(f"packet {number} starts with {magic!r}, not with {MAGIC!r}", where=where, hint=_AGAIN)
    if version != VERSION:
        raise FormatError(
            f"packet {number} has version {version}, this version of Deuteron reads version {VERSION}",
            where=where,
            hint="build the firmware with this version of Deuteron, or read it with the one that built it",
        )
    end = at + _HEADER.size + count * _EVENT.size
    if end > len(data):
        raise _truncated(number, end - at, len(data) - at, where)
    crc_at = at + _HEADER.size - 4
    computed = zlib.crc32(data[at + _HEADER.size : end], zlib.crc32(data[at:crc_at]))
    if crc != computed:
        raise FormatError(
            f"packet {number} is damaged: its checksum is 0x{crc:08X}, the bytes give 0x{computed:08X}",
            where=where,
            hint=_AGAIN,
        )
    if program.hex() != sha256:
        raise FormatError(
            f"the events are of another build: the image ran the program with SHA-256 {program.hex()[:12]}, this "
            f"build has {sha256[:12]}",
            where=where,
            hint="give the build that the firmware was made from",
        )
    sent = tuple(_EVENT.iter_unpack(data[at + _HEADER.size : end]))
    timed = tuple(event for event in sent if event[0] != _Entry.NPU and not _is_counter(event[0]))
    if not timed:
        raise FormatError(
            f"run {number} has no events{f', {lost:,} are lost' if lost else ''}",
            where=where,
            hint="give the executor memory for events before the run: `executor.events`, `executor.event_capacity`",
        )
    if not hz:
        raise FormatError(
            f"packet {number} says 0 ticks per second", where=where, hint="pass the rate to `dtn_profile_send`"
        )
    spans, length = _unwrapped(timed, start, stop)
    if not lost and length - spans[-1][-1] >= _WRAP // 2:  # lost events may have taken that long
        raise FormatError(
            f"packet {number} has an event that stops at tick {spans[-1][-1]:,} of its run, which stops at tick "
            f"{(stop - start) % _WRAP:,}",
            where=where,
            hint=_AGAIN,
        )
    cycles = tuple((step, (last - first) % _WRAP) for kind, step, first, last in sent if kind == _Entry.NPU)
    counted = tuple(
        (step, kind >> _KIND_BITS, (last - first) % _WRAP) for kind, step, first, last in sent if _is_counter(kind)
    )
    return Packet(run, hz, counts == _INSTRUCTIONS, length, spans, lost, cycles, counted), end


def _is_counter(kind: int) -> bool:
    return kind % (1 << _KIND_BITS) == _Entry.COUNTER


class _TruncatedError(FormatError):
    """A packet that ends after the file."""


def _truncated(number: int, needed: int, size: int, where: str) -> _TruncatedError:
    return _TruncatedError(
        f"the file is truncated: packet {number} takes {needed:,} bytes, {size:,} are left", where=where, hint=_AGAIN
    )


def _unwrapped(
    events: Sequence[tuple[int, int, int, int]], start: int, stop: int
) -> tuple[tuple[tuple[int, int, int, int], ...], int]:
    """Return the events, whose counter wraps, in ticks from the run's start, and the length of the run.

    Events are ordered by `stop`, so that less than 2^32 ticks pass between two stops. A container may be longer: it
    starts before its first content.
    """
    unwrapped: list[tuple[int, int, int, int]] = []
    now = 0
    first = 0  # start of the first command since the last step
    for kind, index, begin, end in events:
        now += (end - start - now) % _WRAP
        begun = now - (end - begin) % _WRAP
        if kind == _Entry.COMMAND and (not unwrapped or unwrapped[-1][0] != _Entry.COMMAND):
            first = begun
        if kind in (_Entry.DRIVER, _Entry.STEP) and unwrapped and unwrapped[-1][0] in (_Entry.COMMAND, _Entry.DRIVER):
            begun -= max(0, -((first - begun) // _WRAP)) * _WRAP
        unwrapped.append((kind, index, begun, now))
    return tuple(unwrapped), now + (stop - start - now) % _WRAP


def stream(
    packets: Sequence[Packet], steps: Sequence[Step], program: Instructions, where: str, emulated_hz: int = 0
) -> Stream:
    """Return the events of all runs.

    Args:
        packets: packets of `read`, at least one.
        steps: steps of the bundle.
        program: the program that ran.
        where: the file, for errors.
        emulated_hz: instructions per second of an emulated core, for ticks that count them.

    Raises:
        FormatError: an event names an unknown step or command.
    """
    first = packets[0]
    if any((packet.hz, packet.counts) != (first.hz, first.counts) for packet in packets):
        raise FormatError("the runs have clocks of different rates", where=where, hint="profile them one by one")
    counts = first.counts and emulated_hz > 0
    rate = emulated_hz if counts else first.hz
    events: list[Event] = []
    cycles: list[NpuCycles] = []
    counted: list[NpuCount] = []
    for run, packet in enumerate(packets):
        board = _Board(packet, steps, program, where, run)
        cycles += board.npu_cycles()
        counted += board.npu_counts()
        scaled = [_scaled(event, rate, first.hz) for event in board.events()]
        events += with_gaps(event for event in scaled if event.ticks or event.kind is not SpanKind.DISPATCH)
    clock = Clock("instructions" if counts else "board", rate, "instruction" if counts else "tick")
    measure = Measure.COUNTED if first.counts else Measure.MEASURED
    lost = sum(packet.lost for packet in packets)
    return Stream(clock, measure, len(packets), tuple(events), lost, tuple(cycles), tuple(counted))


def _scaled(event: Event, rate: int, hz: int) -> Event:
    """Return the event by a clock of another rate."""
    start, stop = event.start * rate // hz, event.stop * rate // hz
    return Event(
        event.kind, event.track, start, stop, event.name, event.run, event.partition, event.index, event.nbytes
    )


class _Board:
    """Converts one run."""

    def __init__(self, packet: Packet, steps: Sequence[Step], program: Instructions, where: str, run: int) -> None:
        self._packet = packet
        self._steps = steps
        self._program = program
        self._where = where
        self._run = run

    def npu_cycles(self) -> Iterator[NpuCycles]:
        """Yield the counts of the NPU's cycle counter for each partition."""
        for step, cycles in self._packet.npu_cycles:
            yield NpuCycles(self._run, self._partition(step, "cycles"), cycles)

    def npu_counts(self) -> Iterator[NpuCount]:
        """Yield the counts of its other counters."""
        for step, what, count in self._packet.npu_counts:
            yield NpuCount(self._run, self._partition(step, "counters"), what, count)

    def _partition(self, step: int, what: str) -> int:
        if step >= len(self._steps) or self._steps[step].kind is not SpanKind.DELEGATE:
            raise self._error(f"the NPU's {what} are of step {step}, which is not a partition")
        return self._steps[step].partition

    def events(self) -> Iterator[Event]:
        """Yield the packet's events, and the driver's time between them."""
        yield self._event(SpanKind.RUN, "run", 0, self._packet.stop)
        commands: list[tuple[int, int, int]] = []
        driver: tuple[int, int] | None = None
        done = 0
        for kind, index, start, stop in self._packet.events:
            match kind:
                case _Entry.COMMAND:
                    commands.append((index, start, stop))
                case _Entry.DRIVER:
                    driver = start, stop
                case _Entry.STEP:
                    yield from self._step(index, start, stop, commands, driver)
                    commands, driver, done = [], None, index + 1
                case _Entry.RECORDING:
                    yield self._event(SpanKind.DISPATCH, "profiling", start, stop)
                case _Entry.COPY_IN:
                    yield self._event(SpanKind.COPY_IN, f"input {index}", start, stop, index=index)
                case _Entry.COPY_OUT:
                    yield self._event(SpanKind.COPY_OUT, f"output {index}", start, stop, index=index)
                case _:
                    raise self._error(f"an event has the unknown kind {kind}")
        if commands:
            yield from self._open(done, commands)

    def _open(self, done: int, commands: Sequence[tuple[int, int, int]]) -> Iterator[Event]:
        """Yield a partition whose own event is lost, from its first remaining command as far as it is known."""
        step = next((step for step in self._steps[done:] if step.kind is SpanKind.DELEGATE), None)
        if step is None:
            raise self._error(f"commands run after step {done - 1}, the program has no partition there")
        yield self._event(step.kind, step.name, commands[0][1], self._packet.stop, step.partition)
        for command, begin, end in commands:
            yield self._command(step.partition, command, begin, end)

    def _step(
        self,
        index: int,
        start: int,
        stop: int,
        commands: Sequence[tuple[int, int, int]],
        driver: tuple[int, int] | None,
    ) -> Iterator[Event]:
        if index >= len(self._steps):
            raise self._error(f"an event is about step {index}, the program has {len(self._steps)}")
        step = self._steps[index]
        yield self._event(step.kind, step.name, start, stop, step.partition, step.index)
        if step.kind is not SpanKind.DELEGATE:
            return
        for command, begin, end in commands:
            yield self._command(step.partition, command, begin, end)
        numbers = self._program.calls[step.partition].commands
        if driver is None or len(commands) != len(numbers):
            return  # events are lost: the time between the others is unknown
        yield self._event(SpanKind.DISPATCH, "executor", start, driver[0], step.partition)
        at = driver[0]
        for command, begin, end in commands:
            number = numbers[command]
            yield self._event(
                SpanKind.DISPATCH, "driver", at, begin, step.partition, index=-1 if number is None else number
            )
            at = end
        yield self._event(SpanKind.DISPATCH, "driver", at, driver[1], step.partition)
        yield self._event(SpanKind.DISPATCH, "executor", driver[1], stop, step.partition)

    def _command(self, partition: int, command: int, start: int, stop: int) -> Event:
        calls = self._program.calls[partition]
        if command >= len(calls.commands):
            raise self._error(f"an event is about command {command}, partition {partition} has {len(calls.commands)}")
        number = calls.commands[command]
        if number is not None:
            return self._event(SpanKind.KERNEL, calls.kernels[number], start, stop, partition, number)
        nbytes = calls.transfers[command]
        kind = SpanKind.FETCH if nbytes else SpanKind.WAIT
        return self._event(kind, f"command {command}", start, stop, partition, command, nbytes)

    def _event(
        self, kind: SpanKind, name: str, start: int, stop: int, partition: int = -1, index: int = -1, nbytes: int = 0
    ) -> Event:
        return Event(kind, Track.CPU, start, stop, name, self._run, partition, index, nbytes)

    def _error(self, message: str) -> FormatError:
        return FormatError(message, where=self._where, hint="give the build that the firmware was made from")
