"""`deuteron kernels`: kernel selection files merged, and which kernels an image, a file or a build holds."""

from dataclasses import dataclass
from pathlib import Path

import click

from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import InputError, OptionError
from deuteron.npu.neutron.kernels.catalogue import KERNELS, Kernel

_IMAGE = "firmware.elf"
"""What `deuteron firmware` calls the image in its directory."""

_TEXT_START = 64
"""Bytes at the start of a file that tell text: there is no 0 in them."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What was found: what it is, its kernels, each with its function or the partitions that call it, and others."""

    kind: str
    title: str
    kernels: tuple[tuple[Kernel, str | tuple[str, ...]], ...]
    unused: tuple[str, ...] = ()


@click.group()
def command() -> None:
    """Merge kernel selection files, and show which kernels an image holds.

    `deuteron build` and `deuteron convert` write such a file with `--dump-kernel-selection-code`. A firmware that is
    linked with it holds the kernels of that model and no others; for several models their files are merged first.
    """


@new_command
@click.argument("files", metavar="FILE.c|BUILD...", nargs=-1, required=True, type=Path)
@click.option("-o", "--output", metavar="OUT.c", required=True, type=Path, help="File to write.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
def merge(printer: Printer, *, files: tuple[Path, ...], output: Path, force: bool) -> None:
    """Write one file that selects the kernels of all: kernel selection files, and directories of builds.

    All must be of one version of Deuteron and of the microcode format.
    """
    from deuteron import api

    merged = api.merge_kernel_selections(files, output, force=force)
    held = Holding("selection", f"kernel selection of {merged.stamp}", tuple((k, k.symbol) for k in merged.kernels))
    _print(printer, output, held)
    printer.note(f"wrote `{output}`")


@new_command
@click.argument("path", metavar="ELF|FILE|DIR", type=Path)
@click.option(
    "--check-override", is_flag=True, help="Fail unless the image has an override of the copies of inputs and outputs."
)
def show(printer: Printer, *, path: Path, check_override: bool) -> None:
    """Show which kernels something holds.

    That is a linked image, a kernel selection file, the directory of a build or of a firmware, or a file that
    `deuteron inspect` reads. Of an image, its table of kernels is read; functions of kernels that were linked although
    the table does not name them are listed, too. Of a build or a `.pte`, the kernels that its partitions call. With
    `--check-override`, an image fails whose copies of inputs and outputs are the weak default: a linker takes it in
    silence when an override stands in an archive.
    """
    if (path / _IMAGE).is_file():
        path /= _IMAGE
    found = _called(path) if path.is_dir() else _file(path)
    if check_override:
        _check_override(path, found)
    _print(printer, path, found)


command.add_command(merge)
command.add_command(show)


def _file(path: Path) -> Holding:
    """What a file holds; the first bytes tell what it is, and a kernel selection file is text."""
    from deuteron.npu.neutron.kernels import image, selection

    try:
        data = path.read_bytes()
    except OSError as e:
        raise InputError(f"`{path}` cannot be read: {e.strerror or e}") from e
    if not data.startswith(image.BINARY):
        if 0 in data[:_TEXT_START]:
            return _called(path)
        found = selection.parse(data, str(path))
        return Holding("selection", f"kernel selection of {found.stamp}", tuple((k, k.symbol) for k in found.kernels))
    linked = image.parse(data, str(path))
    return Holding("image", "image", tuple((entry.kernel, entry.function) for entry in linked.table), linked.unused)


def _called(path: Path) -> Holding:
    """What the partitions of a build or a program call."""
    from deuteron.views.inspect import Kind, inspect

    found = inspect(path)
    if found.kind is Kind.TFLITE:
        raise InputError(f"`{path}` is a TFLite file, which calls no kernels", hint="convert it first")
    callers: dict[Kernel, dict[str, None]] = {}
    for partition in found.partitions:
        for call in partition.decoded.calls:
            callers.setdefault(call.kernel, {})[partition.name] = None
    in_order = sorted(callers, key=lambda kernel: kernel.kind)
    kind = found.kind.name.lower()
    return Holding(kind, found.kind.value, tuple((kernel, tuple(callers[kernel])) for kernel in in_order))


def _check_override(path: Path, found: Holding) -> None:
    """Refuses an image whose inputs and outputs are not copied by an override, and what is no image."""
    from deuteron.board import override

    if found.kind != "image":
        raise OptionError(
            f"`--check-override` looks into an image, and `{path}` is none: {found.title}",
            hint="give the ELF file that the linker wrote",
        )
    override.check_override(path)


def _print(printer: Printer, path: Path, found: Holding) -> None:
    if printer.as_json:
        label = "function" if found.kind in ("selection", "image") else "partitions"
        kernels = [{"number": kernel.kind, "name": kernel.name, label: what} for kernel, what in found.kernels]
        printer.json(
            {"schema": 1, "path": str(path), "kind": found.kind, "kernels": kernels, "unused": list(found.unused)}
        )
        return
    calls_none = "" if found.kernels else ": the model calls no kernel"
    printer.data(f"{path}: {found.title}, {len(found.kernels)} of {len(KERNELS)} kernels{calls_none}")
    for kernel, what in found.kernels:
        text = what if isinstance(what, str) else ", ".join(what)
        printer.data(f"  {kernel.kind:>3}  {kernel.name:<22}  {text}")
    if found.unused:
        printer.data(f"linked, but not in the table: {', '.join(found.unused)}")
