"""`deuteron fvp`: programs that take the place of Arm's simulators."""

from pathlib import Path

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@click.group()
def command() -> None:
    """Write stand-ins for Arm's simulators of the Corstone platforms (FVPs).

    ExecuTorch's tests and scripts find a simulator by its name on PATH. A stand-in takes the same command line, runs
    the .pte file in ExecuTorch's runtime on this computer, Ethos-U partitions bit for bit, and writes its outputs.
    `deuteron-fvp --help` says more.
    """


@new_command
@click.argument("directory", metavar="DIR", type=PATH)
@click.option("--force", is_flag=True, help="Replace programs and images of these names that are there.")
def install(printer: Printer, *, directory: Path, force: bool) -> None:
    """Write programs with the simulators' names into DIR.

    What stands for the images that they would boot comes with them, so that ExecuTorch's tests run when PATH and
    EXECUTORCH_ROOT name DIR.
    """
    from deuteron import api

    programs = api.install_fvps(directory, force=force)
    if printer.as_json:
        printer.json({"schema": 1, "programs": [str(path) for path in programs]})
        return
    for path in programs:
        printer.data(str(path))
    directory = directory.absolute()  # ExecuTorch's tests run elsewhere
    printer.note(f"for ExecuTorch's tests: export PATH={directory}:$PATH EXECUTORCH_ROOT={directory}")


command.add_command(install)
