"""Reads a build's plan back from its microcode, and compares it with lower bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from deuteron.builds import hazards
from deuteron.builds import manifest as manifests
from deuteron.builds.manifest import StripedSegment
from deuteron.builds.output import check_file, write_files
from deuteron.errors import FormatError
from deuteron.npu.program import NO_SRAM, PREFETCH_AREA, Content, Memory
from deuteron.views.memory.arenas import ArenaPlanning, arena_planning
from deuteron.views.memory.drawing import MemoryDrawing, picture, svg
from deuteron.views.simulate import PartitionRun, Simulation, simulate_build

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The fetches of a partition; times in cycles.

    Attributes:
        fetches: number of fetches in every run.
        nbytes: bytes that they move.
        resident_fetches: number of additional fetches in the first run.
        resident_bytes: bytes that these move.
        cycles: cycles of a run.
        bound: lower bound for any order of these fetches with the same resident bytes.
        bound_of_all: lower bound for any plan that fetches the same pieces, whichever of them are resident.
        proven: true if no such plan is faster than this one.
        serial: cycles if each fetch, resident or not, ran in every run and was waited for before its call.
    """

    fetches: int
    nbytes: int
    resident_fetches: int
    resident_bytes: int
    cycles: int
    bound: int
    bound_of_all: int
    proven: bool
    serial: int


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Plan of one partition; the blocks of its memories are live from command to command.

    Attributes:
        commands: number of commands.
        memories: its memories.
        linked_bytes: weights that are always in SRAM, because nothing fetches them.
        scratch_proven: true if no packing of the intermediate tensors is smaller.
        origins: origin of each block: the kernel, the operators and the line of the model.
        prefetch: its fetches, if it has any.
    """

    commands: int
    memories: tuple[Memory, ...]
    linked_bytes: int
    scratch_proven: bool
    origins: Mapping[str, str]
    prefetch: Prefetch | None

    def drawings(self, number: int) -> Iterator[MemoryDrawing]:
        """Yield the drawings of partition `number`."""
        for memory in self.memories:
            yield MemoryDrawing(f"npu {number} {self.title(memory)}", memory, self.commands, self.origins)

    def title(self, memory: Memory) -> str:
        """Return its name and size, with the lower bound."""
        if memory.name != PREFETCH_AREA:
            proven = ", proven optimal" if self.scratch_proven else ""
            share = f"({memory.nbytes / max(1, memory.bound):.3f} of that bound{proven})"
            return f"{memory.name}: {memory.nbytes:,} B, at most {memory.bound:,} B live at once {share}"
        resident = self.prefetch.resident_bytes if self.prefetch else 0
        return f"{PREFETCH_AREA}: {memory.nbytes:,} B, {resident:,} B of it for resident weights"

    def summary(self) -> str:
        """Return its SRAM."""
        parts = {memory.name: memory.nbytes for memory in self.memories} | {"linked weights": self.linked_bytes}
        listed = " + ".join(f"{nbytes:,} B {name}" for name, nbytes in parts.items() if nbytes)
        return listed or "no own memory"


@dataclass(frozen=True, slots=True)
class Planning:
    """Plan of a build; times are simulated."""

    path: str
    target: str
    simulation: Simulation
    partitions: tuple[PartitionPlan, ...]
    arena: ArenaPlanning | None = None
    """The plan of CPU tensors, unless ExecuTorch's plan is used."""
    stripes: tuple[StripedSegment, ...] = ()
    """The segments that were cut before another compiler got them."""

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield f"{self.path} on {self.target}"
        if self.partitions:
            yield self.summary()
        if self.arena is not None:
            yield from self.arena.details()
        if self.stripes:
            yield "cut into stripes of rows before Vela; outputs stay the same:"
            yield from (f"  {segment}" for segment in self.stripes)
        for number, part in enumerate(self.partitions):
            yield ""
            yield f"npu {number}: {part.summary()}"
            yield from (f"  {line}" for line in self.simulation.partitions[number].depth_first())
            for drawing in part.drawings(number):
                yield ""
                yield drawing.title
                yield from picture(drawing)
            if part.prefetch is not None:
                yield ""
                yield from self._prefetch_lines(number, part.prefetch)
        if self.simulation.band is not None and any(part.prefetch for part in self.partitions):
            yield f"{self.simulation.kind} times: {self.simulation.band}"

    def summary(self) -> str:
        """Return the total SRAM, the planned budget, and the largest share of other memories."""
        linked = sum(part.linked_bytes for part in self.partitions)
        working = [[memory for memory in part.memories if memory.name not in NO_SRAM] for part in self.partitions]
        names = "largest partition" if len(working) > 1 else " and ".join(memory.name for memory in working[0])
        tensors = self.simulation.tensors if self.arena is None else self.arena.arena.memory.nbytes
        parts = {"inputs, outputs and CPU tensors": tensors, "state": self.simulation.state}
        parts |= {"contexts of partitions": self.simulation.contexts, "linked weights": linked}
        parts[names] = max(sum(memory.nbytes for memory in memories) for memories in working)
        listed = " + ".join(f"{nbytes:,} B {name}" for name, nbytes in parts.items() if nbytes)
        of = f" of {self.simulation.sram:,} B" if self.simulation.sram else ""
        others = sorted((m for part in self.partitions for m in part.memories if m.name in NO_SRAM), key=_size)
        rest = "".join(f"; {nbytes:,} B {name}" for name, nbytes in {m.name: m.nbytes for m in others}.items())
        return f"SRAM: {listed} = {sum(parts.values()):,} B{of}{rest}"

    def _prefetch_lines(self, number: int, area: Prefetch) -> Iterator[str]:
        def us(cycles: int) -> str:
            return f"{self.simulation.engine.microseconds(cycles):,.1f} us"

        kept = f"; {area.resident_fetches} of {area.resident_bytes:,} B in the first run only (resident)"
        yield (
            f"npu {number} prefetch: {area.fetches} fetches of {area.nbytes:,} B per run"
            f"{kept if area.resident_fetches else ''}"
        )
        yield (
            f"  simulated {us(area.cycles)}{', proven optimal' if area.proven else ''}; lower bound of these fetches "
            f"{us(area.bound)} ({area.cycles / area.bound:.3f} of it), of all plans with these pieces "
            f"{us(area.bound_of_all)}; all fetched one by one in every run {us(area.serial)} "
            f"({area.serial / area.cycles:.2f} times as long)"
        )

    def to_json(self) -> dict[str, object]:
        """Return the report as plain values; times in cycles of the NPU's clock, simulated."""
        return {
            "schema": SCHEMA,
            "kind": self.simulation.kind,
            "path": self.path,
            "target": self.target,
            "clock": self.simulation.engine.clock,
            "sram": self.simulation.sram,
            "tensors": self.simulation.tensors,
            "state": self.simulation.state,
            "contexts": self.simulation.contexts,
            "bundle": None if self.arena is None else self.arena.to_json(),
            "stripes": [asdict(segment) for segment in self.stripes],
            "warnings": list(self.warnings),
            "partitions": [asdict(part) for part in self.partitions],
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return sentences about faults of the partitions."""
        warnings: list[str] = []
        for number, run in enumerate(self.simulation.partitions):
            warnings += hazards.warnings(number, run.program, run.entry, run.hazards)
        return tuple(warnings)

    def svg(self) -> str:
        """Return the memories over time as a picture."""
        own = [] if self.arena is None else [self.arena.drawing()]
        parts = (drawing for number, part in enumerate(self.partitions) for drawing in part.drawings(number))
        return svg([*own, *parts])


def _size(memory: Memory) -> int:
    return memory.nbytes


def of_build(directory: Path) -> Planning | ArenaPlanning:
    """Return the plan of the build in a directory, for any target; raises the errors of `planning`."""
    arena = arena_planning(directory)
    return _planning(directory, arena) if arena is None or arena.manifest.partitions else arena


def planning(directory: Path) -> Planning:
    """Return the plan of the build in a directory, whose target has an NPU; raises the errors of `simulate_build`.

    Raises:
        FormatError: also if its microcode is wrong, unless another compiler made it.
    """
    return _planning(directory, arena_planning(directory))


def _planning(directory: Path, arena: ArenaPlanning | None) -> Planning:
    simulation = simulate_build(directory)
    for number, run in enumerate(simulation.partitions):
        if run.hazards and not run.program.advice:
            raise FormatError(
                f"the microcode of npu {number} is wrong: {run.describe(run.hazards[0])}",
                where=str(directory),
                hint="`deuteron sim` lists all errors; build the model again",
            )
    parts = tuple(_partition(run) for run in simulation.partitions)
    stripes = manifests.read(directory).stripes
    return Planning(str(directory), simulation.target, simulation, parts, arena, stripes)


class Drawable(Protocol):
    """An object that can be drawn."""

    def svg(self) -> str:
        """Return the memories over time as a picture."""
        ...


def write_svg(planning: Drawable, path: Path, *, force: bool = False) -> None:
    """Write the picture; InputError if the file exists, unless `force` is set, or cannot be written."""
    check_file(path, force=force)
    write_files({path: planning.svg().encode()})


def _partition(run: PartitionRun) -> PartitionPlan:
    program = run.program
    placements = program.placements(run.entry.dataflow)
    return PartitionPlan(
        len(program.commands),
        tuple(placement.memory for placement in placements),
        program.linked_bytes,
        run.entry.scratch_proven_optimal,
        {name: _words(run, content) for placement in placements for name, content in placement.contents.items()},
        _prefetch(run),
    )


def _prefetch(run: PartitionRun) -> Prefetch | None:
    fetching = run.program.fetching(run.timeline.engine)
    if fetching is None:
        return None
    return Prefetch(
        len(fetching.streamed),
        sum(fetching.streamed),
        len(fetching.resident),
        sum(fetching.resident),
        run.timeline.cycles,
        max(fetching.bound, run.entry.prefetch_bound),
        run.entry.prefetch_bound,
        run.entry.prefetch_proven_optimal,
        fetching.serial,
    )


def _words(run: PartitionRun, content: Content) -> str:
    """Return the origin of a block: kernels, their operators, and their line; for a single call also its rows."""
    rows = len(content.commands) == 1
    listed = ", ".join(dict.fromkeys(_origin(run, at, rows=rows) for at in content.commands))
    of = f"{content.what} of {listed}" if listed else content.what
    return f"{of}{', resident' if content.is_resident else ''}"


def _origin(run: PartitionRun, command: int, *, rows: bool) -> str:
    """Return the kernel of a call, its operators and their line, and its `rows`, if not all."""
    call = run.program.commands[command].call
    return f"{call.kernel} {run.origin(command, rows=rows)}".rstrip() if call else ""
