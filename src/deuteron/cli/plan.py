"""`deuteron plan`: where a build's bytes live, and when."""

from pathlib import Path

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("directory", metavar="DIR", type=Path)
@click.option("--svg", metavar="FILE", type=Path, help="Also write the memories over time as a picture.")
@click.option("--force", is_flag=True, help="Replace the picture if it exists.")
def command(printer: Printer, *, directory: Path, svg: Path | None, force: bool) -> None:
    """Show the memories of the build in DIR over time, its fetches, and how near both are to their lower bounds."""
    from deuteron import api

    planning = api.plan(directory, svg=svg, force=force)
    if svg is not None:
        printer.note(f"wrote `{svg}`")
    if printer.as_json:
        printer.json(planning.to_json())
    else:
        for line in planning.lines():
            printer.data(line)
    for warning in planning.warnings:
        printer.warn(warning)
