"""Vela's estimates of a command stream, and where its tensors lie when, from its debug database."""

from collections.abc import Iterable, Iterator, Sequence

from deuteron.npu.ethosu.database import Database, Row
from deuteron.npu.ethosu.origins import Scheduled
from deuteron.npu.schedule import SAME, Block, Memory, Schedule, Step

_SRAM, _INSIDE = "Sram", "shram"
"""What Vela calls the memory that the SRAM port leads to, and that inside the NPU."""
_USES = ("Lut", "FeatureMap", "Weights", "Scales")


def schedule_of(scheduled: Sequence[Scheduled], database: Database, system: str, clock: int) -> Schedule:
    """What Vela tells of a stream's operations, of which `scheduled` are those of its schedule.

    Args:
        scheduled: those.
        database: where it tells it.
        system: the system that it was told of.
        clock: of the NPU there, in Hz.
    """
    rows = {int(row["id"]): row for row in database.rows("perf")}
    details = {int(row["id"]): row for row in database.rows("perf_debug")}
    steps = tuple(_step(one, rows[one.number], details[one.number], database) for one in scheduled)
    times = [database.number(details[one.number], "time_index") for one in scheduled]
    return Schedule("Vela", system, clock, steps, tuple(_memories(database, scheduled, times)))


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


def _memories(database: Database, scheduled: Sequence[Scheduled], times: Sequence[int]) -> Iterator[Memory]:
    """The memories by their names in the database.

    Tensors that share their bytes and their time, as results in the place of operands do, are one block.
    """
    kept: dict[str, dict[tuple[int, int, int, int], list[str]]] = {}
    for row in database.rows("tensors"):
        columns = ("start_address", "end_address", "start_time", "end_time")
        start, stop, first, last = (database.number(row, column) for column in columns)
        kept.setdefault(row["memory"], {}).setdefault((start, stop, first, last), []).append(row["name"])
    for memory, live in kept.items():
        blocks = tuple(_blocks(live.items(), scheduled, times))
        yield Memory(memory, max(stop for _, stop, _, _ in live), alive(blocks), blocks)


def _blocks(
    live: Iterable[tuple[tuple[int, int, int, int], list[str]]], scheduled: Sequence[Scheduled], times: Sequence[int]
) -> Iterator[Block]:
    """Each from the first command in its time to the last; an operation of the schedule takes two moments."""
    for (start, stop, first, last), names in live:
        inside = [one.operations for one, time in zip(scheduled, times, strict=True) if first - 1 <= time <= last]
        if inside:
            begin, end = min(map(min, inside)), max(map(max, inside))
            yield Block(SAME.join(dict.fromkeys(names)), start, stop - start, begin, end)


def alive(blocks: Sequence[Block]) -> int:
    """The most bytes that are alive at one command."""
    moments = {block.first for block in blocks}
    return max((sum(b.nbytes for b in blocks if b.first <= at <= b.last) for at in moments), default=0)
