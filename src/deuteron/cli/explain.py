"""`deuteron explain`: where each operator of a build runs, and why."""

from pathlib import Path

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("directory", metavar="DIR", type=Path)
def command(printer: Printer, *, directory: Path) -> None:
    """Show where each operator of the build in DIR runs, why it is not on the NPU, and what that costs."""
    from deuteron import api

    explanation = api.explain(directory)
    if printer.as_json:
        printer.json(explanation.to_json())
    else:
        for line in explanation.lines():
            printer.data(line)
