"""Compares two simulated builds: differences in time per kernel."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import zip_longest

from deuteron.errors import OptionError
from deuteron.npu.timeline import Activity, Timeline
from deuteron.views.simulate.run import PartitionRun, Simulation

SCHEMA = 1

Key = tuple[str, tuple[tuple[str, ...], ...]]
"""A kernel, and the outputs of each TFLite operator in its call: the same in every build of a model."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Cost of the calls of one kernel for the same operators; several calls if it is split into pieces.

    Attributes:
        calls: number of calls.
        microseconds: time of dispatch, of the kernels, and of the waits for weights right before them.
        stall: time of those waits alone.
        nbytes: bytes that the kernels read and write.
    """

    calls: int = 0
    microseconds: float = 0.0
    stall: float = 0.0
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A kernel of partition `partition` in both builds; None if one lacks it."""

    partition: int
    kernel: str
    origin: str
    before: KernelCost | None
    after: KernelCost | None

    @property
    def change(self) -> float:
        """Return the increase in microseconds from the first to the second build."""
        return (self.after or KernelCost()).microseconds - (self.before or KernelCost()).microseconds

    def line(self) -> str:
        """Return its row of the report."""
        a, b = self.before, self.after
        cut = f"  {a.calls} to {b.calls} calls" if a and b and a.calls != b.calls else ""
        return (
            f"{_us(a and a.microseconds)} {_us(b and b.microseconds)} {self.change:>+10,.1f} {_us(a and a.stall, 9)} "
            f"{_us(b and b.stall, 9)} {_count(a)} {_count(b)}  npu {self.partition} {self.kernel}{cut}  {self.origin}"
        )


@dataclass(frozen=True, slots=True)
class SimulationChanges:
    """Two simulations and their differences, largest first."""

    before: Simulation
    after: Simulation
    changes: tuple[Change, ...]
    same: int
    """Number of kernels with equal cost in both."""

    @property
    def passed(self) -> bool:
        """Return true if no hazard was found in either."""
        return self.before.passed and self.after.passed

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        for letter, side in (("A", self.before), ("B", self.after)):
            yield from (f"{letter}: {line}" for line in side.heading())
        for title, totals in (("total", self.totals()), *_activities(self.before, self.after)):
            yield f"{title}: {_change(*totals)}"
        yield ""
        yield f"{'A us':>10} {'B us':>10} {'change':>10} {'A stall':>9} {'B stall':>9} {'A bytes':>10} {'B bytes':>10}"
        yield from (row.line() for row in self.changes)
        yield f"{self.same} kernels are equal in both"
        for side in (self.before, self.after):
            for number, run in enumerate(side.partitions):
                hazards = run.hazards or ()
                yield from (f"wrong in npu {number} of {side.path}: {run.describe(hazard)}" for hazard in hazards)
                if hazards and run.program.advice:
                    yield f"  {run.program.advice}"

    def totals(self) -> tuple[float, float]:
        """Return the microseconds of both."""
        before, after = (sum(run.timeline.microseconds for run in s.partitions) for s in (self.before, self.after))
        return before, after

    def to_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        before, after = self.totals()
        return {
            "schema": SCHEMA,
            "kind": self.before.kind,
            "before": {"path": self.before.path, "microseconds": before, "sound": self.before.sound},
            "after": {"path": self.after.path, "microseconds": after, "sound": self.after.sound},
            "differences": [{**asdict(row), "change": row.change} for row in self.changes],
            "same": self.same,
        }


def changes(before: Simulation, after: Simulation) -> SimulationChanges:
    """Compare two simulations, partition by partition; OptionError if their times are not comparable."""
    if before.kind != after.kind:
        raise OptionError(
            f"the first build's times are {before.kind}, the second's {after.kind}: they are not comparable",
            hint="compare builds for NPUs of one family",
        )
    rows: list[Change] = []
    for number, (a, b) in enumerate(zip_longest(before.partitions, after.partitions)):
        mine, theirs = (_spent(run) if run else {} for run in (a, b))
        for key in dict.fromkeys((*mine, *theirs)):
            (before_origin, first), (after_origin, second) = (side.get(key, ("", None)) for side in (mine, theirs))
            rows.append(Change(number, key[0], before_origin or after_origin, first, second))
    changed = [row for row in rows if row.before != row.after]
    changed.sort(key=lambda row: -abs(row.change))
    return SimulationChanges(before, after, tuple(changed), len(rows) - len(changed))


def _spent(run: PartitionRun) -> dict[Key, tuple[str, KernelCost]]:
    """Return for each kernel and its outputs the operators as text, and the cost of its calls."""
    timeline, spent = run.timeline, dict[Key, tuple[str, KernelCost]]()
    overhead = stall = 0
    calls = iter(run.entry.kernels)
    for event in timeline.events:
        if event.activity is Activity.STALL:
            stall += event.cycles
        elif event.activity is Activity.DISPATCH:
            overhead = event.cycles
        elif event.cost is not None:
            key = event.name, tuple(run.entry.ops[index].outputs for index in next(calls).ops)
            before = spent.get(key, ("", KernelCost()))[1]
            spent[key] = (
                run.origin(event.command),
                KernelCost(
                    before.calls + 1,
                    before.microseconds + timeline.engine.microseconds(stall + overhead + event.cycles),
                    before.stall + timeline.engine.microseconds(stall),
                    before.nbytes + event.cost.sram_bytes,
                ),
            )
            stall = 0
    return spent


def _activities(before: Simulation, after: Simulation) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield the time of each kind of activity in both."""

    def total(simulation: Simulation, activity: Activity) -> float:
        timelines: list[Timeline] = [run.timeline for run in simulation.partitions]
        return sum(timeline.engine.microseconds(timeline.total(activity)) for timeline in timelines)

    for activity in Activity:
        both = total(before, activity), total(after, activity)
        if any(both):
            yield f"  {activity.value}", both


def _change(before: float, after: float) -> str:
    share = f", {after / before - 1:+.1%}" if before else ""
    return f"{before:,.1f} us to {after:,.1f} us ({after - before:+,.1f} us{share})"


def _us(value: float | None, width: int = 10) -> str:
    return f"{'-' if value is None else f'{value:,.1f}':>{width}}"


def _count(spent: KernelCost | None) -> str:
    return f"{'-' if spent is None else f'{spent.nbytes:,}':>10}"
