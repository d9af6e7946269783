"""Measures the parts of an image, from the ELF file and the linker's map."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from deuteron.board.mapfile import PADDING, Piece, pieces

RESERVED = {
    ".stack": "stack",
    ".dtn_arena": "arenas",
    ".dtn_ext_arena": "arenas in external memory",
    ".dtn_tcm_arena": "arenas in tightly coupled memory",
}
"""Sections that only reserve memory; they are listed separately from the program's variables."""

NPU_DRIVER = "npu_driver"
"""Module and archive of an NPU driver of the NPU's maker."""

_EXTERNAL = ".dtn_ext"
"""The section whose bytes are loaded into external memory, not into flash."""

LIBRARY = "libc"
"""Module of the compiler's libraries."""

PADDED = "padding"


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes of a part of the firmware.

    Attributes:
        module: the directory that it comes from, such as `driver` or `kernels`.
        part: the kernel, operator or file in it; empty if the module is the unit.
        text: instructions.
        rodata: constants that stay at their load address.
        data: variables and constants that start-up copies to RAM; they need space there and in flash.
        bss: variables that start as zero.
    """

    module: str
    part: str
    text: int = 0
    rodata: int = 0
    data: int = 0
    bss: int = 0

    @property
    def total(self) -> int:
        """Return the sum of all four."""
        return self.text + self.rodata + self.data + self.bss

    def __add__(self, other: "Row") -> "Row":
        """Return the sum, under the name of the first."""
        sums = {kind: getattr(self, kind) + getattr(other, kind) for kind in KINDS}
        return Row(self.module, self.part, **sums)


KINDS = tuple(field.name for field in fields(Row))[2:]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of an image.

    Attributes:
        rows: modules in the order of `MODULES`, then by name.
        reserved: bytes reserved for the stack and the arenas.
        image: bytes that a flash programmer writes.
        external: bytes that are loaded into external memory with the image.
    """

    rows: tuple[Row, ...]
    reserved: Mapping[str, int]
    image: int
    external: int

    def module(self, *names: str) -> Row:
        """Return the sum of some modules."""
        return sum((row for row in self.rows if row.module in names), Row(" + ".join(names), ""))

    @property
    def total(self) -> Row:
        """Return the sum of all."""
        return sum(self.rows, Row("total", ""))


MODULES = (
    "executor",
    "operators",
    "cortex_m",
    "io",
    "profile",
    "driver",
    "messages",
    "kernels",
    "inner",
    "model",
    "stand_in",
    NPU_DRIVER,
    "port",
    "runner",
    "semihost",
    "harness",
    "application",
    LIBRARY,
    PADDED,
)
"""Modules in the order of the report.

* `inner`: shared code of kernels.
* `model`: the generated bundle.
* `messages`: error texts, which only images that print them have.
* `stand_in`: executes NPU commands on the core of an emulated board.
* `npu_driver`: the driver of an NPU's maker.
* `runner`: shared code of `semihost`, the application for files of the host, and `harness`, that for a serial line.
* `application`: replaces these.
"""

WITH_PARTS = ("operators", "cortex_m", "kernels", "model")
"""Modules with a row for each part."""

_PARTS = re.compile(r"^dtn_(?:k|check|op|cm)_(\w+)$")
_BLOCKS = re.compile(r"_(constant|microcode|commands|weights|kernels)\d*$")


def measure(elf: Path, map_file: Path) -> Sizes:
    """Return the sizes of an image from its two files."""
    kinds: dict[str, str] = {}
    reserved = dict.fromkeys(RESERVED.values(), 0)
    external = 0
    with elf.open("rb") as file:
        image = ELFFile(file)
        for section in image.iter_sections():
            if section.name in RESERVED:
                reserved[RESERVED[section.name]] = section["sh_size"]
            elif section["sh_flags"] & SH_FLAGS.SHF_ALLOC:
                kinds[section.name] = _kind(section["sh_flags"], section["sh_type"])
            if section.name == _EXTERNAL:
                external = section["sh_size"]
        loaded = sum(segment["p_filesz"] for segment in image.iter_segments("PT_LOAD"))
    sums: dict[tuple[str, str], Row] = {}
    for piece in pieces(map_file.read_text("utf-8")):
        if kind := kinds.get(piece.output):
            key = _owner(piece)
            sums[key] = sums.get(key, Row(*key)) + Row(*key, **{kind: piece.size})
    return Sizes(tuple(sorted(sums.values(), key=_place)), reserved, loaded - external, external)


def _kind(flags: int, section_type: str) -> str:
    """Return the column of a section."""
    if flags & SH_FLAGS.SHF_EXECINSTR:
        return "text"
    if not flags & SH_FLAGS.SHF_WRITE:
        return "rodata"
    return "bss" if section_type == "SHT_NOBITS" else "data"


def _owner(piece: Piece) -> tuple[str, str]:
    """Return module and part of a piece: our objects have names like `driver.model`, others are the compiler's."""
    if not piece.file or piece.section == PADDING:
        return PADDED, ""
    module, _, name = piece.object.partition(".")
    if f"{NPU_DRIVER}.a(" in piece.file:
        return NPU_DRIVER, ""
    if module not in MODULES:
        return LIBRARY, ""
    if module == "model":
        block = _BLOCKS.search(piece.section)
        return module, block[1] if block else "tables"
    part = _PARTS.match(name)
    return module, (part[1] if part else name) if module in WITH_PARTS else ""


def _place(row: Row) -> tuple[int, str]:
    return MODULES.index(row.module), row.part
