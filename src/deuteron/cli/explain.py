"""`deuteron explain`: where each operator of a build runs, and why."""

from pathlib import Path

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.options import tflite_target_option
from deuteron.cli.printer import Printer


@new_command
@click.argument("path", metavar="DIR|FILE.tflite", type=Path)
@tflite_target_option
def command(printer: Printer, *, path: Path, target: str | None) -> None:
    """Show where each operator of a build, or of a TFLite file, runs, why it is not on the NPU, and what that costs."""
    from deuteron import api

    explanation = api.explain(path, target=target)
    if printer.as_json:
        printer.json(explanation.to_json())
    else:
        for line in explanation.lines():
            printer.data(line)
