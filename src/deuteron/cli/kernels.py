"""`deuteron kernels`: merges kernel selection files, and lists the kernels of an image, a file or a build."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer

if TYPE_CHECKING:
    from deuteron.views.kernels import KernelListing

_ETHOSU = {
    "DRIVER": "by Arm's driver or one with its API; Deuteron's stand-in is not linked",
    "STAND_IN": "by Deuteron's stand-in, which executes the NPU's commands on the CPU",
}
"""Text for each way in which an image drives an Ethos-U."""


@click.group()
def command() -> None:
    """Merge kernel selection files, and show which kernels an image holds.

    `deuteron build` and `deuteron convert` write such a file with `--dump-kernel-selection-code`. A firmware that is
    linked with it holds the kernels of that model only. For several models, merge their files first.
    """


@new_command
@click.argument("files", metavar="FILE.c|BUILD...", nargs=-1, required=True, type=PATH)
@click.option("-o", "--output", metavar="OUT.c", required=True, type=PATH, help="File to write.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def merge(printer: Printer, *, files: tuple[Path, ...], output: Path, force: bool) -> None:
    """Write one file that selects the kernels of all given selection files and build directories.

    All must have the same version of Deuteron and of the microcode format.
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
    help="Fail unless the image overrides this weak function; by default the copies of inputs and outputs.",
)
def show(printer: Printer, *, path: Path, check_override: str | None) -> None:
    """Show which kernels PATH holds.

    PATH is a linked image, a kernel selection file, the directory of a build or of a firmware, or a file that
    `deuteron inspect` reads. For an image, the list comes from its table of kernels; linked kernel functions that the
    table does not name are listed too. For a build or a `.pte`, it lists the kernels that its partitions call. An
    Ethos-U has no kernels: for an image that drives one, it names the driver.

    With `--check-override`, the command fails if the image has the weak default of the copies of inputs and outputs:
    a linker silently ignores an override in an archive. With `--check-override arm_ethos_io_memcpy`, or another weak
    function's name, it fails if the image does not override that function.
    """
    from deuteron import api

    _print(printer, api.kernels(path, check_override=check_override is not None and (check_override or True)))


command.add_command(merge)
command.add_command(show)


def _print(printer: Printer, holding: "KernelListing") -> None:
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
