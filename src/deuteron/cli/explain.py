"""`deuteron explain`: shows where each operator of a build runs, and why."""

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
def command(
    printer: Printer, *, path: Path, target: str | None, etrecord: Path | None, tflite: "TfliteOptions"
) -> None:
    """Show where each operator of a build, TFLite file or .pte runs, why it is not on the NPU, and its cost."""
    from deuteron import api

    explanation = api.explain(path, target=target, etrecord=etrecord, tflite=tflite)
    note_file_facts(printer, path, target, etrecord)
    if printer.as_json:
        printer.json(explanation.to_json())
    else:
        for line in explanation.lines():
            printer.data(line)
