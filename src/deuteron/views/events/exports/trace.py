"""Writes events as a trace for the Perfetto UI."""

from collections.abc import Iterator, Sequence

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from deuteron.views.events.events import Event, SpanKind, Stream, Track
from deuteron.views.events.record import Profile

_SEQUENCE = 1
_PROCESS = 1
_TRACKS = {track: number for number, track in enumerate(Track, _PROCESS + 1)}
_TITLES = {Track.CPU: "CPU", Track.NPU: "NPU", Track.FLASH: "flash"}
_PLAIN = (SpanKind.KERNEL, SpanKind.OPERATOR, SpanKind.RUN, SpanKind.DELEGATE)
"""Kinds whose events are shown by name only."""


def trace(stream: Stream, title: str, profile: Profile | None = None) -> bytes:
    """Return the trace of events: tracks for CPU, NPU and flash if they have any; nanoseconds, run after run.

    With a profile, each event has its origin in the model.
    """
    builder = TraceProtoBuilder()
    process = builder.add_packet().track_descriptor
    process.uuid = _PROCESS
    process.process.pid = _PROCESS
    process.process.process_name = title
    busy = {event.track for event in stream.events}
    for track, number in ((track, number) for track, number in _TRACKS.items() if track in busy):
        described = builder.add_packet().track_descriptor
        described.uuid = number
        described.parent_uuid = _PROCESS
        described.name = _TITLES[track]
    begin = 0
    for events in stream.by_run():
        for at, edge, event in _edges(events):
            packet = builder.add_packet()
            packet.timestamp = begin + _nanoseconds(stream, at)
            packet.trusted_packet_sequence_id = _SEQUENCE
            packet.track_event.track_uuid = _TRACKS[event.track]
            packet.track_event.type = edge
            if edge != TrackEvent.TYPE_SLICE_END:
                _describe(packet.track_event, stream, event, profile)
        begin += _nanoseconds(stream, max((event.stop for event in events), default=0))
    return builder.serialize()


def _edges(events: Sequence[Event]) -> Iterator[tuple[int, TrackEvent.Type, Event]]:
    """Yield begins and ends in order: at equal times ends come first, and containers begin before their content.

    A kernel of zero ticks is an instant.
    """
    ends = [(event.stop, 0, event.ticks, TrackEvent.TYPE_SLICE_END, event) for event in events if event.ticks]
    begins = [(event.start, 1, -event.ticks, TrackEvent.TYPE_SLICE_BEGIN, event) for event in events if event.ticks]
    moments = [
        (event.start, 1, 0, TrackEvent.TYPE_INSTANT, event)
        for event in events
        if event.kind is SpanKind.KERNEL and not event.ticks
    ]
    for at, _, _, edge, event in sorted((*ends, *begins, *moments), key=lambda edge: edge[:3]):
        yield at, edge, event


def _nanoseconds(stream: Stream, ticks: int) -> int:
    return round(stream.clock.microseconds(ticks) * 1000)


def _describe(slice_: TrackEvent, stream: Stream, event: Event, profile: Profile | None) -> None:
    slice_.name = event.name if event.kind in _PLAIN else f"{event.kind.value}: {event.name}"
    slice_.categories.append(event.kind.value)
    _number(slice_, f"ticks ({stream.clock.tick})", event.ticks)
    if event.nbytes:
        _number(slice_, "bytes", event.nbytes)
    if event.index >= 0:
        _number(slice_, "index", event.index)
    if profile is None:
        return
    if event.kind is SpanKind.KERNEL:
        partition = profile.partitions[event.partition]
        kernel = partition.kernels[event.index]
        _number(slice_, "MACs", kernel.macs)
        _number(slice_, "SRAM bytes", kernel.nbytes)
        ops = [partition.ops[op] for op in kernel.ops]
        _texts(slice_, "TFLite operator", [op.name for op in ops])
        _texts(slice_, "edge operator", [node for op in ops for node in op.nodes])
        sources = [source for op in ops for source in op.sources]
    elif event.kind is SpanKind.OPERATOR and event.index >= 0:
        _texts(slice_, "edge operator", [profile.cpu_ops[event.index].node])
        sources = list(profile.cpu_ops[event.index].sources)
    else:
        return
    _texts(slice_, "module", [source.module for source in sources])
    _texts(slice_, "line", [f"{source}: {source.code}" if source.line else str(source) for source in sources])


def _number(slice_: TrackEvent, name: str, value: int) -> None:
    annotation = slice_.debug_annotations.add()
    annotation.name = name
    annotation.int_value = value


def _texts(slice_: TrackEvent, name: str, values: list[str]) -> None:
    annotation = slice_.debug_annotations.add()
    annotation.name = name
    annotation.string_value = ", ".join(dict.fromkeys(values))
