"""Formats the size of a firmware as text, and compares two sizes."""

from collections.abc import Iterable, Iterator, Sequence

from deuteron.board.firmware_record import Firmware
from deuteron.board.size import KINDS, WITH_PARTS, Row


def text(firmware: Firmware) -> str:
    """Return the size report of one firmware."""
    sizes, stack = firmware.sizes, firmware.stack
    has_stand_in = sizes.module("stand_in").total > 0
    lines = [
        f"{firmware.model} on {firmware.board}: {firmware.options.kernels.value} kernels, weights in "
        f"{firmware.weights}, inputs and outputs copied by {firmware.options.io_copy.value}",
        "",
        *_table(("", *KINDS, "total"), ((_label(row), *_cells(row)) for row in _with_sums(sizes.rows, sizes.total))),
        *(["stand_in executes NPU commands on the emulated core; a chip with the NPU does without it"] * has_stand_in),
        "",
        f"flash image  {sizes.image:,} B",
        *([f"external     {sizes.external:,} B, loaded into external memory"] if sizes.external else ()),
        *(f"memory {r.name:<5} {r.used:,} B of {r.size:,} B" for r in firmware.regions),
        *(
            f"{_memory(firmware, i):<12} {memory.bytes:,} B: {memory.note}"
            for i, memory in enumerate(firmware.memories)
        ),
        f"stack        {'at least' if stack.gaps else 'at most'} {stack.bytes:,} B of "
        f"{stack.available:,} B reserved for it",
        f"             deepest: {' > '.join(call.function for call in stack.path)}",
        *(f"             interrupt {call.function}: {call.frame or 0:,} B" for call in stack.interrupts),
        *(f"             not bounded: {gap}" for gap in stack.gaps),
    ]
    return "\n".join(lines)


def diff(before: Firmware, after: Firmware) -> str:
    """Return the differences of two firmwares: options, every row that differs, the total, the stack."""
    was, now = _by_key(before), _by_key(after)
    rows = [
        (_label(now.get(key) or was[key]), *_change(was.get(key), now.get(key)))
        for key in (*was, *(key for key in now if key not in was))
        if was.get(key) != now.get(key)
    ]
    total = ("total", *_change(before.sizes.total, after.sizes.total))
    head = ("", *KINDS, "before", "after", "change")
    asked, then = _determining_options(before), _determining_options(after)
    lines = [
        f"{before.model} on {before.board} -> {after.model} on {after.board}",
        *(f"{name}: {asked[name]} -> {then[name]}" for name in asked if asked[name] != then[name]),
        "",
        *_table(head, [*rows, total]),
        "",
        *_line("flash image", before.sizes.image, after.sizes.image),
        *_line("external", before.sizes.external, after.sizes.external),
        *_line("stack", before.stack.bytes, after.stack.bytes),
        *_line("arenas", *(sum(m.bytes for m in each.memories) - _state_bytes(each) for each in (before, after))),
        *(_line("state", _state_bytes(before), _state_bytes(after)) if before.state or after.state else ()),
    ]
    return "\n".join(lines)


def _memory(firmware: Firmware, index: int) -> str:
    is_state = firmware.state is not None and firmware.state.memory == index
    return "state" if is_state else f"arena {index}"


def _state_bytes(firmware: Firmware) -> int:
    return 0 if firmware.state is None else firmware.memories[firmware.state.memory].bytes


def _determining_options(firmware: Firmware) -> dict[str, str]:
    """Return the inputs and options that determine an image."""
    options = firmware.options
    return {
        "program": f"SHA-256 {firmware.program_sha256[:12]}",
        "kernels": options.kernels.value,
        "weights": firmware.weights,
        "arenas": firmware.arenas,
        "copies by": options.io_copy.value,
        "stack": "by default" if options.stack is None else f"{options.stack:,} B",
        "profiling": "yes" if options.use_profiling else "no",
        "compiler": firmware.compiler,
    }


def _by_key(firmware: Firmware) -> dict[tuple[str, str], Row]:
    return {(row.module, row.part): row for row in firmware.sizes.rows}


def _line(name: str, before: int, after: int) -> Iterator[str]:
    yield f"{name:<12} {before:,} -> {after:,} B ({after - before:+,})"


def _label(row: Row) -> str:
    return f"  {row.part}" if row.part else row.module


def _cells(row: Row) -> tuple[str, ...]:
    return tuple(f"{getattr(row, kind):,}" for kind in (*KINDS, "total"))


def _change(before: Row | None, after: Row | None) -> tuple[str, ...]:
    """Return the change of each column, then before, after and the change of the sum."""
    was, now = before or Row("", ""), after or Row("", "")
    columns = (f"{getattr(now, kind) - getattr(was, kind):+,}" for kind in KINDS)
    return (*columns, f"{was.total:,}", f"{now.total:,}", f"{now.total - was.total:+,}")


def _with_sums(rows: Sequence[Row], total: Row) -> Iterator[Row]:
    """Yield the rows, each module with parts preceded by its sum, and the total."""
    summed: set[str] = set()
    for row in rows:
        if row.module in WITH_PARTS and row.module not in summed:
            summed.add(row.module)
            yield sum((other for other in rows if other.module == row.module), Row(row.module, ""))
        yield row
    yield total


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield lines of a table; its first column is left-aligned, the others right-aligned."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    for line in lines:
        cells = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        yield "  ".join((line[0].ljust(widths[0]), *cells)).rstrip()
