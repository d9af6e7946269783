"""Kernel selection files: the kernels that models call, as a C table that is linked into firmware.

The format is `spec/kernel-selection.md`. A file that is read must be equal to what `to_c` writes, except for line ends.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from typing import Self

from deuteron.errors import FormatError, OptionError, unreadable, unwritable
from deuteron.npu.neutron.kernels.catalogue import KERNELS
from deuteron.npu.neutron.kernels.version import VERSION_MAJOR, VERSION_MINOR
from deuteron.operators.program import Kernel

FILE_NAME = "_kernel_selection.c"
"""Name of the file of a partition in the vendor's converter, and suffix of all others."""

_TEXT = """\
/*
 * Kernel selection of {stamp}.
 *
 * The kernels that a model's microcode calls, and no others. The object of this file must stand before the library on
 * the linker's command line. A program wrote it, and `deuteron kernels merge` reads it: do not edit.
 */
#include "deuteron/kernel.h"

#if DTN_MICROCODE_VERSION_MAJOR != {major} || DTN_MICROCODE_VERSION_MINOR < {minor}
#error "this kernel selection is for microcode format {major}.{minor}, which the driver of these headers does not run"
#endif

typedef enum NeutronKernelKind {{
    NEUTRON_KERNEL_NONE = 0,
{kinds}}} NeutronKernelKind;

/* The table is constant. Tools look for the text of its declaration as it stands here, without that word. */
#define neutronKernels const neutronKernels
int32_t (*neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {{
    [NEUTRON_KERNEL_NONE] = 0,
{entries}}};
"""
_STAMP_LINE = 2
_STAMP = re.compile(
    r" \* Kernel selection of Deuteron ([\w.+!-]+) for microcode format (\d{1,5})\.(\d{1,5})\.", re.ASCII
)
_KIND = re.compile(r"    NEUTRON_KERNEL_(\w+) = DTN_KERNEL_(\w+),", re.ASCII)
_ENTRY = re.compile(r"    \[NEUTRON_KERNEL_(\w+)\] = dtn_k_(\w+),", re.ASCII)
_BY_NAME: Mapping[str, Kernel] = {kernel.name: kernel for kernel in KERNELS}
_WRITE_AGAIN = "write the file again with `--dump-kernel-selection-code`"


@dataclass(frozen=True, slots=True)
class Selection:
    """The kernels that firmware needs, ascending by number, and the versions that determined them.

    Attributes:
        converter: the version of Deuteron that converted the models.
        microcode: major and minor version of the microcode format.
        kernels: the kernels to link; none for models without a partition.
    """

    converter: str
    microcode: tuple[int, int]
    kernels: tuple[Kernel, ...]

    @property
    def stamp(self) -> str:
        """Versions that must be equal in all files of one firmware."""
        major, minor = self.microcode
        return f"Deuteron {self.converter} for microcode format {major}.{minor}"

    @classmethod
    def of(cls, kernels: Iterable[Kernel]) -> Self:
        """Return the selection of these kernels, in any order and with repetitions, for microcode of this version."""
        return cls(version("deuteron"), (VERSION_MAJOR, VERSION_MINOR), _sorted(kernels))

    def to_c(self) -> str:
        """Return the text of the file."""
        names = [kernel.name.upper() for kernel in self.kernels]
        return _TEXT.format(
            stamp=self.stamp,
            major=self.microcode[0],
            minor=self.microcode[1],
            kinds="".join(f"    NEUTRON_KERNEL_{name} = DTN_KERNEL_{name},\n" for name in names),
            entries="".join(
                f"    [NEUTRON_KERNEL_{name}] = {kernel.symbol},\n"
                for name, kernel in zip(names, self.kernels, strict=True)
            ),
        )


def parse(data: bytes, name: str) -> Selection:
    """Return the selection in a file of these bytes; errors give its `name`.

    Raises:
        FormatError: naming the first line that `Selection.to_c` would not have written.
    """
    lines = _lines(data, name)
    stamp = _STAMP.fullmatch(lines[_STAMP_LINE - 1]) if len(lines) >= _STAMP_LINE else None
    if stamp is None:
        raise FormatError(
            "this is not a kernel selection file of Deuteron: the line does not name the version that wrote it",
            where=f"{name}:{_STAMP_LINE}",
            hint="give a file that `--dump-kernel-selection-code` wrote",
        )
    kernels = _named(lines, _KIND, name)
    _named(lines, _ENTRY, name)  # a more precise error than that of the comparison below
    selection = Selection(stamp[1], (int(stamp[2]), int(stamp[3])), _sorted(kernels))
    _compare(lines, selection.to_c().split("\n"), name)
    return selection


def read(path: Path) -> Selection:
    """Return the selection in the file at `path`.

    Raises:
        InputError: it cannot be read.
        FormatError: as `parse`.
    """
    try:
        data = path.read_bytes()
    except OSError as e:
        raise unreadable(path, e) from e
    return parse(data, str(path))


def write(path: Path, selection: Selection) -> None:
    """Write the selection to the file at `path`.

    Raises:
        InputError: it cannot be written.
    """
    try:
        path.write_text(selection.to_c(), encoding="ascii", newline="\n")
    except OSError as e:
        raise unwritable(path, e) from e


def merge(paths: Sequence[Path], open_one: Callable[[Path], Selection] = read) -> Selection:
    """Return the selection of all kernels in these files, for firmware with all their models.

    Raises:
        OptionError: there is no file, or one is given twice.
        InputError, FormatError: as `open_one`.
        FormatError: two files are of different versions.
    """
    if not paths:
        raise OptionError("there is no kernel selection file to merge", hint="name one or more")
    resolved = [path.resolve() for path in paths]
    for path, file in zip(paths, resolved, strict=True):
        if resolved.count(file) > 1:
            raise OptionError(f"`{path}` is given more than once", hint="name each file once")
    first, *others = [open_one(path) for path in paths]
    for path, other in zip(paths[1:], others, strict=True):
        if other.stamp != first.stamp:
            raise FormatError(
                f"the file is of {other.stamp}, `{paths[0]}` of {first.stamp}",
                where=f"{path}:{_STAMP_LINE}" if path.is_file() else str(path),
                hint="convert all models with one version of Deuteron",
            )
    return replace(first, kernels=_sorted(kernel for selection in (first, *others) for kernel in selection.kernels))


def _sorted(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    return tuple(sorted(set(kernels), key=lambda kernel: kernel.kind))


def _lines(data: bytes, name: str) -> list[str]:
    """Return the lines without line ends of any system."""
    try:
        return data.decode("ascii").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise FormatError(
            f"the file is damaged: byte 0x{data[e.start]:02X} is not text", where=f"{name}:{line}", hint=_WRITE_AGAIN
        ) from None


def _named(lines: Sequence[str], form: re.Pattern[str], name: str) -> list[Kernel]:
    """Return the kernels in lines of this form, each with its value."""
    first: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if (row := form.fullmatch(line)) is None:
            continue
        kernel, value = row[1].lower(), row[2].lower()
        if kernel not in _BY_NAME:
            message, hint = f"there is no kernel `{kernel}`", "use the Deuteron version that wrote the file"
        elif value != kernel:
            message, hint = f"the line gives kernel `{kernel}` what belongs to `{value}`", _WRITE_AGAIN
        elif first.setdefault(kernel, number) != number:
            message, hint = f"kernel `{kernel}` is here and in line {first[kernel]}", _WRITE_AGAIN
        else:
            continue
        raise FormatError(message, where=f"{name}:{number}", hint=hint)
    return [_BY_NAME[kernel] for kernel in first]


def _compare(actual: Sequence[str], wanted: Sequence[str], name: str) -> None:
    """Compare two texts; FormatError for the first line that differs."""
    for number, (line, right) in enumerate(zip_longest(actual, wanted), 1):
        if line != right:
            here = "it ends here" if line is None else f"the line is `{line:.80}`"
            there = "its end" if right is None else f"`{right}`" if right else "an empty line"
            raise FormatError(
                f"the file is damaged: {here} instead of {there}", where=f"{name}:{number}", hint=_WRITE_AGAIN
            )
