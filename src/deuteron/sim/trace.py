"""Timelines as a trace that the Perfetto UI opens."""

from collections.abc import Sequence

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from deuteron.sim.timeline import Activity, Event, Timeline, Track

_SEQUENCE = 1
_PROCESS = 1
_TRACKS = {track: number for number, track in enumerate(Track, _PROCESS + 1)}
_TITLES = {Track.CPU: "CPU (driver)", Track.NPU: "NPU", Track.FLASH: "flash"}


def trace(timelines: Sequence[Timeline], name: str = "deuteron (simulated)") -> bytes:
    """The trace of timelines that follow each other: a track each for CPU, NPU and flash, times in nanoseconds."""
    builder = TraceProtoBuilder()
    process = builder.add_packet().track_descriptor
    process.uuid = _PROCESS
    process.process.pid = _PROCESS
    process.process.process_name = name
    for track, number in _TRACKS.items():
        described = builder.add_packet().track_descriptor
        described.uuid = number
        described.parent_uuid = _PROCESS
        described.name = _TITLES[track]
    begin = 0
    for timeline in timelines:
        for event in timeline.events:
            _add(builder, timeline, event, begin)
        begin += _nanoseconds(timeline, timeline.cycles)
    return builder.serialize()


def _nanoseconds(timeline: Timeline, cycles: int) -> int:
    return round(timeline.engine.microseconds(cycles) * 1000)


def _add(builder: TraceProtoBuilder, timeline: Timeline, event: Event, begin: int) -> None:
    for kind, cycles in ((TrackEvent.TYPE_SLICE_BEGIN, event.start), (TrackEvent.TYPE_SLICE_END, event.stop)):
        packet = builder.add_packet()
        packet.timestamp = begin + _nanoseconds(timeline, cycles)
        packet.trusted_packet_sequence_id = _SEQUENCE
        slice_ = packet.track_event
        slice_.type = kind
        slice_.track_uuid = _TRACKS[event.track]
        if kind == TrackEvent.TYPE_SLICE_BEGIN:
            slice_.name = event.name if event.activity is Activity.KERNEL else f"{event.activity.value}: {event.name}"
            slice_.categories.append(event.activity.value)
            _annotate(slice_, "command", event.command)
            _annotate(slice_, "cycles", event.cycles)
            if event.cost is not None:
                _annotate(slice_, "MACs", event.cost.macs)
                _annotate(slice_, "SRAM bytes", event.cost.sram_bytes)
            if event.nbytes:
                _annotate(slice_, "bytes", event.nbytes)


def _annotate(slice_: TrackEvent, name: str, value: int) -> None:
    annotation = slice_.debug_annotations.add()
    annotation.name = name
    annotation.int_value = value
