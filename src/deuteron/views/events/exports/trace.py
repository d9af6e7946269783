"""Events as a trace that the Perfetto UI opens.

Numbers of fields are those of Perfetto's `perfetto_trace.proto`; each class of constants is a message of it.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum

from deuteron.views.events.events import Event, Kind, Stream, Track
from deuteron.views.events.exports.protobuf import Value, message
from deuteron.views.events.record import Profile

_SEQUENCE = 1
_PROCESS = 1
_TRACKS = {track: number for number, track in enumerate(Track, _PROCESS + 1)}
_TITLES = {Track.CPU: "CPU", Track.NPU: "NPU", Track.FLASH: "flash"}
_PLAIN = (Kind.KERNEL, Kind.OPERATOR, Kind.RUN, Kind.DELEGATE)
"""Kinds whose events are called by their names alone."""

Fields = Iterator[tuple[int, Value]]

_PACKET = 1
"""Of a trace."""


class _Packet(IntEnum):
    TIMESTAMP, SEQUENCE, EVENT, TRACK = 8, 10, 11, 60


class _Described(IntEnum):
    UUID, NAME, PROCESS, PARENT = 1, 2, 3, 5


class _Process(IntEnum):
    PID, NAME = 1, 6


class _Event(IntEnum):
    NOTES, TYPE, TRACK, CATEGORY, NAME = 4, 9, 11, 22, 23


class _Note(IntEnum):
    NUMBER, TEXT, NAME = 4, 6, 10


class _Edge(IntEnum):
    BEGIN, END, INSTANT = 1, 2, 3


def trace(stream: Stream, title: str, profile: Profile | None = None) -> bytes:
    """The trace of events: tracks for those of CPU, NPU and flash that have any; nanoseconds, run after run.

    With a profile, each event has what it maps to.
    """
    return message(*((_PACKET, packet) for packet in _packets(stream, title, profile)))


def _packets(stream: Stream, title: str, profile: Profile | None) -> Iterator[bytes]:
    process = message((_Process.PID, _PROCESS), (_Process.NAME, title))
    yield _described((_Described.UUID, _PROCESS), (_Described.PROCESS, process))
    busy = {event.track for event in stream.events}
    for track, number in ((track, number) for track, number in _TRACKS.items() if track in busy):
        parent = (_Described.PARENT, _PROCESS)
        yield _described((_Described.UUID, number), parent, (_Described.NAME, _TITLES[track]))
    begin = 0
    for events in stream.by_run():
        for at, edge, event in _edges(events):
            described = () if edge is _Edge.END else _description(stream, event, profile)
            yield message(
                (_Packet.TIMESTAMP, begin + _nanoseconds(stream, at)),
                (_Packet.SEQUENCE, _SEQUENCE),
                (_Packet.EVENT, message((_Event.TYPE, edge), (_Event.TRACK, _TRACKS[event.track]), *described)),
            )
        begin += _nanoseconds(stream, max((event.stop for event in events), default=0))


def _described(*fields: tuple[int, Value]) -> bytes:
    return message((_Packet.TRACK, message(*fields)))


def _edges(events: Sequence[Event]) -> Iterator[tuple[int, _Edge, Event]]:
    """Begins and ends in order: of those at one time ends come first, and what contains begins before what it holds.

    A kernel that took no tick of the clock is an instant.
    """
    ends = [(event.stop, 0, event.ticks, _Edge.END, event) for event in events if event.ticks]
    begins = [(event.start, 1, -event.ticks, _Edge.BEGIN, event) for event in events if event.ticks]
    moments = [
        (event.start, 1, 0, _Edge.INSTANT, event) for event in events if event.kind is Kind.KERNEL and not event.ticks
    ]
    for at, _, _, edge, event in sorted((*ends, *begins, *moments), key=lambda edge: edge[:3]):
        yield at, edge, event


def _nanoseconds(stream: Stream, ticks: int) -> int:
    return round(stream.clock.microseconds(ticks) * 1000)


def _description(stream: Stream, event: Event, profile: Profile | None) -> Fields:
    """The name of an event, and its notes."""
    yield _Event.NAME, event.name if event.kind in _PLAIN else f"{event.kind.value}: {event.name}"
    yield _Event.CATEGORY, event.kind.value
    yield _number(f"ticks ({stream.clock.tick})", event.ticks)
    if event.nbytes:
        yield _number("bytes", event.nbytes)
    if event.index >= 0:
        yield _number("index", event.index)
    if profile is None:
        return
    if event.kind is Kind.KERNEL:
        partition = profile.partitions[event.partition]
        kernel = partition.kernels[event.index]
        yield _number("MACs", kernel.macs)
        yield _number("SRAM bytes", kernel.nbytes)
        ops = [partition.ops[op] for op in kernel.ops]
        yield _texts("TFLite operator", [op.name for op in ops])
        yield _texts("edge operator", [node for op in ops for node in op.nodes])
        sources = [source for op in ops for source in op.sources]
    elif event.kind is Kind.OPERATOR and event.index >= 0:
        yield _texts("edge operator", [profile.cpu_ops[event.index].node])
        sources = list(profile.cpu_ops[event.index].sources)
    else:
        return
    yield _texts("module", [source.module for source in sources])
    yield _texts("line", [f"{source}: {source.code}" if source.line else str(source) for source in sources])


def _number(name: str, value: int) -> tuple[int, bytes]:
    return _Event.NOTES, message((_Note.NAME, name), (_Note.NUMBER, value))


def _texts(name: str, values: list[str]) -> tuple[int, bytes]:
    return _Event.NOTES, message((_Note.NAME, name), (_Note.TEXT, ", ".join(dict.fromkeys(values))))
