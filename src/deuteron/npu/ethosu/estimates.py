"""Vela's estimates of a command stream, and its memories over time, from its debug database."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from deuteron.npu.ethosu.database import Database, Row
from deuteron.npu.ethosu.origins import Scheduled
from deuteron.npu.ethosu.stream import SHRAM, WEIGHTS, Operation, Span, Stream
from deuteron.npu.schedule import SAME, Block, Memory, Schedule, Step

_SRAM, _INSIDE = "Sram", "shram"
"""Vela's names of the memory at the SRAM port, and of that inside the NPU."""
_USES = ("Lut", "FeatureMap", "Weights", "Scales")


def schedule_of(
    stream: Stream, scheduled: Sequence[Scheduled], database: Database, system: str, clock: int
) -> Schedule:
    """Return Vela's schedule of a command stream.

    Args:
        stream: the commands.
        scheduled: the operations of Vela's schedule in it.
        database: Vela's debug database.
        system: name of the system configuration.
        clock: clock of the NPU in Hz.
    """
    rows = {int(row["id"]): row for row in database.rows("perf")}
    details = {int(row["id"]): row for row in database.rows("perf_debug")}
    steps = tuple(_step(one, rows[one.number], details[one.number], database) for one in scheduled)
    times = [database.number(details[one.number], "time_index") for one in scheduled]
    return Schedule("Vela", system, clock, steps, tuple(_memories(database, scheduled, times, stream.operations)))


def _step(one: Scheduled, row: Row, detail: Row, database: Database) -> Step:
    def number(source: Row, column: str) -> int:
        return database.number(source, column) if column in source else 0

    others = [name for column in row if (name := column.removesuffix("_ac")) not in (column, _SRAM, _INSIDE)]
    tables = sum(number(detail, f"{name}Lut_ac") for name in others)
    sizes = (number(detail, f"{_SRAM}{use}_{way}") for use in _USES for way in ("read", "write"))
    return Step(
        commands=one.operations,
        cycles=number(row, "op_cycles"),
        compute=number(row, "npu_cycles"),
        sram=number(row, f"{_SRAM}_ac"),
        transfer=number(detail, "weight_transfer_cycles") + tables,
        macs=number(row, "mac_count"),
        sram_bytes=sum(sizes),
    )


def _memories(
    database: Database, scheduled: Sequence[Scheduled], times: Sequence[int], operations: Sequence[Operation]
) -> Iterator[Memory]:
    """Return the memories by their names in the database.

    Tensors with the same bytes and lifetime, such as results in place of operands, are one block.
    """
    kept: dict[str, dict[tuple[int, int, int, int], list[str]]] = {}
    for row in database.rows("tensors"):
        columns = ("start_address", "end_address", "start_time", "end_time")
        start, stop, first, last = (database.number(row, column) for column in columns)
        kept.setdefault(row["memory"], {}).setdefault((start, stop, first, last), []).append(row["name"])
    for memory, live in kept.items():
        blocks: list[Block] = []
        for (start, stop, first, last), names in live.items():
            # An operation is two moments; a buffer of weights is live from the second moment of the previous operation.
            inside = [(time, one) for time, one in zip(times, scheduled, strict=True) if first - 1 <= time <= last]
            if inside:
                commands = [number for _, one in inside for number in one.operations]
                block = Block(SAME.join(dict.fromkeys(names)), start, stop - start, min(commands), max(commands))
                end = max(time for time, _ in inside)
                own = [number for time, one in inside if time == end for number in one.operations]
                blocks.append(_filled(block, own, operations))
        yield Memory(memory, max(stop for _, stop, _, _ in live), peak_bytes(blocks), tuple(blocks))


def _filled(block: Block, commands: Sequence[int], operations: Sequence[Operation]) -> Block:
    """Limit a block that copies fill to the commands from the first copy to the last operation that reads it.

    Vela's moments are longer than commands, so that buffers in one place can share a moment. `commands` are those of
    the operation that reads the block.
    """
    fills = [i for i in sorted(commands) if (target := operations[i].target) and _begins(target, block)]
    reads = [i for i in commands if fills and i > fills[0] and any(_begins(s, block) for s in operations[i].constants)]
    return replace(block, first=fills[0], last=max(reads)) if reads else block


def _begins(span: Span, block: Block) -> bool:
    """Return True if a memory access starts at the block, outside constants and the NPU's memory."""
    return span.memory not in (WEIGHTS, SHRAM) and span.offset == block.offset


def peak_bytes(blocks: Sequence[Block]) -> int:
    """Return the peak of live bytes."""
    live = [block for block in blocks if block.first <= block.last]
    changes = [(b.first, b.nbytes) for b in live] + [(b.last + 1, -b.nbytes) for b in live]
    return max(accumulate(change for _, change in sorted(changes)), default=0)
