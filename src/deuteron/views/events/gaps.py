"""Adds events for unexplained time."""

from collections.abc import Iterable, Iterator, Sequence

from deuteron.views.events.events import Event, SpanKind, Track, by_run

CONTAINERS = (SpanKind.RUN, SpanKind.DELEGATE)


def with_gaps(events: Iterable[Event]) -> tuple[Event, ...]:
    """Return the events, and an UNATTRIBUTED one for each gap in a DELEGATE or RUN."""
    ordered = sorted(events, key=_order)
    gaps = (gap for run in by_run(ordered, {event.run: None for event in ordered}) for gap in _gaps(run))
    return tuple(sorted((*ordered, *gaps), key=_order))


def attributed(events: Sequence[Event], kind: SpanKind = SpanKind.DELEGATE) -> float | None:
    """Return the share of the time of these containers that events explain; None if none took time."""
    whole = sum(event.ticks for event in events if event.kind is kind)
    gaps = 0
    for run in by_run(events, {event.run: None for event in events}):
        inside = [event for event in run if event.kind is kind]
        missing = (event for event in run if event.kind is SpanKind.UNATTRIBUTED)
        gaps += sum(gap.ticks for gap in missing if any(_is_inside(gap, container) for container in inside))
    return 1 - gaps / whole if whole else None


def _order(event: Event) -> tuple[int, int, bool, bool, int]:
    """Order by run and time; a container precedes its content, an event of zero ticks the one that follows it."""
    return event.run, event.start, event.kind not in CONTAINERS, event.ticks > 0, -event.stop


def _is_inside(event: Event, container: Event) -> bool:
    return container.start <= event.start and event.stop <= container.stop


def _gaps(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the gaps of one run."""
    for container in events:
        if container.kind not in CONTAINERS:
            continue
        inner = [e for e in events if e.kind not in CONTAINERS and _is_inside(e, container)]
        if container.kind is SpanKind.RUN:  # gaps in a delegate are reported there
            inner += [e for e in events if e.kind is SpanKind.DELEGATE]
        end = container.start
        for event in sorted(inner, key=_order):
            yield from _gap(container, end, event.start)
            end = max(end, event.stop)
        yield from _gap(container, end, container.stop)


def _gap(container: Event, start: int, stop: int) -> Iterator[Event]:
    if stop > start:
        where = "between steps" if container.kind is SpanKind.RUN else "in the delegate"
        yield Event(SpanKind.UNATTRIBUTED, Track.CPU, start, stop, where, container.run, container.partition)
