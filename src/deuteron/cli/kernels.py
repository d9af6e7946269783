"""`deuteron kernels`: kernel selection files merged, and which kernels an image, a file or a build holds."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.views.kernels import Holding

_ETHOSU = {
    "DRIVER": "by a driver with the API of Arm's; nothing of Deuteron's stand-in",
    "STAND_IN": "Deuteron's stand-in, which executes its commands on the core",
}
"""What an image may have for one, by the names of `EthosU`."""


@click.group()
def command() -> None:
    """Merge kernel selection files, and show which kernels an image holds.

    `deuteron build` and `deuteron convert` write such a file with `--dump-kernel-selection-code`. A firmware that is
    linked with it holds the kernels of that model and no others; for several models their files are merged first.
    """


@new_command
@click.argument("files", metavar="FILE.c|BUILD...", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", metavar="OUT.c", required=True, type=PATH, help="File to write.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def merge(printer: Printer, *, files: tuple[Path, ...], output: Path, force: bool) -> None:
    """Write one file that selects the kernels of all: kernel selection files, and directories of builds.

    All must be of one version of Deuteron and of the microcode format.
    """
    from deuteron import api
    from deuteron.views.kernels import selected

    merged = api.merge_kernel_selections(files, output, force=force)
    _print(printer, selected(output, merged))
    printer.note(f"wrote `{output}`")


@new_command
@click.argument("path", metavar="ELF|FILE|DIR", type=PATH)
@click.option(
    "--check-override",
    is_flag=False,
    flag_value="",
    metavar="[SYMBOL]",
    help="Fail unless the image has an override of this weak function, or of the copies of inputs and outputs.",
)
def show(printer: Printer, *, path: Path, check_override: str | None) -> None:
    """Show which kernels something holds.

    That is a linked image, a kernel selection file, the directory of a build or of a firmware, or a file that
    `deuteron inspect` reads. Of an image, its table of kernels is read; functions of kernels that were linked although
    the table does not name them are listed, too. Of a build or a `.pte`, the kernels that its partitions call. An
    Ethos-U has no kernels: of an image that drives one, what stands behind the API of its driver.

    With `--check-override`, an image fails whose copies of inputs and outputs are the weak default: a linker takes it
    in silence when an override stands in an archive. With `--check-override arm_ethos_io_memcpy`, or the name of any
    other weak function, an image fails that has no override of that.
    """
    from deuteron import api

    _print(printer, api.kernels(path, check_override=check_override is not None and (check_override or True)))


command.add_command(merge)
command.add_command(show)


def _print(printer: Printer, holding: "Holding") -> None:
    from deuteron.npu.neutron.kernels.catalogue import KERNELS

    if printer.as_json:
        label = "function" if holding.kind in ("selection", "image") else "partitions"
        kernels = [{"number": kernel.kind, "name": kernel.name, label: what} for kernel, what in holding.kernels]
        printer.json(
            {
                "schema": 1,
                "path": str(holding.path),
                "kind": holding.kind,
                "kernels": kernels,
                "unused": list(holding.unused),
                "ethos_u": None if holding.ethosu is None else holding.ethosu.value,
            }
        )
        return
    calls_none = "" if holding.kernels else ": the model calls no kernel"
    printer.data(f"{holding.path}: {holding.title}, {len(holding.kernels)} of {len(KERNELS)} kernels{calls_none}")
    for kernel, what in holding.kernels:
        text = what if isinstance(what, str) else ", ".join(what)
        printer.data(f"  {kernel.kind:>3}  {kernel.name:<22}  {text}")
    if holding.ethosu is not None:
        printer.data(f"Ethos-U: {_ETHOSU[holding.ethosu.name]}")
    if holding.unused:
        printer.data(f"linked, but not in the table: {', '.join(holding.unused)}")
