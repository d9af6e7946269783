"""Where a build's bytes live and when: its memories over time and its fetches, beside what is possible."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

from deuteron.frontend.output import check_file, write_files
from deuteron.kernels.limits import round_up
from deuteron.microcode.decode import Call, Decoded, Fetch
from deuteron.microcode.format import Region
from deuteron.profile.record import Block, Memory
from deuteron.sim.bounds import fetch_bound, serial_cycles
from deuteron.simulation import PartitionRun, Simulation, simulate_build

SCHEMA = 1
COLUMNS = 96
ROWS = 16
LISTED = 26
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The fetches of a partition, in cycles: what they take, what nothing can be faster than, and one after the other.

    Attributes:
        fetches: their number.
        nbytes: what is fetched in each run.
        resident_bytes: what the first run fetches.
        cycles: of a run.
        bound: no order of fetches with these resident bytes is faster.
        serial: each fetch waited for before its call.
    """

    fetches: int
    nbytes: int
    resident_bytes: int
    cycles: int
    bound: int
    serial: int


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What is planned for one partition; the blocks of its memories live from command to command."""

    commands: int
    memories: tuple[Memory, ...]
    prefetch: Prefetch | None


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
        for number, part in enumerate(self.partitions):
            for memory in part.memories:
                yield ""
                proven = ", proven optimal" if memory.nbytes <= memory.bound else ""
                yield (
                    f"npu {number} {memory.name}: {memory.nbytes:,} B, at most {memory.bound:,} B alive at once "
                    f"({memory.nbytes / max(1, memory.bound):.3f} of that bound{proven})"
                )
                yield from picture(memory, part.commands)
            if part.prefetch is not None:
                yield ""
                yield from self._prefetch_lines(number, part.prefetch)

    def _prefetch_lines(self, number: int, found: Prefetch) -> Iterator[str]:
        def us(cycles: int) -> str:
            return f"{self.simulation.engine.microseconds(cycles):,.1f} us"

        yield (
            f"npu {number} prefetch: {found.fetches} fetches of {found.nbytes:,} B per run, {found.resident_bytes:,} B "
            "resident from the first run on"
        )
        yield (
            f"  simulated {us(found.cycles)}; lower bound {us(found.bound)} ({found.cycles / found.bound:.3f} of it); "
            f"fetched one by one {us(found.serial)} ({found.serial / found.cycles:.2f} times as long)"
        )

    def to_json(self) -> dict[str, object]:
        """The report as plain values; times in cycles of the NPU's clock, simulated."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "target": self.target,
            "clock": self.simulation.engine.clock,
            "partitions": [asdict(part) for part in self.partitions],
        }

    def svg(self) -> str:
        """The memories over time as a picture."""
        return _svg(self.partitions)


def planning(directory: Path) -> Planning:
    """What is planned for the build in a directory; errors as `simulate_build`."""
    simulation = simulate_build(directory)
    parts = tuple(_partition(run) for run in simulation.partitions)
    return Planning(str(directory), simulation.target, simulation, parts)


def write_svg(found: Planning, path: Path, *, force: bool = False) -> None:
    """Writes the picture; InputError when the file exists, unless `force` is set, or cannot be written."""
    check_file(path, force=force)
    write_files({path: found.svg().encode()})


def _partition(run: PartitionRun) -> PartitionPlan:
    decoded = run.decoded
    memories = [_scratch(run)]
    if decoded.header.prefetch_bytes:
        memories.append(_area(decoded))
    fetches = [command for command in decoded.commands if isinstance(command, Fetch)]
    prefetch = None
    if fetches:
        engine = run.timeline.engine
        prefetch = Prefetch(
            len(fetches),
            sum(fetch.nbytes for fetch in fetches if not fetch.resident),
            sum(fetch.nbytes for fetch in fetches if fetch.resident),
            run.timeline.cycles,
            fetch_bound(decoded, engine),
            serial_cycles(decoded, engine),
        )
    return PartitionPlan(len(decoded.commands), tuple(m for m in memories if m.nbytes), prefetch)


def _scratch(run: PartitionRun) -> Memory:
    """Scratch memory: each value from the command that writes it first to the one that reads it last."""
    found: dict[tuple[str, int], list[int]] = {}
    places: dict[tuple[str, int], tuple[int, int]] = {}
    calls = iter(run.entry.dataflow.uses())
    for index, command in enumerate(run.decoded.commands):
        if not isinstance(command, Call):
            continue
        for operand, use in zip(command.operands, next(calls), strict=True):
            if operand.region is Region.SCRATCH:
                start = operand.offset - use.offset
                key = (use.buffer, start)
                found.setdefault(key, [index, index])[1] = index
                size = max(places.get(key, (start, 0))[1], use.offset + operand.nbytes)
                places[key] = (start, size)
    blocks = [Block(key[0], *places[key], first, last) for key, (first, last) in found.items()]
    return Memory("scratch", run.decoded.header.scratch_bytes, _alive(blocks), tuple(blocks))


def _area(decoded: Decoded) -> Memory:
    """The prefetch area: each fetch from where it starts to the last call that reads of it."""
    blocks: list[Block] = []
    for index, command in enumerate(decoded.commands):
        if isinstance(command, Fetch):
            name = f"weights {command.source}{' resident' if command.resident else ''}"
            first = 0 if command.resident else index
            last = len(decoded.commands) - 1 if command.resident else _last_read(decoded, index, command)
            blocks.append(Block(name, command.target, command.nbytes, first, last))
    return Memory("prefetch area", decoded.header.prefetch_bytes, _alive(blocks), tuple(blocks))


def _last_read(decoded: Decoded, index: int, fetch: Fetch) -> int:
    """The last command that reads of a fetch, before another fetch takes the place."""
    last = index
    for at in range(index + 1, len(decoded.commands)):
        command = decoded.commands[at]
        if isinstance(command, Fetch) and command.written.overlaps(fetch.written):
            break
        if isinstance(command, Call) and any(operand.overlaps(fetch.written) for operand in command.operands):
            last = at
    return last


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


def picture(memory: Memory, commands: int) -> Iterator[str]:
    """The memory over time: a column per command (or several), a row per share of the addresses, a letter per value."""
    columns, rows = min(COLUMNS, commands), min(ROWS, max(1, memory.nbytes // 16))
    grid = [[" "] * columns for _ in range(rows)]
    for number, block in enumerate(memory.blocks):
        low, high = block.offset * rows // memory.nbytes, -(-(block.offset + block.nbytes) * rows // memory.nbytes)
        left, right = block.first * columns // commands, block.last * columns // commands
        for row in range(low, min(rows, high)):
            for column in range(left, right + 1):
                grid[row][column] = LETTERS[number % len(LETTERS)]
    for row in reversed(range(rows)):
        yield f"  {row * memory.nbytes // rows:>12,} |{''.join(grid[row])}|"
    yield f"  {'command':>12}  {0:<{columns - 1}}{commands - 1}"
    yield from _legend(memory)


def _legend(memory: Memory) -> Iterator[str]:
    """What the letters stand for, the largest values first where there are many."""
    lettered = [(LETTERS[number % len(LETTERS)], block) for number, block in enumerate(memory.blocks)]
    largest = sorted(lettered, key=lambda item: -item[1].nbytes)[:LISTED]
    for item in lettered:
        letter, block = item
        if item in largest:
            alive = f"commands {block.first}-{block.last}"
            yield f"  {letter} {block.nbytes:>10,} B at {block.offset:,}, {alive}: {block.name}"
    if len(lettered) > LISTED:
        yield f"  and {len(lettered) - LISTED} smaller values"


def _svg(parts: Sequence[PartitionPlan]) -> str:
    """All memories under each other, time to the right in commands, addresses upwards."""
    width, height, gap, top = 960, 240, 40, 30
    body: list[str] = []
    for number, part in enumerate(parts):
        for memory in part.memories:
            body.append(f'<text x="10" y="{top - 8}">npu {number} {memory.name}, {memory.nbytes:,} B</text>')
            body.append(f'<rect x="10" y="{top}" width="{width}" height="{height}" fill="none" stroke="#888"/>')
            for index, block in enumerate(memory.blocks):
                x = 10 + width * block.first / part.commands
                w = width * (block.last + 1 - block.first) / part.commands
                h = height * block.nbytes / memory.nbytes
                y = top + height - height * (block.offset + block.nbytes) / memory.nbytes
                span = f"commands {block.first}-{block.last}"
                title = escape(f"{block.name}: {block.nbytes:,} B at {block.offset:,}, {span}")
                body.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
                    f'fill="hsl({index * 47 % 360} 60% 65%)" stroke="#444" stroke-width="0.5">'
                    f"<title>{title}</title></rect>"
                )
            top += height + gap
    frame = f'xmlns="http://www.w3.org/2000/svg" width="{width + 20}" height="{top}"'
    return f'<svg {frame} font-family="sans-serif" font-size="13">\n' + "\n".join(body) + "\n</svg>\n"
