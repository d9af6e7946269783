"""The one form of events, whoever recorded them: spans of a clock on the tracks of CPU, NPU and flash."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from deuteron.npu.timeline import Measure as Measure
from deuteron.npu.timeline import Track as Track


class Kind(Enum):
    """What an event is; the value is its name in reports."""

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
    """What counts the time: its name, ticks per second, and what a tick is (`ns`, `cycle`, `instruction`)."""

    id: str
    hz: int
    tick: str

    def microseconds(self, ticks: int) -> float:
        """The length of so many ticks."""
        return ticks * 1e6 / self.hz


@dataclass(frozen=True, slots=True)
class Event:
    """One span of a run.

    Attributes:
        start: ticks since the run began; `stop` is the first tick after it.
        name: the kernel's, operator's or tensor's.
        run: which run.
        partition: of the NPU, -1 for none.
        index: of the kernel call in its partition, also of the dispatch that starts it; of the operator among those on
            the CPU, of the copied input or output, of the command that fetches or waits; -1 for none.
        nbytes: moved by a copy or transfer.
    """

    kind: Kind
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
        """Its length."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class NpuCycles:
    """Cycles that an NPU's own counter has counted in a partition of a run: no time by a stream's clock."""

    run: int
    partition: int
    cycles: int


@dataclass(frozen=True, slots=True)
class NpuCount:
    """What another of an NPU's own counters has counted in a partition of a run, by the number of its manual."""

    run: int
    partition: int
    what: int
    count: int


@dataclass(frozen=True, slots=True)
class Stream:
    """All events of some runs, by one clock.

    RUN and DELEGATE events contain others; what no other event covers of a DELEGATE or a RUN is UNATTRIBUTED. On its
    own track no other event overlaps another of the same run.

    Attributes:
        lost: events that the recorder had no room for.
        npu_cycles: of each partition and run, where the NPU has a counter.
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
        """The events of each run."""
        return by_run(self.events, range(self.runs))

    def lengths(self) -> dict[int, int]:
        """The ticks of each run that is recorded."""
        return {event.run: event.ticks for event in self.events if event.kind is Kind.RUN}

    def median(self) -> "Stream":
        """The run whose length is in the middle, alone: what is shown of all, so that numbers belong together.

        Of an even number, the shorter one. A run that something held up changes nothing, and rows add up, as means or
        medians of each part would not both do.
        """
        lengths = self.lengths()
        ordered = sorted(lengths, key=lambda run: (lengths[run], run))
        chosen = ordered[(len(ordered) - 1) // 2] if ordered else 0
        events = tuple(event for event in self.events if event.run == chosen)
        cycles = tuple(c for c in self.npu_cycles if c.run == chosen)
        counts = tuple(c for c in self.npu_counts if c.run == chosen)
        return replace(self, runs=1, events=events, npu_cycles=cycles, npu_counts=counts)


def by_run(events: Iterable[Event], runs: Iterable[int]) -> tuple[tuple[Event, ...], ...]:
    """The events of each of these runs, in their order."""
    grouped: dict[int, list[Event]] = {run: [] for run in runs}
    for event in events:
        if event.run in grouped:
            grouped[event.run].append(event)
    return tuple(tuple(each) for each in grouped.values())
