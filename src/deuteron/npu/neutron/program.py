"""Programs of Neutron partitions for views: listing, simulation, and memories over time."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

import numpy as np

from deuteron.arch.engine import Engine
from deuteron.npu.dataflow import Dataflow
from deuteron.npu.neutron import payload as payloads
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.machine.bounds import fetch_bound, fetched_to_scratch, readers, serial_cycles
from deuteron.npu.neutron.machine.inferred_dataflow import traced
from deuteron.npu.neutron.machine.totals import Priced, priced
from deuteron.npu.neutron.microcode import decode
from deuteron.npu.neutron.microcode.container import Container
from deuteron.npu.neutron.microcode.decode import Call, Decoded, Fetch, Place
from deuteron.npu.neutron.microcode.disassemble import as_json, disassemble
from deuteron.npu.neutron.microcode.format import Region
from deuteron.npu.neutron.microcode.io_offsets import in_memory
from deuteron.npu.program import (
    PREFETCH_AREA,
    Block,
    Command,
    Content,
    Fetching,
    KernelCall,
    Memory,
    NpuProgram,
    Placement,
)
from deuteron.npu.timeline import Hazard, Timeline, Totals
from deuteron.operators.limits import ALIGNMENT

SCRATCH = "scratch"
"""Name of the memory for intermediate results."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A range of the weights or scratch region: its use, and the commands of its first and last use."""

    offset: int
    nbytes: int
    label: str
    first: int
    last: int


class NeutronProgram(NpuProgram):
    """Microcode with its weights and kernels."""

    def __init__(self, decoded: Decoded) -> None:
        header = decoded.header
        self.decoded = decoded
        self.inputs = decoded.input_bytes
        self.outputs = decoded.output_bytes
        fetched = fetched_to_scratch(decoded)
        self.commands = tuple(_command(command, fetched.get(at, ())) for at, command in enumerate(decoded.commands))
        self.weights_bytes = decoded.constant_bytes
        self.linked_bytes = decoded.linked_bytes
        self.has_io_in_scratch = bool(decoded.places)
        self.resident_bytes = header.resident_bytes
        self._priced: dict[tuple[int, ...], Priced] = {}
        self.records = header.profiling

    def lines(self, name: str, origins: Sequence[str]) -> Iterator[str]:
        """Yield sizes, commands, and the maps of weights and scratch."""
        header, calls = self.decoded.header, len(self.calls)
        profiling = f", profile {header.profile_bytes:,} B" if header.profiling else ""
        yield (
            f"{name}: {calls} kernel call{'' if calls == 1 else 's'}; microcode {header.microcode_bytes:,} B, "
            f"weights {header.weights_bytes:,} B, scratch {header.scratch_bytes:,} B, "
            f"prefetch {header.prefetch_bytes:,} B{profiling}"
        )
        for what, sizes in (("in", self.inputs), ("out", self.outputs)):
            yield from (f"  {what}{i}: {nbytes:,} B" for i, nbytes in enumerate(sizes))
        yield from (f"  {line}" for line in disassemble(self.decoded, origins))
        yield from _map_lines("weights", _weights_map(self.decoded))
        yield from _map_lines("scratch", _scratch_map(self.decoded))

    def to_json(self, name: str, origins: Sequence[str]) -> dict[str, object]:
        """Return the listing as plain values, with every field of every command."""
        return {
            "name": name,
            **as_json(self.decoded),
            "origins": list(origins),
            "weights_map": [asdict(extent) for extent in _weights_map(self.decoded)],
            "scratch_map": [asdict(extent) for extent in _scratch_map(self.decoded)],
        }

    def timeline(self, engine: Engine, *, keep_resident: bool = True) -> Timeline:
        """Simulate one run."""
        return simulate(self.decoded, engine, keep_resident=keep_resident)

    def totals(self, engine: Engine, *, keep_resident: bool = True) -> Totals:
        """Return the totals of a run; costs of calls are computed once for each array."""
        array = engine.rows, engine.columns, engine.elementwise, engine.sram_port
        if array not in self._priced:
            self._priced[array] = priced(self.decoded, engine)
        return self._priced[array].totals(engine, keep_resident=keep_resident)

    def traced(self) -> Dataflow:
        """Return the dataflow inferred from its addresses."""
        return traced(self.decoded)

    def hazards(self, values: Dataflow) -> tuple[Hazard, ...]:
        """Return the hazards found by shadow memory."""
        return hazards(self.decoded, values)

    def placements(self, values: Dataflow) -> tuple[Placement, ...]:
        """Return scratch and the prefetch area, if the program has them."""
        placements = (_scratch(self.decoded, values), _area(self.decoded))
        return tuple(placement for placement in placements if placement.memory.nbytes)

    def fetching(self, engine: Engine) -> Fetching | None:
        """Return the fetches of weights to the prefetch area and to scratch."""
        fetches = [command for command in self.decoded.commands if isinstance(command, Fetch)]
        if not fetches:
            return None
        return Fetching(
            tuple(fetch.nbytes for fetch in fetches if not fetch.resident),
            tuple(fetch.nbytes for fetch in fetches if fetch.resident),
            fetch_bound(self.decoded, engine),
            serial_cycles(self.decoded, engine),
        )


def program_of(payload: bytes, where: str) -> NeutronProgram:
    """Decode the program in a delegate's payload; FormatError, with `where`, if it is damaged."""
    return program_in(payloads.parse(payload, where).container)


def program_in(container: Container) -> NeutronProgram:
    """Decode the program in a container; FormatError if it is damaged."""
    return NeutronProgram(decode.decode(container))


def _command(command: decode.Command, fetched: Sequence[Place]) -> Command:
    """Return a command for views; `fetched` are its operands that are weights in scratch."""
    match command:
        case Call():
            operands, reads = command.kernel.operands, len(command.kernel.reads)
            results = tuple(i for i, role in enumerate(operands) if i >= reads and role != "workspace")
            elsewhere = (o for o in command.operands if o.region in (Region.WEIGHTS, Region.PREFETCH))
            weights = sum(operand.nbytes for operand in (*elsewhere, *fetched))
            written = sum(command.operands[i].nbytes for i in results)
            return Command(KernelCall(command.kernel.name, command.origin, weights, results, written))
        case Fetch():
            return Command(fetched=command.nbytes)
        case _:
            return Command()


def _uses(decoded: Decoded, region: Region) -> Iterator[tuple[int, Call, str, Place]]:
    """Yield (command, call, operand name, operand) for every operand in a region."""
    for index, command in enumerate(decoded.commands):
        if isinstance(command, Call):
            for name, operand in zip(command.kernel.operands, command.operands, strict=True):
                if operand.region is region:
                    yield index, command, name, operand


def _weights_map(decoded: Decoded) -> tuple[Extent, ...]:
    """Return the constants by offset, each once."""
    extents: dict[tuple[int, int], Extent] = {}
    for index, call, name, operand in _uses(decoded, Region.WEIGHTS):
        key = operand.offset, operand.nbytes
        first = extents[key].first if key in extents else index
        extents[key] = Extent(*key, f"{call.kernel.name} {name}", first, index)
    return tuple(extents[key] for key in sorted(extents))


def _scratch_map(decoded: Decoded) -> tuple[Extent, ...]:
    """Return the values and weights in scratch from first to last use, in order of first use."""
    extents: list[Extent] = []
    fetched = fetched_to_scratch(decoded)
    for (region, i), at in decoded.places.items():
        is_input = region is Region.INPUT
        size = (decoded.input_bytes if is_input else decoded.output_bytes)[i]
        named = [index for index, _, _, operand in _uses(decoded, region) if operand.index == i]
        first, last = (0, max(named, default=0)) if is_input else (min(named, default=0), len(decoded.commands))
        extents.append(Extent(at, size, f"{region.name.lower()} {i}", first, last))
    for index, call, name, operand in _uses(decoded, Region.SCRATCH):
        if operand in fetched.get(index, ()):
            continue
        if name in call.kernel.reads:
            at = next((i for i in reversed(range(len(extents))) if _covers(extents[i], operand)), None)
            if at is not None:
                extents[at] = replace(extents[at], last=index)
        else:
            extents.append(Extent(operand.offset, operand.nbytes, f"{call.kernel.name} {name}", index, index))
    return tuple(extents) + tuple(
        Extent(fetch.target, fetch.nbytes, f"weights+{fetch.source:#x}", index, max((index, *reading)))
        for index, fetch, reading in _fetches(decoded, Region.SCRATCH)
    )


def _fetches(decoded: Decoded, region: Region) -> Iterator[tuple[int, Fetch, tuple[int, ...]]]:
    """Yield the fetches to a region: the command, the fetch, and the commands of the calls that read it."""
    for index, reading in readers(decoded).items():
        fetch = decoded.commands[index]
        if isinstance(fetch, Fetch) and fetch.region is region:
            yield index, fetch, reading


def _covers(extent: Extent, operand: Place) -> bool:
    return extent.offset <= operand.offset and operand.offset + operand.nbytes <= extent.offset + extent.nbytes


def _map_lines(name: str, extents: Sequence[Extent]) -> Iterator[str]:
    if extents:
        yield f"  {name} map{'offset':>14} {'bytes':>10}  commands  content"
    for extent in extents:
        span = str(extent.first) if extent.first == extent.last else f"{extent.first}-{extent.last}"
        yield f"  {'':<{len(name) + 4}}{extent.offset:>#14x} {extent.nbytes:>10,}  {span:<8}  {extent.label}"


def _scratch(decoded: Decoded, values: Dataflow) -> Placement:
    """Return scratch over time: runs of bytes of values and weights, from the first command that uses them to the last.

    Inputs are live from the first command of the program, outputs up to the last.
    """
    units: dict[tuple[str, int], _Units] = {}
    contents: dict[str, Content] = {}
    calls, fetched = iter(values.uses()), fetched_to_scratch(decoded)
    for i, name in enumerate(values.inputs):
        if (Region.INPUT, i) in decoded.places:
            start = decoded.places[Region.INPUT, i]
            units[name, start], contents[name] = _Units(), Content("input", ())
            units[name, start].name(start, decoded.input_bytes[i], 0)
    for index, command in enumerate(decoded.commands):
        if not isinstance(command, Call):
            continue
        lying = (in_memory(operand, decoded.places) for operand in command.operands)
        for role, operand, use in zip(command.kernel.operands, lying, next(calls), strict=True):
            if operand.region is Region.SCRATCH and operand not in fetched.get(index, ()):
                start = operand.offset - use.offset
                units.setdefault((use.buffer, start), _Units()).name(operand.offset, operand.nbytes, index)
                what = "workspace" if role == "workspace" else "result"
                contents.setdefault(use.buffer, Content(what, (index,)))
    for i, name in enumerate(values.outputs):
        key = (name, decoded.places.get((Region.OUTPUT, i), -1))
        if key in units:
            units[key].name(key[1], decoded.output_bytes[i], len(decoded.commands) - 1)
    blocks = [block for (name, _), own in units.items() for block in own.blocks(name)]
    weights, of = _weights(decoded, Region.SCRATCH)
    blocks, contents = [*blocks, *weights], contents | of
    return Placement(Memory(SCRATCH, decoded.header.scratch_bytes, _peak_bytes(blocks), tuple(blocks)), contents)


class _Units:
    """A value in scratch: the first and last command that uses each unit of ALIGNMENT bytes."""

    def __init__(self) -> None:
        self._start, self._stop = 0, 0
        self._first, self._last = np.full(0, -1), np.full(0, -1)

    def name(self, offset: int, nbytes: int, at: int) -> None:
        """Record a command that uses bytes of it; commands come in order."""
        start, stop = (min(self._start, offset), self._stop) if len(self._first) else (offset, offset)
        below = self._start // ALIGNMENT - start // ALIGNMENT if len(self._first) else 0
        self._start, self._stop = start, max(stop, offset + nbytes)
        units = -(-self._stop // ALIGNMENT) - start // ALIGNMENT
        more = (below, units - below - len(self._first))
        self._first, self._last = (np.pad(calls, more, constant_values=-1) for calls in (self._first, self._last))
        own = slice(offset // ALIGNMENT - start // ALIGNMENT, -(-(offset + nbytes) // ALIGNMENT) - start // ALIGNMENT)
        self._first[own] = np.where(self._first[own] < 0, at, self._first[own])
        self._last[own] = at

    def blocks(self, name: str) -> Iterator[Block]:
        """Yield the runs of bytes with the same first and last command."""
        changes = (np.diff(self._first, prepend=-2) != 0) | (np.diff(self._last, prepend=-2) != 0)
        base = self._start // ALIGNMENT
        for low, high in pairwise([*np.flatnonzero(changes).tolist(), len(self._first)]):
            offset = max((base + low) * ALIGNMENT, self._start)
            if self._first[low] >= 0:
                nbytes = min((base + high) * ALIGNMENT, self._stop) - offset
                yield Block(name, offset, nbytes, int(self._first[low]), int(self._last[low]))


def _area(decoded: Decoded) -> Placement:
    """Return the prefetch area; resident bytes are live during the whole run."""
    blocks, contents = _weights(decoded, Region.PREFETCH)
    return Placement(Memory(PREFETCH_AREA, decoded.header.prefetch_bytes, _peak_bytes(blocks), tuple(blocks)), contents)


def _weights(decoded: Decoded, region: Region) -> tuple[list[Block], dict[str, Content]]:
    """Yield each fetch to a region from its start to the last call that reads it, and those calls."""
    blocks: list[Block] = []
    contents: dict[str, Content] = {}
    for index, fetch, reading in _fetches(decoded, region):
        stay = "resident" if fetch.resident else f"fetched at {index}"  # the same weights, each time for another call
        name = f"weights {fetch.source} {stay}"
        first, last = (0, len(decoded.commands) - 1) if fetch.resident else (index, max((index, *reading)))
        blocks.append(Block(name, fetch.target, fetch.nbytes, first, last))
        contents[name] = Content("weights", reading, fetch.resident)
    return blocks, contents


def _peak_bytes(blocks: Sequence[Block]) -> int:
    """Return the peak of live bytes; values at the same place count once."""
    moments = [(block.first, 0, block) for block in blocks] + [(block.last, 1, block) for block in blocks]
    living = np.zeros(max((-(-(b.offset + b.nbytes) // ALIGNMENT) for b in blocks), default=0), np.int64)
    live = most = 0
    for _, ends, block in sorted(moments, key=lambda moment: moment[:2]):
        own = living[block.offset // ALIGNMENT : -(-(block.offset + block.nbytes) // ALIGNMENT)]
        if ends:
            own -= 1
            live -= np.count_nonzero(own == 0)
        else:
            live += np.count_nonzero(own == 0)
            own += 1
        most = max(most, live)
    return int(most) * ALIGNMENT
