"""The plan of a build, read back from its microcode and put beside lower bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from deuteron.builds import hazards
from deuteron.builds.output import check_file, write_files
from deuteron.errors import FormatError
from deuteron.npu.program import NO_SRAM, PREFETCH_AREA, Content, Memory
from deuteron.views.memory.arenas import ArenaPlanning, arena_planning
from deuteron.views.memory.drawing import Drawing, picture, svg
from deuteron.views.simulate import PartitionRun, Simulation, simulate_build

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The fetches of a partition; times in cycles.

    Attributes:
        fetches: the number that every run makes.
        nbytes: what they move.
        resident_fetches: the number that the first run makes besides.
        resident_bytes: what these move.
        cycles: of a run.
        bound: no order of these fetches, with the same resident bytes, is faster.
        bound_of_all: no plan that fetches the same pieces is faster, whichever of them stay in SRAM.
        proven: whether no such plan is faster than this one.
        serial: each fetch, resident or not, made in every run and waited for before its call.
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
    """What is planned for one partition; the blocks of its memories live from command to command.

    Attributes:
        commands: their number.
        memories: those that it has.
        linked_bytes: weights that lie in SRAM all the time, because nothing fetches them.
        scratch_proven: whether no packing of the intermediate results is smaller.
        origins: what each block is of: the kernel, the operators and the line of the model.
        prefetch: its fetches, if it has any.
    """

    commands: int
    memories: tuple[Memory, ...]
    linked_bytes: int
    scratch_proven: bool
    origins: Mapping[str, str]
    prefetch: Prefetch | None

    def drawings(self, number: int) -> Iterator[Drawing]:
        """What there is to draw of partition `number`."""
        for memory in self.memories:
            yield Drawing(f"npu {number} {self.title(memory)}", memory, self.commands, self.origins)

    def title(self, memory: Memory) -> str:
        """Its name and size, and what that is beside."""
        if memory.name != PREFETCH_AREA:
            proven = ", proven optimal" if self.scratch_proven else ""
            share = f"({memory.nbytes / max(1, memory.bound):.3f} of that bound{proven})"
            return f"{memory.name}: {memory.nbytes:,} B, at most {memory.bound:,} B alive at once {share}"
        resident = self.prefetch.resident_bytes if self.prefetch else 0
        return f"{PREFETCH_AREA}: {memory.nbytes:,} B, {resident:,} B of it for weights that stay"

    def summary(self) -> str:
        """The SRAM that it takes."""
        parts = {memory.name: memory.nbytes for memory in self.memories} | {"linked weights": self.linked_bytes}
        listed = " + ".join(f"{nbytes:,} B {name}" for name, nbytes in parts.items() if nbytes)
        return listed or "no memory of its own"


@dataclass(frozen=True, slots=True)
class Planning:
    """What is planned for a build; times are simulated."""

    path: str
    target: str
    simulation: Simulation
    partitions: tuple[PartitionPlan, ...]
    arena: ArenaPlanning | None = None
    """What is planned for the CPU's steps where ExecuTorch's plan does not stay."""

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.path} on {self.target}"
        if self.partitions:
            yield self.summary()
        if self.arena is not None:
            yield from self.arena.details()
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
        """The SRAM that all of it takes, beside what it was planned for, and the largest share of other memories."""
        linked = sum(part.linked_bytes for part in self.partitions)
        working = [[memory for memory in part.memories if memory.name not in NO_SRAM] for part in self.partitions]
        names = "largest partition" if len(working) > 1 else " and ".join(memory.name for memory in working[0])
        tensors = self.simulation.tensors if self.arena is None else self.arena.arena.memory.nbytes
        parts = {"inputs, outputs and CPU tensors": tensors, "linked weights": linked}
        parts[names] = max(sum(memory.nbytes for memory in memories) for memories in working)
        listed = " + ".join(f"{nbytes:,} B {name}" for name, nbytes in parts.items() if nbytes)
        of = f" of {self.simulation.sram:,} B" if self.simulation.sram else ""
        others = sorted((m for part in self.partitions for m in part.memories if m.name in NO_SRAM), key=_size)
        beside = "".join(f"; {nbytes:,} B {name}" for name, nbytes in {m.name: m.nbytes for m in others}.items())
        return f"SRAM: {listed} = {sum(parts.values()):,} B{of}{beside}"

    def _prefetch_lines(self, number: int, area: Prefetch) -> Iterator[str]:
        def us(cycles: int) -> str:
            return f"{self.simulation.engine.microseconds(cycles):,.1f} us"

        kept = f"; {area.resident_fetches} of {area.resident_bytes:,} B in the first run only, which stay"
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
        """The report as plain values; times in cycles of the NPU's clock, simulated."""
        return {
            "schema": SCHEMA,
            "kind": self.simulation.kind,
            "path": self.path,
            "target": self.target,
            "clock": self.simulation.engine.clock,
            "sram": self.simulation.sram,
            "tensors": self.simulation.tensors,
            "bundle": None if self.arena is None else self.arena.to_json(),
            "warnings": list(self.warnings),
            "partitions": [asdict(part) for part in self.partitions],
        }

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what is wrong with the partitions."""
        warnings: list[str] = []
        for number, run in enumerate(self.simulation.partitions):
            warnings += hazards.warnings(number, run.program, run.entry, run.hazards)
        return tuple(warnings)

    def svg(self) -> str:
        """The memories over time as a picture."""
        own = [] if self.arena is None else [self.arena.drawing()]
        parts = (drawing for number, part in enumerate(self.partitions) for drawing in part.drawings(number))
        return svg([*own, *parts])


def _size(memory: Memory) -> int:
    return memory.nbytes


def of_build(directory: Path) -> Planning | ArenaPlanning:
    """What is planned for the build in a directory, whatever its target; errors as `planning`."""
    arena = arena_planning(directory)
    return _planning(directory, arena) if arena is None or arena.manifest.partitions else arena


def planning(directory: Path) -> Planning:
    """What is planned for the build in a directory, whose target has an NPU; errors as `simulate_build`.

    Raises:
        FormatError: also when its microcode is unsound, unless another's compiler may have made it so.
    """
    return _planning(directory, arena_planning(directory))


def _planning(directory: Path, arena: ArenaPlanning | None) -> Planning:
    simulation = simulate_build(directory)
    for number, run in enumerate(simulation.partitions):
        if run.hazards and not run.program.advice:
            raise FormatError(
                f"the microcode of npu {number} is unsound: {run.told(run.hazards[0])}",
                where=str(directory),
                hint="`deuteron sim` lists all that is wrong; build the model again",
            )
    parts = tuple(_partition(run) for run in simulation.partitions)
    return Planning(str(directory), simulation.target, simulation, parts, arena)


class Picture(Protocol):
    """What can be drawn."""

    def svg(self) -> str:
        """The memories over time as a picture."""
        ...


def write_svg(planning: Picture, path: Path, *, force: bool = False) -> None:
    """Writes the picture; InputError when the file exists, unless `force` is set, or cannot be written."""
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
    """What a block is of: kernels, the operators that they compute, and their line; of one call, which rows, too."""
    rows = len(content.commands) == 1
    listed = ", ".join(dict.fromkeys(_origin(run, at, rows=rows) for at in content.commands))
    of = f"{content.what} of {listed}" if listed else content.what
    return f"{of}{', resident' if content.is_resident else ''}"


def _origin(run: PartitionRun, command: int, *, rows: bool) -> str:
    """The kernel of a call, the operators that it computes and their line, and which `rows`, if not all."""
    call = run.program.commands[command].call
    return f"{call.kernel} {run.origin(command, rows=rows)}".rstrip() if call else ""
