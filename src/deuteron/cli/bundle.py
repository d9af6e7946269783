"""`deuteron bundle`: writes a build as C files for the user's own firmware."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH, choice, file_options, note_file_facts
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions


@new_command
@click.argument("path", metavar="DIR|FILE", type=PATH)
@file_options
@click.option("-o", "--output", metavar="OUT", required=True, type=PATH, help="Directory to write.")
@click.option("--symbol", default="dtn_bundle", show_default=True, metavar="NAME", help="C name of the program.")
@click.option(
    "--kernels",
    default="selected",
    show_default=True,
    metavar="selected|all",
    help="Write the kernel selection file (`model`), or omit it (`all`).",
)
@click.option(
    "--weights", default="flash", show_default=True, metavar="flash|sram|external", help="Memory of the weights."
)
@click.option("--arenas", default="sram", show_default=True, metavar="sram|external|tcm", help="Memory of the arenas.")
@click.option(
    "--data",
    default="assembler",
    show_default=True,
    metavar="assembler|arrays",
    help="Write large data as an assembler file with `.incbin`, or as C arrays.",
)
@click.option("--harness", metavar="NAME", help="Also write the facts that the harness sends about the board NAME.")
@click.option("--force", is_flag=True, help="Replace the output directory if it exists.")
def command(
    printer: Printer,
    *,
    path: Path,
    target: str | None,
    etrecord: Path | None,
    tflite: "TfliteOptions",
    output: Path,
    symbol: str,
    kernels: str,
    weights: str,
    arenas: str,
    data: str,
    harness: str | None,
    force: bool,
) -> None:
    """Write a build, TFLite file or .pte as C tables, which any project compiles with the firmware library."""
    from deuteron import api
    from deuteron.board.emit import Data, EmitOptions, Placement
    from deuteron.board.firmware_record import Kernels

    places = choice(Placement, "--weights", weights), choice(Placement, "--arenas", arenas)
    options = EmitOptions(symbol, *places, choice(Data, "--data", data))
    selected = choice(Kernels, "--kernels", kernels)
    paths = api.bundle(
        path,
        output,
        target=target,
        etrecord=etrecord,
        tflite=tflite,
        options=options,
        kernels=selected,
        harness=harness,
        force=force,
    )
    note_file_facts(printer, path, target, etrecord)
    if printer.as_json:
        printer.json({"schema": 1, "directory": str(output), "files": [path.name for path in paths]})
    for path in paths:
        printer.note(f"wrote `{path}`")
