"""`deuteron firmware`: builds an image for a board from a build directory."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.arch.sizes import parse_size
from deuteron.board.flash import FlashOptions
from deuteron.cli.flash_options import flash_options
from deuteron.cli.options import PATH, choice, file_options, note_file_facts
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import OptionError

if TYPE_CHECKING:
    from deuteron.builds.options import TfliteOptions


@new_command
@click.argument("path", metavar="DIR|FILE", type=PATH)
@file_options
@click.option(
    "--board",
    metavar="an500|an505|an547",
    help="The board to build for; with `--harness serial` also those of docs/guides/boards.md.",
)
@click.option("--port", metavar="DIR", type=PATH, help="Directory of a port of your board, instead of `--board`.")
@click.option("-o", "--output", metavar="OUT", required=True, type=PATH, help="Directory to write.")
@click.option(
    "--kernels",
    default="selected",
    show_default=True,
    metavar="selected|all",
    help="Link the kernels that the model calls, or all.",
)
@click.option(
    "--weights",
    default="auto",
    show_default=True,
    metavar="auto|flash|sram|external",
    help="Memory of the weights; `auto` is flash if they fit, else external memory.",
)
@click.option(
    "--arenas",
    default="auto",
    show_default=True,
    metavar="auto|tcm",
    help="Memory of the arenas; `auto` is SRAM if they fit, else external memory.",
)
@click.option(
    "--io-copy",
    default="cpu",
    show_default=True,
    metavar="cpu|dma",
    help="Copy inputs and outputs by the CPU or by DMA.",
)
@click.option("--stack", metavar="SIZE", help="Bytes reserved for the stack (`16Ki`).  [default: 8Ki]")
@flash_options
@click.option("--use-profiling", is_flag=True, help="Record profiling events of each run; the port sends them.")
@click.option(
    "--ethos-u-driver",
    metavar="DIR",
    type=PATH,
    help="Arm's driver: a checkout, or its headers and library. The image then runs on silicon, not in the emulator.",
)
@click.option(
    "--harness",
    default="semihost",
    show_default=True,
    metavar="semihost|serial",
    help="Run on files of the host by semihosting, or by requests over a serial line (`--on serial:PORT`).",
)
@click.option("--diff", "other", metavar="OTHER", type=PATH, help="Show the changes from another firmware directory.")
@click.option("--force", is_flag=True, help="Replace the output directory if it exists.")
def command(
    printer: Printer,
    *,
    path: Path,
    target: str | None,
    etrecord: Path | None,
    tflite: "TfliteOptions",
    board: str | None,
    port: Path | None,
    output: Path,
    kernels: str,
    weights: str,
    arenas: str,
    io_copy: str,
    stack: str | None,
    flash: FlashOptions,
    use_profiling: bool,
    ethos_u_driver: Path | None,
    harness: str,
    other: Path | None,
    force: bool,
) -> None:
    """Compile and link a build, TFLite file or .pte for a board, write the image to OUT, and report its size.

    OUT gets the image, the linker's map, the program as C tables, and `firmware.json`, which describes them.
    """
    from deuteron import api
    from deuteron.board import firmware_record, report

    options = firmware_record.FirmwareOptions(
        choice(firmware_record.Kernels, "--kernels", kernels),
        choice(firmware_record.Weights, "--weights", weights),
        choice(firmware_record.IoCopy, "--io-copy", io_copy),
        None if stack is None else parse_size("--stack", stack),
        flash,
        use_profiling,
        None if ethos_u_driver is None else str(ethos_u_driver),
        choice(firmware_record.Arenas, "--arenas", arenas),
        choice(firmware_record.Harness, "--harness", harness),
    )
    before = firmware_record.read(other) if other else None
    if (board is None) == (port is None):
        raise OptionError(
            "firmware is for one board: a name or the directory of a port",
            hint="give either `--board NAME` or `--port DIR`",
        )
    chosen = port or str(board)
    with printer.work(f"building firmware for {chosen}"):
        image = api.firmware(
            path, chosen, output, target=target, etrecord=etrecord, tflite=tflite, options=options, force=force
        )
    note_file_facts(printer, path, target, etrecord)
    if printer.as_json:
        printer.data(
            json.dumps({"directory": str(output), **json.loads(firmware_record.FILE.to_json(image.record))}, indent=2)
        )
    else:
        printer.data(report.diff(before, image.record) if before else report.text(image.record))
    printer.note(f"wrote `{output / firmware_record.ELF}` and {len(image.files)} other files")
