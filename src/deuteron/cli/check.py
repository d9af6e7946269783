"""`deuteron check`: says what a build for each target does, and writes no program."""

from typing import TYPE_CHECKING

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.options import tflite_options
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions


@new_command
@click.argument("model")
@click.option(
    "--target", multiple=True, metavar="NAME", help="Target to check, by default all; may be repeated, or `a,b`."
)
@tflite_options
def command(printer: Printer, *, model: str, target: tuple[str, ...], tflite: "TfliteOptions") -> int:
    """Say for each target whether MODEL builds, where its operators run, and what will be slow or lossy.

    MODEL is as for `deuteron build`: in PyTorch, or a TFLite file. The exit code is 1 if it does not build for a
    target.
    """
    from deuteron import api
    from deuteron.builds.options import BuildOptions

    names = tuple(name.strip() for item in target for name in item.split(","))
    with printer.work(f"checking {model}"):
        found = api.check_model(model, targets=names, options=BuildOptions(tflite=tflite))
    if printer.as_json:
        printer.json(found.to_json())
    else:
        for line in found.lines():
            printer.data(line)
    return 0 if found.all_build else 1
