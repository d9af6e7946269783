"""`deuteron plan`: where a build's bytes live, and when."""

from pathlib import Path

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.options import tflite_target_option
from deuteron.cli.printer import Printer


@new_command
@click.argument("path", metavar="DIR|FILE.tflite", type=Path)
@tflite_target_option
@click.option("--svg", metavar="FILE", type=Path, help="Also write the memories over time as a picture.")
@click.option("--force", is_flag=True, help="Replace the picture if it exists.")
def command(printer: Printer, *, path: Path, target: str | None, svg: Path | None, force: bool) -> None:
    """Show the memories of a build or a TFLite file over time, its fetches, and how near both are to their bounds."""
    from deuteron import api

    planning = api.plan(path, target=target, svg=svg, force=force)
    if svg is not None:
        printer.note(f"wrote `{svg}`")
    if printer.as_json:
        printer.json(planning.to_json())
    else:
        for line in planning.lines():
            printer.data(line)
    for warning in planning.warnings:
        printer.warn(warning)
