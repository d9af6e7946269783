"""`deuteron inspect`: shows the content of a build or one of its files."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH, tflite_options
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions


@new_command
@click.argument("path", type=PATH)
@click.option("--target", metavar="NAME", help="Show what a TFLite file becomes for this target.")
@tflite_options
def command(printer: Printer, *, path: Path, target: str | None, tflite: "TfliteOptions") -> None:
    """Show what is in PATH: a build directory, a .pte, a microcode file, or a TFLite file.

    The content determines the kind of a file. Prints a line per kernel call, then the memories of weights and scratch.
    """
    from deuteron import api

    inspection = api.inspect(path, target=target, tflite=tflite)
    if printer.as_json:
        printer.json(inspection.to_json())
        return
    for line in inspection.lines():
        printer.data(line)
