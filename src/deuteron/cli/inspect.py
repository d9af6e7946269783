"""`deuteron inspect`: shows the content of a build or one of its files."""

from pathlib import Path

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("path", type=PATH)
@click.option("--target", metavar="NAME", help="Show what a TFLite file becomes for this target.")
def command(printer: Printer, *, path: Path, target: str | None) -> None:
    """Show what is in PATH: a build directory, a .pte, a microcode file, or a TFLite file.

    The content determines the kind of a file. Prints a line per kernel call, then the memories of weights and scratch.
    """
    from deuteron import api

    inspection = api.inspect(path, target=target)
    if printer.as_json:
        printer.json(inspection.to_json())
        return
    for line in inspection.lines():
        printer.data(line)
