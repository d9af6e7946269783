"""Lists the kernels of a linked image by its table `neutronKernels` and its symbols."""

import io
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from deuteron.errors import DeuteronError, FormatError
from deuteron.npu.neutron.kernels.catalogue import BY_KIND, KERNELS
from deuteron.operators.program import Kernel

_ELF_MAGIC = b"\x7fELF"
_ARCHIVE_MAGIC = b"!<arch>\n"
BINARY = (_ELF_MAGIC, _ARCHIVE_MAGIC)
"""First bytes of the files for `parse`, which rejects an archive with a hint."""

TABLE = "neutronKernels"
_FUNCTION = re.compile(rf"dtn_k_({'|'.join(kernel.name for kernel in KERNELS)})(_ref)?")
_LINKED = "give a program or library that was linked with Deuteron's driver"
_LINK_AGAIN = "link the image again"
_KEEP_SYMBOLS = "give the image as the linker wrote it, before `strip`"


@dataclass(frozen=True, slots=True)
class Linked:
    """A kernel and its function in the table."""

    kernel: Kernel
    function: str


@dataclass(frozen=True, slots=True)
class Image:
    """The kernels of an image.

    Attributes:
        table: the kernels that the driver can call, ascending by number.
        unused: functions of kernels that are linked but not in the table.
    """

    table: tuple[Linked, ...]
    unused: tuple[str, ...]


def parse(data: bytes, name: str, *, needs_table: bool = True) -> Image:
    """Read an ELF file: an object, a library or a program; errors give its name.

    Raises:
        FormatError: it is no ELF file, is damaged, has no symbols, or lacks a required table of kernels.
    """
    if data.startswith(_ARCHIVE_MAGIC):
        raise FormatError("this is an archive, which the linker has yet to choose from", where=name, hint=_LINKED)
    if not data.startswith(_ELF_MAGIC):
        raise FormatError("this is not an ELF file", where=name, hint=_LINKED)
    try:
        return _Reader(ELFFile(io.BytesIO(data)), needs_table).image()
    except DeuteronError as e:
        raise type(e)(e.message, hint=e.hint, where=name) from e
    except Exception as e:
        message = f"the ELF file is damaged: {type(e).__name__}: {e}"
        raise FormatError(message.rstrip(": "), where=name, hint=_LINK_AGAIN) from e


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a function or a table: in an object file an offset in a section, otherwise an address."""

    section: int | None
    address: int


class _Reader:
    """One ELF file with a symbol table."""

    def __init__(self, elf: Any, needs_table: bool) -> None:
        self._elf = elf
        self._needs_table = needs_table
        self._is_object = elf["e_type"] == "ET_REL"
        self._slot = elf.elfclass // 8
        self._symbols: Any = elf.get_section_by_name(".symtab")
        if not isinstance(self._symbols, SymbolTableSection):
            if elf["e_machine"] != "EM_ARM":
                raise FormatError("the file has no symbols, and is no image for an Arm core", hint=_LINKED)
            raise FormatError("the file has no symbols: it was stripped", hint=_KEEP_SYMBOLS)

    def image(self) -> Image:
        """Return the kernels of the file."""
        names = (symbol.name for symbol in self._symbols.iter_symbols())
        if self._needs_table and not any(name.startswith("dtn_") for name in names):
            raise FormatError("nothing in it is Deuteron's: no symbol is called `dtn_...`", hint=_LINKED)
        functions = self._functions()
        table = tuple(self._table(functions))
        linked = {name for names in functions.values() for name in names if _FUNCTION.fullmatch(name)}
        return Image(table, tuple(sorted(linked - {entry.function for entry in table})))

    def _functions(self) -> Mapping[_Place, list[str]]:
        """Return the names of all defined functions by place."""
        functions: dict[_Place, list[str]] = {}
        for symbol in self._symbols.iter_symbols():
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
                functions.setdefault(self._place(symbol["st_shndx"], symbol["st_value"]), []).append(str(symbol.name))
        return functions

    def _place(self, section: object, address: int) -> _Place:
        # On Arm, the lowest bit of a function's address is the instruction set.
        even = address & ~1 if self._elf["e_machine"] == "EM_ARM" else address
        return _Place(section if self._is_object and isinstance(section, int) else None, even)

    def _table(self, functions: Mapping[_Place, list[str]]) -> Iterator[Linked]:
        for number, names in enumerate(self._entries(functions)):
            if names is None:
                continue
            kernel = BY_KIND.get(number)
            if kernel is None:
                known = f"{KERNELS[0].kind} to {KERNELS[-1].kind}"
                raise FormatError(
                    f"the table has a kernel {number}, this version of Deuteron knows {known}",
                    hint="use the Deuteron version that the image was made with",
                )
            if not names:
                message = f"entry {number} of the table points to something that has no name"
                raise FormatError(f"{message}: symbols were stripped", hint=_KEEP_SYMBOLS)
            own = [name for name in names if (match := _FUNCTION.fullmatch(name)) and match[1] == kernel.name]
            yield Linked(kernel, (own or sorted(names))[0])

    def _entries(self, functions: Mapping[_Place, list[str]]) -> Iterator[list[str] | None]:
        """Return for each entry the names of its function, None for a null pointer."""
        tables = [s for s in self._symbols.iter_symbols() if s.name == TABLE and isinstance(s["st_shndx"], int)]
        if not tables and not self._needs_table:
            return
        if not tables:
            message = f"there is no table `{TABLE}` in it: the driver of Deuteron was not linked"
            raise FormatError(message, hint=_LINKED)
        symbol = tables[0]
        section = self._elf.get_section(symbol["st_shndx"])
        if section["sh_type"] == "SHT_NOBITS":
            return  # nothing but zeros
        start, size = symbol["st_value"], symbol["st_size"]
        content = section.data()[start - section["sh_addr"] :][:size]
        if len(content) < size or size == 0 or size % self._slot:
            raise FormatError(f"the table `{TABLE}` has {size} bytes, which are not in its section", hint=_LINK_AGAIN)
        relocations = self._relocations(symbol["st_shndx"])
        form = f"{'<' if self._elf.little_endian else '>'}{'Q' if self._slot == 8 else 'I'}"
        for at in range(0, size, self._slot):
            value = struct.unpack_from(form, content, at)[0]
            relocation = relocations.get(start + at)
            if relocation is not None:
                yield self._names(*relocation, value, functions)
            else:
                yield functions.get(self._place(None, value), []) if value else None

    def _relocations(self, table_section: int) -> Mapping[int, tuple[Any, Any]]:
        """Return relocations and their symbols (or None) by the place that they patch."""
        by_place: dict[int, tuple[Any, Any]] = {}
        for section in self._elf.iter_sections():
            if not isinstance(section, RelocationSection):
                continue
            if self._is_object and section["sh_info"] != table_section:
                continue
            symbols: Any = self._elf.get_section(section["sh_link"])
            for entry in section.iter_relocations():
                index = entry["r_info_sym"]
                by_place[entry["r_offset"]] = entry, symbols.get_symbol(index) if index else None
        return by_place

    def _names(
        self, relocation: Any, symbol: Any, value: int, functions: Mapping[_Place, list[str]]
    ) -> list[str] | None:
        """Return the names of the function that a relocated entry points to."""
        target: int = relocation["r_addend"] if relocation.is_RELA() else value
        if symbol is None:
            return functions.get(self._place(None, target), [])
        if symbol.name:
            return [str(symbol.name)]
        return functions.get(self._place(symbol["st_shndx"], symbol["st_value"] + target), [])
