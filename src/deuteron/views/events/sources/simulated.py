"""Timelines of the simulator as events."""

from collections.abc import Iterable, Iterator

from deuteron.npu.neutron.machine import timeline as sim
from deuteron.npu.neutron.microcode.decode import Call, Decoded
from deuteron.views.events.events import Clock, Event, Kind, Measure, Stream, Track
from deuteron.views.events.gaps import with_gaps

_KINDS = {
    sim.Activity.DISPATCH: Kind.DISPATCH,
    sim.Activity.KERNEL: Kind.KERNEL,
    sim.Activity.SETUP: Kind.FETCH,
    sim.Activity.TRANSFER: Kind.TRANSFER,
    sim.Activity.STALL: Kind.WAIT,
}


def stream(partitions: Iterable[tuple[Decoded, sim.Timeline]]) -> Stream:
    """The events of one run of these partitions, one after the other; there is at least one."""
    events: list[Event] = []
    begin, clock = 0, 0
    for number, (decoded, timeline) in enumerate(partitions):
        stop = begin + timeline.cycles
        events.append(Event(Kind.DELEGATE, Track.CPU, begin, stop, f"npu {number}", partition=number))
        events += _events(decoded, timeline, number, begin)
        begin, clock = stop, timeline.engine.clock
    run = Event(Kind.RUN, Track.CPU, 0, begin, "run")
    return Stream(Clock("npu", clock, "cycle"), Measure.SIMULATED, 1, with_gaps([run, *events]))


def _events(decoded: Decoded, timeline: sim.Timeline, partition: int, begin: int) -> Iterator[Event]:
    numbers = decoded.calls_before
    for event in timeline.events:
        yield Event(
            _KINDS[event.activity],
            event.track,
            begin + event.start,
            begin + event.stop,
            event.name,
            partition=partition,
            index=numbers[event.command] if isinstance(decoded.commands[event.command], Call) else event.command,
            nbytes=event.nbytes,
        )
