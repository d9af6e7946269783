"""Kernel selection: files of several models as one, and which kernels an image, a file or a build holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from deuteron.board import override
from deuteron.builds import manifest as manifests
from deuteron.builds.options import Converter
from deuteron.builds.output import check_file
from deuteron.errors import FormatError, InputError, OptionError, unreadable
from deuteron.npu.neutron.kernels import image, selection
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.operators.program import Kernel
from deuteron.views.inspect import Kind, inspect

_IMAGE = "firmware.elf"
"""What `deuteron firmware` calls the image in its directory."""

_TEXT_START = 64
"""Bytes at the start of a file that tell text: there is no 0 in them."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Kernels in something: where and what it is, each with its function or the partitions that call it, and others.

    Of an image also what it has for an Ethos-U, which has no kernels.
    """

    path: Path
    kind: str
    title: str
    kernels: tuple[tuple[Kernel, str | tuple[str, ...]], ...]
    unused: tuple[str, ...] = ()
    ethosu: override.EthosU | None = None


def merge(files: Sequence[Path], output: Path, *, force: bool) -> selection.Selection:
    """The selection of all kernels in these kernel selection files and build directories, written to `output`.

    Raises:
        DeuteronError: they do not belong together, one is damaged, or the output cannot be written.
    """
    check_file(output, force=force)
    merged = selection.merge(list(files), _selection)
    selection.write(output, merged)
    return merged


def holding(path: Path, *, check_override: bool | str = False) -> Holding:
    """What a linked image, a kernel selection file, the directory of a build or of firmware, or a program holds.

    Args:
        path: of it.
        check_override: refuse an image whose inputs and outputs are not copied by an override, or, with the name of a
            weak function, one without an override of that, and what is no image.

    Raises:
        InputError, FormatError: it cannot be read, or is damaged.
        OptionError: `check_override` is set, and the image has no override, or it is no image.
    """
    if (path / _IMAGE).is_file():
        path /= _IMAGE
    symbol = check_override if isinstance(check_override, str) else None
    held = _called(path) if path.is_dir() else _file(path, needs_table=symbol is None)
    if check_override:
        if held.kind != "image":
            raise OptionError(
                f"`--check-override` looks into an image, and `{path}` is none: {held.title}",
                hint="give the ELF file that the linker wrote",
            )
        if symbol is None:
            override.check_override(path)
        else:
            override.check_symbol(path, symbol)
    return held


def selected(path: Path, chosen: selection.Selection) -> Holding:
    """What the kernel selection file at `path` holds."""
    kernels = tuple((kernel, kernel.symbol) for kernel in chosen.kernels)
    return Holding(path, "selection", f"kernel selection of {chosen.stamp}", kernels)


def _selection(path: Path) -> selection.Selection:
    """The kernels that a kernel selection file names, or that a build calls."""
    if not path.is_dir():
        return selection.read(path)
    manifest = manifests.read(path)
    if manifest.converter != Converter.OPEN.value:
        raise OptionError(
            f"`{path}` was built with the vendor's converter, whose kernels are not ours",
            hint="merge its kernel selection files with the vendor's own command",
        )
    if manifest.deuteron != version("deuteron"):
        raise FormatError(
            f"the build was made by Deuteron {manifest.deuteron}, this is {version('deuteron')}",
            where=str(path),
            hint="build all models with one version of Deuteron",
        )
    called = {entry.kernel for partition in manifest.partitions for entry in partition.kernels}
    return selection.Selection.of(kernel for kernel in KERNELS if kernel.name in called)


def _file(path: Path, *, needs_table: bool) -> Holding:
    """What a file holds; the first bytes tell what it is, and a kernel selection file is text.

    An image needs a table of kernels where no other question is asked, and it has no Ethos-U.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        raise unreadable(path, e) from e
    if not data.startswith(image.BINARY):
        if 0 in data[:_TEXT_START]:
            return _called(path)
        return selected(path, selection.parse(data, str(path)))
    linked = image.parse(data, str(path), needs_table=False)
    ethosu = override.ethosu_of(path)
    if needs_table and ethosu is None:
        linked = image.parse(data, str(path))
    table = tuple((entry.kernel, entry.function) for entry in linked.table)
    return Holding(path, "image", "image", table, linked.unused, ethosu)


def _called(path: Path) -> Holding:
    """What the partitions of a build or a program call."""
    inspection = inspect(path)
    if inspection.kind is Kind.TFLITE:
        raise InputError(f"`{path}` is a TFLite file, which calls no kernels", hint="convert it first")
    by_name = {kernel.name: kernel for kernel in KERNELS}
    callers: dict[Kernel, dict[str, None]] = {}
    for partition in inspection.partitions:
        for call in partition.program.calls:
            if call.kernel in by_name:
                callers.setdefault(by_name[call.kernel], {})[partition.name] = None
    in_order = sorted(callers, key=lambda kernel: kernel.kind)
    kind = inspection.kind.name.lower()
    return Holding(path, kind, inspection.kind.value, tuple((kernel, tuple(callers[kernel])) for kernel in in_order))
