"""Converts timelines of the simulator to events."""

from collections.abc import Iterable, Iterator

from deuteron.npu.program import NpuProgram
from deuteron.npu.timeline import Activity, Timeline
from deuteron.views.events.events import Clock, Event, Measure, SpanKind, Stream, Track
from deuteron.views.events.gaps import with_gaps

_KINDS = {
    Activity.DISPATCH: SpanKind.DISPATCH,
    Activity.KERNEL: SpanKind.KERNEL,
    Activity.SETUP: SpanKind.FETCH,
    Activity.TRANSFER: SpanKind.TRANSFER,
    Activity.STALL: SpanKind.WAIT,
}


def stream(partitions: Iterable[tuple[NpuProgram, Timeline]]) -> Stream:
    """Return the events of one run of these partitions, one after the other; there is at least one."""
    events: list[Event] = []
    begin, clock, measure = 0, 0, Measure.SIMULATED
    for number, (program, timeline) in enumerate(partitions):
        stop = begin + timeline.cycles
        events.append(Event(SpanKind.DELEGATE, Track.CPU, begin, stop, f"npu {number}", partition=number))
        events += _events(program, timeline, number, begin)
        begin, clock, measure = stop, timeline.engine.clock, timeline.measure
    run = Event(SpanKind.RUN, Track.CPU, 0, begin, "run")
    return Stream(Clock("npu", clock, "cycle"), measure, 1, with_gaps([run, *events]))


def _events(program: NpuProgram, timeline: Timeline, partition: int, begin: int) -> Iterator[Event]:
    numbers = program.calls_before
    for event in timeline.events:
        yield Event(
            _KINDS[event.activity],
            event.track,
            begin + event.start,
            begin + event.stop,
            event.name,
            partition=partition,
            index=numbers[event.command] if program.commands[event.command].call else event.command,
            nbytes=event.nbytes,
        )
