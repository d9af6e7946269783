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
    from deuteron.views import memory as planning

    found = planning.planning(directory)
    if svg is not None:
        planning.write_svg(found, svg, force=force)
        printer.note(f"wrote `{svg}`")
    if printer.as_json:
        printer.json(found.to_json())
    else:
        for line in found.lines():
            printer.data(line)
