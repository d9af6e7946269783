"""Simulates a build on a model of its target: times, and a check that every read finds its bytes."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from deuteron.arch import calibration, targets
from deuteron.arch.engine import Engine
from deuteron.arch.silicon import Band, band
from deuteron.builds import hazards
from deuteron.builds.manifest import Partition
from deuteron.builds.output import check_file, write_files
from deuteron.npu.program import NpuProgram
from deuteron.npu.timeline import Activity, Hazard, Measure, Timeline
from deuteron.views.events.sources import simulated

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class PartitionRun:
    """One partition: its program, the timeline of a run, and the program's hazards, if any.

    `hazards` is None for an NPU without hazard checks.
    """

    program: NpuProgram
    entry: Partition
    timeline: Timeline
    hazards: tuple[Hazard, ...] | None

    def origin(self, command: int, *, rows: bool = True) -> str:
        """Return the operators of a kernel call, the first line of the model of each, and its `rows`."""
        return self.entry.origin(self.program.calls_before[command], rows=rows)

    def depth_first(self) -> Iterator[str]:
        """Yield the chains of kernel calls that run depth first, if there are any."""
        if any(kernel.stripe for kernel in self.entry.kernels):
            costs = [event.cost for event in self.timeline.events if event.cost is not None]
            yield from self.entry.depth_first([cost.macs for cost in costs])

    def describe(self, hazard: Hazard) -> str:
        """Describe a hazard with the operators of its call, or of the next, and their line of the model."""
        return hazards.describe(self.program, self.entry, hazard)


class Resident(Enum):
    """Handling of resident weights in the simulated run; the value is its text in reports."""

    KEPT = "resident weights are in SRAM from the previous run, as in firmware of `deuteron firmware`"
    FIRST_RUN = "resident weights are fetched, as in the first run, and in every run of ExecuTorch's runtime"
    SHARED = "resident weights are fetched in every run, because several partitions share their memory"


@dataclass(frozen=True, slots=True)
class Simulation:
    """The simulated run of a build, partition by partition, without operators on the CPU."""

    path: str
    target: str
    engine: Engine
    partitions: tuple[PartitionRun, ...]
    resident: Resident
    tensors: int
    """Bytes of SRAM of inputs, outputs and CPU tensors in ExecuTorch's plan."""
    sram: int
    """Bytes of SRAM of the plan; 0 if the target's SRAM is unknown."""
    sram_budget: int | None = None
    """Bytes of a new plan of the partitions; None for the microcode of the build."""
    state: int = 0
    """Bytes of SRAM of tensors that last from one run to the next, with their working copies."""
    contexts: int = 0
    """Bytes of SRAM that partitions keep between runs, if a budget counts them."""

    @property
    def sound(self) -> bool | None:
        """Return true if no partition has a hazard; None if none was found but some partitions were not checked."""
        if any(run.hazards for run in self.partitions):
            return False
        return None if any(run.hazards is None for run in self.partitions) else True

    @property
    def passed(self) -> bool:
        """Return true if no hazard was found."""
        return self.sound is not False

    @property
    def kind(self) -> str:
        """Return the origin of the times: simulated by our model, or a compiler's estimates."""
        measures = [run.timeline.measure for run in self.partitions] or [Measure.SIMULATED]
        return measures[0].value

    @property
    def cycles(self) -> int:
        """Return the cycles of all partitions, one after the other."""
        return sum(run.timeline.cycles for run in self.partitions)

    @property
    def utilisation(self) -> float:
        """Return the MAC utilisation over the time of all partitions."""
        possible = self.engine.rows * self.engine.columns * self.cycles
        return sum(run.timeline.macs for run in self.partitions) / possible if possible else 0.0

    @property
    def basis(self) -> tuple[str, ...]:
        """Return the assumptions of the times: rates, resident weights, and known differences from silicon."""
        band = [*([] if self.band is None else [str(self.band)]), *calibration.notes(self.target, "npu")]
        schedules = [run.entry.schedule for run in self.partitions if run.timeline.measure is Measure.ESTIMATED]
        if schedules:
            clock = f"NPU at {self.engine.clock / 1e6:g} MHz"
            return (*dict.fromkeys(f"{s.compiler}'s estimates for {s.system}, {clock}" for s in schedules), *band)
        rates = f"NPU at {self.engine.clock / 1e6:g} MHz, flash at {self.engine.flash_bandwidth / 1e6:g} MB/s"
        kept = any(run.program.resident_bytes for run in self.partitions)
        return (rates, *([self.resident.value] if kept else ()), *band)

    @property
    def band(self) -> Band | None:
        """Return the ratio of published silicon times to such times, if there is one."""
        return band(targets.load(self.target))

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield from self.heading()
        for number, run in enumerate(self.partitions):
            yield ""
            yield from _partition_lines(number, run)
        if len(self.partitions) > 1:
            yield ""
            yield (
                f"all partitions: {self.engine.microseconds(self.cycles):,.1f} us, {self.cycles:,} cycles; "
                f"{self.utilisation:.1%} MAC utilisation"
            )

    def heading(self) -> Iterator[str]:
        """Yield the subject of the numbers."""
        rates, *others = self.basis
        yield f"{self.path} on {self.target}, {self.kind}: {rates}; operators on the CPU not counted"
        if self.sram_budget is not None:
            yield f"planned again for {self.sram_budget:,} bytes of SRAM and this flash; the build is unchanged"
        yield from others
        if any(run.hazards is None for run in self.partitions):
            yield "not checked: waits between dependent commands"

    def to_json(self) -> dict[str, object]:
        """Return the report as plain values; times in cycles of the NPU's clock."""
        return {
            "schema": SCHEMA,
            "kind": self.kind,
            "basis": list(self.basis),
            "path": self.path,
            "target": self.target,
            "clock": self.engine.clock,
            "flash_bandwidth": self.engine.flash_bandwidth,
            "sram_budget": self.sram_budget,
            "resident": self.resident.name.lower(),
            "sound": self.sound,
            "cycles": self.cycles,
            "utilisation": self.utilisation,
            "partitions": [_partition_json(run) for run in self.partitions],
        }


def write_trace(simulation: Simulation, path: Path, *, force: bool = False) -> None:
    """Write a trace for the Perfetto UI.

    Raises:
        InputError: the file exists, unless `force` is set, or cannot be written.
    """
    from deuteron.views.events.exports.trace import trace  # its package loads slowly

    check_file(path, force=force)
    events = simulated.stream((run.program, run.timeline) for run in simulation.partitions)
    write_files({path: trace(events, f"deuteron ({simulation.kind})")})


def _partition_lines(number: int, run: PartitionRun) -> Iterator[str]:
    timeline, rates = run.timeline, run.timeline.engine
    totals = {activity: timeline.total(activity) for activity in Activity}
    yield (
        f"npu {number}: {timeline.microseconds:,.1f} us, {timeline.cycles:,} cycles; {timeline.macs:,} MACs, "
        f"{timeline.utilisation:.1%} MAC utilisation; bound by {timeline.bound()}"
    )
    yield "  " + ", ".join(
        f"{activity.value} {rates.microseconds(cycles):,.1f} us ({cycles / timeline.cycles:.1%})"
        for activity, cycles in totals.items()
        if cycles
    )
    yield from (f"  {line}" for line in run.depth_first())
    yield f"  {'start us':>10} {'us':>10} {'stall us':>10} {'MACs':>13} {'bytes':>10}  bound     kernel"
    stalled = dispatch = 0
    for event in timeline.events:
        if event.activity is Activity.STALL:
            stalled += event.cycles
        elif event.activity is Activity.DISPATCH:
            dispatch = event.cycles
        elif event.cost is not None:
            cost = event.cost
            shares = {cost.bound: event.cycles, "flash": stalled, "dispatch": dispatch}
            yield (
                f"  {rates.microseconds(event.start):>10,.1f} {rates.microseconds(event.cycles):>10,.1f} "
                f"{rates.microseconds(stalled):>10,.1f} {cost.macs:>13,} {cost.sram_bytes:>10,}  "
                f"{max(shares, key=lambda name: shares[name]):<8}  {event.name}  {run.origin(event.command)}"
            )
            stalled = 0
    for hazard in run.hazards or ():
        yield f"  wrong: {run.describe(hazard)}"
    if run.hazards and run.program.advice:
        yield f"  {run.program.advice}"


def _partition_json(run: PartitionRun) -> dict[str, object]:
    timeline = run.timeline
    return {
        "cycles": timeline.cycles,
        "macs": timeline.macs,
        "utilisation": timeline.utilisation,
        "bound": timeline.bound(),
        "totals": {activity.value: timeline.total(activity) for activity in Activity},
        "hazards": None
        if run.hazards is None
        else [
            {"command": hazard.command, "message": hazard.message, "origin": run.origin(hazard.command)}
            for hazard in run.hazards
        ],
        "events": [
            {
                "track": event.track.value,
                "activity": event.activity.value,
                "command": event.command,
                "start": event.start,
                "stop": event.stop,
                "name": event.name,
                "bytes": event.cost.sram_bytes if event.cost else event.nbytes,
                "macs": event.cost.macs if event.cost else 0,
            }
            for event in timeline.events
        ],
    }
