"""`deuteron flash`: writes an image to a board."""

from pathlib import Path

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import OptionError


@new_command
@click.argument("path", metavar="DIR|IMAGE", type=PATH)
@click.option("--board", metavar="NAME", help="A board of docs/guides/boards.md; firmware names its own.")
@click.option("--port", metavar="DIR", type=PATH, help="Directory of a port of your board, instead of `--board`.")
@click.option("--chip", metavar="NAME", help="pyOCD's name of the chip.  [default: that of the port]")
@click.option("--probe", metavar="ID", help="Serial number of the debug probe, or its beginning, if there are several.")
def command(
    printer: Printer, *, path: Path, board: str | None, port: Path | None, chip: str | None, probe: str | None
) -> None:
    """Write firmware, the image of a build, or an ELF file to a board with pyOCD, and restart it.

    For a build, this links the firmware with `--harness serial` first.
    """
    from deuteron import api

    if board is not None and port is not None:
        raise OptionError("`--board` and `--port` both name the board", hint="leave out one of them")
    with printer.work(f"writing {path}"):
        written = api.flash(path, port or board, chip=chip, probe=probe)
    if printer.as_json:
        printer.json({"schema": 1, "image": str(path), "chip": written})
    else:
        printer.note(f"wrote `{path}` to `{written}`")
