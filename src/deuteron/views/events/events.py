"""The common form of events: spans of a clock on the tracks of CPU, NPU and flash."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from deuteron.npu.timeline import Measure as Measure
from deuteron.npu.timeline import Track as Track


class SpanKind(Enum):
    """Kind of an event; the value is its name in reports."""

    RUN = "run"
    DELEGATE = "delegate"
    KERNEL = "kernel"
    DISPATCH = "dispatch"
    FETCH = "fetch"
    TRANSFER = "transfer"
    WAIT = "wait"
    OPERATOR = "operator"
    TRANSPOSE = "transpose"
    COPY_IN = "copy in"
    COPY_OUT = "copy out"
    UNATTRIBUTED = "unattributed"


@dataclass(frozen=True, slots=True)
class Clock:
    """Clock of a stream: its name, ticks per second, and the unit of a tick (`ns`, `cycle`, `instruction`)."""

    id: str
    hz: int
    tick: str

    def microseconds(self, ticks: int) -> float:
        """Return the length of so many ticks."""
        return ticks * 1e6 / self.hz


@dataclass(frozen=True, slots=True)
class Event:
    """One span of a run.

    Attributes:
        start: ticks since the run began; `stop` is the first tick after it.
        name: name of the kernel, operator or tensor.
        run: index of the run.
        partition: partition on the NPU, -1 for none.
        index: number of the kernel call in its partition, also for its dispatch; of the operator among CPU operators,
            of the copied input or output, or of the command that fetches or waits; -1 for none.
        nbytes: bytes moved by a copy or transfer.
    """

    kind: SpanKind
    track: Track
    start: int
    stop: int
    name: str
    run: int = 0
    partition: int = -1
    index: int = -1
    nbytes: int = 0

    @property
    def ticks(self) -> int:
        """Return its length."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class NpuCycles:
    """Cycles that an NPU's own counter counted in a partition of a run; not times of a stream's clock."""

    run: int
    partition: int
    cycles: int


@dataclass(frozen=True, slots=True)
class NpuCount:
    """Count of another of an NPU's own counters in a partition of a run, by the event number of its manual."""

    run: int
    partition: int
    what: int
    count: int


@dataclass(frozen=True, slots=True)
class Stream:
    """All events of some runs, by one clock.

    RUN and DELEGATE events contain others; their uncovered time is UNATTRIBUTED. Other events of a run do not overlap
    on one track.

    Attributes:
        lost: events that did not fit into the recorder's memory.
        npu_cycles: of each partition and run, if the NPU has a counter.
        npu_counts: of its other counters.
    """

    clock: Clock
    measure: Measure
    runs: int
    events: tuple[Event, ...]
    lost: int = 0
    npu_cycles: tuple[NpuCycles, ...] = ()
    npu_counts: tuple[NpuCount, ...] = ()

    def by_run(self) -> tuple[tuple[Event, ...], ...]:
        """Return the events of each run."""
        return by_run(self.events, range(self.runs))

    def lengths(self) -> dict[int, int]:
        """Return the ticks of each recorded run."""
        return {event.run: event.ticks for event in self.events if event.kind is SpanKind.RUN}

    def median(self) -> "Stream":
        """Return only the run of median length, so that all reported numbers belong together.

        If the number of runs is even, it is the shorter one in the middle. Outliers have no effect, and rows add up,
        unlike means or medians of each part.
        """
        lengths = self.lengths()
        ordered = sorted(lengths, key=lambda run: (lengths[run], run))
        chosen = ordered[(len(ordered) - 1) // 2] if ordered else 0
        events = tuple(event for event in self.events if event.run == chosen)
        cycles = tuple(c for c in self.npu_cycles if c.run == chosen)
        counts = tuple(c for c in self.npu_counts if c.run == chosen)
        return replace(self, runs=1, events=events, npu_cycles=cycles, npu_counts=counts)


def by_run(events: Iterable[Event], runs: Iterable[int]) -> tuple[tuple[Event, ...], ...]:
    """Return the events of each of these runs, in order."""
    grouped: dict[int, list[Event]] = {run: [] for run in runs}
    for event in events:
        if event.run in grouped:
            grouped[event.run].append(event)
    return tuple(tuple(each) for each in grouped.values())
