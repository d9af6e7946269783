"""The plan of a build, read back from its microcode and put beside lower bounds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from deuteron.builds.output import check_file, write_files
from deuteron.errors import FormatError
from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.npu.neutron.machine.bounds import fetch_bound, readers, serial_cycles
from deuteron.npu.neutron.microcode.decode import Call, Fetch
from deuteron.npu.neutron.microcode.format import Region
from deuteron.views.events.record import Block, Memory
from deuteron.views.memory.drawing import Drawing, picture, svg
from deuteron.views.simulate import PartitionRun, Simulation, simulate_build
from deuteron.views.simulate.run import KIND

SCHEMA = 1
SCRATCH, AREA = "scratch", "prefetch area"
"""Names of memories."""


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
        if memory.name == SCRATCH:
            proven = ", proven optimal" if self.scratch_proven else ""
            share = f"({memory.nbytes / max(1, memory.bound):.3f} of that bound{proven})"
            return f"{SCRATCH}: {memory.nbytes:,} B, at most {memory.bound:,} B alive at once {share}"
        resident = self.prefetch.resident_bytes if self.prefetch else 0
        return f"{AREA}: {memory.nbytes:,} B, {resident:,} B of it for weights that stay"

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

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield f"{self.path} on {self.target}"
        if self.partitions:
            yield self.total()
        for number, part in enumerate(self.partitions):
            yield ""
            yield f"npu {number}: {part.summary()}"
            for drawing in part.drawings(number):
                yield ""
                yield drawing.title
                yield from picture(drawing)
            if part.prefetch is not None:
                yield ""
                yield from self._prefetch_lines(number, part.prefetch)

    def total(self) -> str:
        """The SRAM that all of it takes, beside what it was planned for."""
        linked = sum(part.linked_bytes for part in self.partitions)
        working = max(sum(memory.nbytes for memory in part.memories) for part in self.partitions)
        parts = {"inputs, outputs and CPU tensors": self.simulation.tensors, "linked weights": linked}
        parts["largest partition" if len(self.partitions) > 1 else "scratch and prefetch area"] = working
        listed = " + ".join(f"{nbytes:,} B {name}" for name, nbytes in parts.items() if nbytes)
        return f"SRAM: {listed} = {sum(parts.values()):,} B of {self.simulation.sram:,} B"

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
            "kind": KIND,
            "path": self.path,
            "target": self.target,
            "clock": self.simulation.engine.clock,
            "sram": self.simulation.sram,
            "tensors": self.simulation.tensors,
            "partitions": [asdict(part) for part in self.partitions],
        }

    def svg(self) -> str:
        """The memories over time as a picture."""
        return svg([drawing for number, part in enumerate(self.partitions) for drawing in part.drawings(number)])


def planning(directory: Path) -> Planning:
    """What is planned for the build in a directory; errors as `simulate_build`.

    Raises:
        FormatError: also when its microcode is unsound.
    """
    simulation = simulate_build(directory)
    for number, run in enumerate(simulation.partitions):
        if run.hazards:
            raise FormatError(
                f"the microcode of npu {number} is unsound: {run.hazards[0]}",
                where=str(directory),
                hint="`deuteron sim` lists all that is wrong; build the model again",
            )
    parts = tuple(_partition(run) for run in simulation.partitions)
    return Planning(str(directory), simulation.target, simulation, parts)


def write_svg(planning: Planning, path: Path, *, force: bool = False) -> None:
    """Writes the picture; InputError when the file exists, unless `force` is set, or cannot be written."""
    check_file(path, force=force)
    write_files({path: planning.svg().encode()})


def _partition(run: PartitionRun) -> PartitionPlan:
    decoded = run.decoded
    scratch, origins = _scratch(run)
    memories = [scratch]
    prefetch = None
    if decoded.header.prefetch_bytes:
        area, more = _area(run)
        memories.append(area)
        origins |= more
        prefetch = _prefetch(run)
    return PartitionPlan(
        len(decoded.commands),
        tuple(memory for memory in memories if memory.nbytes),
        decoded.header.weights_bytes if run.entry.dataflow.constants and not decoded.header.prefetch_bytes else 0,
        run.entry.scratch_proven_optimal,
        origins,
        prefetch,
    )


def _prefetch(run: PartitionRun) -> Prefetch:
    fetches = [command for command in run.decoded.commands if isinstance(command, Fetch)]
    streamed = [fetch.nbytes for fetch in fetches if not fetch.resident]
    resident = [fetch.nbytes for fetch in fetches if fetch.resident]
    engine = run.timeline.engine
    return Prefetch(
        len(streamed),
        sum(streamed),
        len(resident),
        sum(resident),
        run.timeline.cycles,
        max(fetch_bound(run.decoded, engine), run.entry.prefetch_bound),
        run.entry.prefetch_bound,
        run.entry.prefetch_proven_optimal,
        serial_cycles(run.decoded, engine),
    )


def _scratch(run: PartitionRun) -> tuple[Memory, dict[str, str]]:
    """Each value from the command that writes it first to the one that reads it last, and what it is of."""
    lifetimes: dict[tuple[str, int], list[int]] = {}
    places: dict[tuple[str, int], tuple[int, int]] = {}
    origins: dict[str, str] = {}
    calls = iter(run.entry.dataflow.uses())
    for index, command in enumerate(run.decoded.commands):
        if not isinstance(command, Call):
            continue
        for role, operand, use in zip(command.kernel.operands, command.operands, next(calls), strict=True):
            if operand.region is Region.SCRATCH:
                start = operand.offset - use.offset
                key = (use.buffer, start)
                lifetimes.setdefault(key, [index, index])[1] = index
                size = max(places.get(key, (start, 0))[1], use.offset + operand.nbytes)
                places[key] = (start, size)
                kind = "workspace" if role == "workspace" else "result"
                origins.setdefault(use.buffer, f"{kind} of {_origin(run, index)}")
    blocks = [Block(key[0], *places[key], first, last) for key, (first, last) in lifetimes.items()]
    return Memory(SCRATCH, run.decoded.header.scratch_bytes, _alive(blocks), tuple(blocks)), origins


def _area(run: PartitionRun) -> tuple[Memory, dict[str, str]]:
    """The prefetch area: each fetch from where it starts to the last call that reads of it, and that call's origin.

    What is resident is there in all of a run.
    """
    decoded = run.decoded
    blocks: list[Block] = []
    origins: dict[str, str] = {}
    for index, reading in readers(decoded).items():
        fetch = decoded.commands[index]
        if not isinstance(fetch, Fetch):
            continue
        name = f"weights {fetch.source}{' resident' if fetch.resident else ''}"
        first, last = index, max((index, *reading))
        if fetch.resident:
            first, last = 0, len(decoded.commands) - 1
        blocks.append(Block(name, fetch.target, fetch.nbytes, first, last))
        origins[name] = f"weights of {', '.join(dict.fromkeys(_origin(run, at) for at in reading))}"
        if fetch.resident:
            origins[name] += ", resident"
    return Memory(AREA, decoded.header.prefetch_bytes, _alive(blocks), tuple(blocks)), origins


def _origin(run: PartitionRun, command: int) -> str:
    """The kernel of a call, the operators that it computes and their line."""
    call = run.decoded.commands[command]
    return f"{call.kernel.name} {run.origin(command)}".rstrip() if isinstance(call, Call) else ""


def _alive(blocks: Sequence[Block]) -> int:
    """The most bytes that are alive at one command; values that lie on each other count once."""
    ends = {block.first for block in blocks}
    return max((_covered([b for b in blocks if b.first <= at <= b.last]) for at in ends), default=0)


def _covered(blocks: Sequence[Block]) -> int:
    total = end = 0
    for start, stop in sorted((b.offset, b.offset + round_up(b.nbytes)) for b in blocks):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total
