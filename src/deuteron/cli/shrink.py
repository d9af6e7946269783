"""`deuteron shrink`: writes a TFLite file that needs a smaller tensor arena, for any runtime."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import counted
from deuteron.records import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deuteron.api import Shrinking


@new_command
@click.argument("source", metavar="IN.tflite", type=PATH)
@click.option("-o", "--output", metavar="OUT.tflite", required=True, type=PATH, help="TFLite file to write.")
@click.option("--arena", metavar="SIZE", required=True, help="Limit of the tensor arena (`256Ki`).")
@click.option("--force", is_flag=True, help="Replace an output file that exists.")
def command(printer: Printer, *, source: Path, output: Path, arena: str, force: bool) -> None:
    """Cut IN.tflite into stripes of rows, so that a runtime needs at most SIZE bytes for its tensors.

    OUT.tflite has the same inputs and outputs, bit for bit, and TFLite's own operators: TFLite Micro and vendors' tools
    run it. The arena is estimated by liveness.
    """
    from deuteron import api
    from deuteron.arch.sizes import parse_size

    done = api.shrink(source, output, arena=parse_size("--arena", arena), force=force)
    if printer.as_json:
        figures = {name: value for name, value in plain(done).items() if name != "file"}
        printer.json({"schema": 1, "files": [str(output)], "bytes": len(done.file), **figures})
    else:
        for line in _lines(done):
            printer.data(line)
    for line in done.dropped:
        printer.note(f"not in the new file: {line}")
    printer.note(f"wrote `{output}`")


def _lines(done: "Shrinking") -> "Iterator[str]":
    before, after = done.before, done.after
    if not done.segments:
        yield f"the arena is {before.nbytes:,} B by liveness and within the limit: the file stays as it is"
        return
    yield f"arena by liveness: {before.nbytes:,} B -> {after.nbytes:,} B ({after.nbytes / before.nbytes - 1:+.0%})"
    more = f" ({after.macs / before.macs - 1:+.1%})" if before.macs else ""
    yield f"multiply-accumulates: {before.macs:,} -> {after.macs:,}{more}"
    yield f"bytes that slices, pads and concatenations copy: {before.copied:,} -> {after.copied:,}"
    yield f"operators: {before.operators} -> {after.operators}"
    for one in done.segments:
        first, last = one.operators
        yield (
            f"  operators {first} {one.names[0]} to {last - 1} {one.names[1]}: {counted(one.stripes, 'stripe')} of "
            f"{counted(one.height, 'row')}; halo {counted(one.halo, 'row')}, {one.macs:,} MACs again, "
            f"{one.kept:,} B of rows kept"
        )
    yield f"verified: {done.verified_by} computes the same outputs with both files"
