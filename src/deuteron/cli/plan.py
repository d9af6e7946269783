"""`deuteron plan`: shows a build's memories over time."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH, file_options, note_file_facts
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions


@new_command
@click.argument("path", metavar="DIR|FILE", type=PATH)
@file_options
@click.option("--svg", metavar="FILE", type=PATH, help="Also write the memories over time as a picture.")
@click.option("--force", is_flag=True, help="Replace the picture if it exists.")
def command(
    printer: Printer,
    *,
    path: Path,
    target: str | None,
    etrecord: Path | None,
    tflite: "TfliteOptions",
    svg: Path | None,
    force: bool,
) -> None:
    """Show the memories of a build, TFLite file or .pte over time, its fetches, and the lower bounds of both."""
    from deuteron import api

    planning = api.plan(path, target=target, etrecord=etrecord, tflite=tflite, svg=svg, force=force)
    note_file_facts(printer, path, target, etrecord)
    if svg is not None:
        printer.note(f"wrote `{svg}`")
    if printer.as_json:
        printer.json(planning.to_json())
    else:
        for line in planning.lines():
            printer.data(line)
    for warning in planning.warnings:
        printer.warn(warning)
