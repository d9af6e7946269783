"""Kernel selection: merges selection files, and lists the kernels of an image, a file or a build."""

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
from deuteron.views.inspect import FileKind, inspect

_IMAGE = "firmware.elf"
"""Name of the image in a directory of `deuteron firmware`."""

_TEXT_START = 64
"""A file without a 0 in its first bytes counts as text."""


@dataclass(frozen=True, slots=True)
class KernelListing:
    """The kernels of an object: its path and kind, each kernel with its function or calling partitions, and others.

    For an image also its driver for an Ethos-U, which has no kernels.
    """

    path: Path
    kind: str
    title: str
    kernels: tuple[tuple[Kernel, str | tuple[str, ...]], ...]
    unused: tuple[str, ...] = ()
    ethosu: override.EthosU | None = None


def merge(files: Sequence[Path], output: Path, *, force: bool) -> selection.Selection:
    """Write the selection of all kernels in these kernel selection files and build directories to `output`.

    Raises:
        DeuteronError: they do not fit together, one is damaged, or the output cannot be written.
    """
    check_file(output, force=force)
    merged = selection.merge(list(files), _selection)
    selection.write(output, merged)
    return merged


def holding(path: Path, *, check_override: bool | str = False) -> KernelListing:
    """Return the kernels of a linked image, a kernel selection file, a directory of a build or firmware, or a program.

    Args:
        path: its path.
        check_override: reject an image that does not override the copies of inputs and outputs, or, with the name of a
            weak function, that function; also reject paths without an image.

    Raises:
        InputError, FormatError: it cannot be read, or is damaged.
        OptionError: `check_override` is set, and the image has no override, or the path is not an image.
    """
    if (path / _IMAGE).is_file():
        path /= _IMAGE
    symbol = check_override if isinstance(check_override, str) else None
    held = _called(path) if path.is_dir() else _file(path, needs_table=symbol is None)
    if check_override:
        if held.kind != "image":
            raise OptionError(
                f"`--check-override` checks an image, but `{path}` is something else: {held.title}",
                hint="give the ELF file that the linker wrote",
            )
        if symbol is None:
            override.check_override(path)
        else:
            override.check_symbol(path, symbol)
    return held


def selected(path: Path, chosen: selection.Selection) -> KernelListing:
    """Return the kernels in the kernel selection file at `path`."""
    kernels = tuple((kernel, kernel.symbol) for kernel in chosen.kernels)
    return KernelListing(path, "selection", f"kernel selection of {chosen.stamp}", kernels)


def _selection(path: Path) -> selection.Selection:
    """Return the kernels that a kernel selection file names, or that a build calls."""
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


def _file(path: Path, *, needs_table: bool) -> KernelListing:
    """Return the kernels of a file; its first bytes determine its kind, and a kernel selection file is text.

    An image needs a table of kernels, unless the request has another purpose or it drives an Ethos-U.
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
    return KernelListing(path, "image", "image", table, linked.unused, ethosu)


def _called(path: Path) -> KernelListing:
    """Return the kernels that the partitions of a build or a program call."""
    inspection = inspect(path)
    if inspection.kind is FileKind.TFLITE:
        raise InputError(f"`{path}` is a TFLite file, which calls no kernels", hint="convert it first")
    by_name = {kernel.name: kernel for kernel in KERNELS}
    callers: dict[Kernel, dict[str, None]] = {}
    for partition in inspection.partitions:
        for call in partition.program.calls:
            if call.kernel in by_name:
                callers.setdefault(by_name[call.kernel], {})[partition.name] = None
    kernels = tuple((k, tuple(callers[k])) for k in sorted(callers, key=lambda kernel: kernel.kind))
    kind = inspection.kind.name.lower()
    return KernelListing(path, kind, inspection.kind.value, kernels)
