"""`deuteron explain`: shows where each operator of a build runs, and why."""

from pathlib import Path

import click

from deuteron.cli.options import PATH, etrecord_option, note_missing_facts, tflite_target_option
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("path", metavar="DIR|FILE", type=PATH)
@tflite_target_option
@etrecord_option
def command(printer: Printer, *, path: Path, target: str | None, etrecord: Path | None) -> None:
    """Show where each operator of a build, TFLite file or .pte runs, why it is not on the NPU, and its cost."""
    from deuteron import api

    explanation = api.explain(path, target=target, etrecord=etrecord)
    note_missing_facts(printer, path, target, etrecord)
    if printer.as_json:
        printer.json(explanation.to_json())
    else:
        for line in explanation.lines():
            printer.data(line)
