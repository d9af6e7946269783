"""`deuteron fvp`: writes programs that replace Arm's simulators."""

from pathlib import Path

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@click.group()
def command() -> None:
    """Write substitutes for Arm's simulators of the Corstone platforms (FVPs).

    ExecuTorch's tests and scripts find a simulator by its name on PATH. A substitute takes the same command line, runs
    the .pte file in ExecuTorch's runtime on this computer, and writes its outputs. Ethos-U partitions are bit-exact.
    `deuteron-fvp --help` has the details.
    """


@new_command
@click.argument("directory", metavar="DIR", type=PATH)
@click.option("--force", is_flag=True, help="Replace programs and images of these names that exist.")
def install(printer: Printer, *, directory: Path, force: bool) -> None:
    """Write programs with the simulators' names into DIR.

    Also writes placeholders for the images that the simulators boot. ExecuTorch's tests run when PATH and
    EXECUTORCH_ROOT name DIR.
    """
    from deuteron import api

    programs = api.install_fvps(directory, force=force)
    if printer.as_json:
        printer.json({"schema": 1, "programs": [str(path) for path in programs]})
        return
    for path in programs:
        printer.data(str(path))
    directory = directory.absolute()  # ExecuTorch's tests run in another directory
    printer.note(f"for ExecuTorch's tests: export PATH={directory}:$PATH EXECUTORCH_ROOT={directory}")


command.add_command(install)
