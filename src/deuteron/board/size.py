"""What takes how much of an image, counted from the ELF file and the linker's map."""

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
"""Sections that only keep memory free: told apart from what the program's variables take."""

NPU_DRIVER = "npu_driver"
"""The module, and the archive, of a driver that is not ours."""

_EXTERNAL = ".dtn_ext"
"""The section whose bytes are loaded into external memory, not into flash."""

LIBRARY = "libc"
"""The module of what comes with the compiler."""

PADDED = "padding"


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes of a part of the firmware.

    Attributes:
        module: the directory that it comes from, as `driver` or `kernels`.
        part: the kernel, operator or file inside of it; empty where the module is the unit.
        text: instructions.
        rodata: constants that stay where they are loaded.
        data: variables and constants that start-up copies to RAM; they take space there and in flash.
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
        """All four."""
        return self.text + self.rodata + self.data + self.bss

    def __add__(self, other: "Row") -> "Row":
        """The sum, under the name of the first."""
        sums = {kind: getattr(self, kind) + getattr(other, kind) for kind in KINDS}
        return Row(self.module, self.part, **sums)


KINDS = tuple(field.name for field in fields(Row))[2:]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The size of an image.

    Attributes:
        rows: modules in the order of `MODULES`, then by name.
        reserved: bytes kept free for the stack and the arenas.
        image: bytes that a flash programmer writes.
        external: bytes that whoever loads the image puts into external memory.
    """

    rows: tuple[Row, ...]
    reserved: Mapping[str, int]
    image: int
    external: int

    def module(self, *names: str) -> Row:
        """The sum of some modules."""
        return sum((row for row in self.rows if row.module in names), Row(" + ".join(names), ""))

    @property
    def total(self) -> Row:
        """The sum of all."""
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
    "semihost",
    "application",
    LIBRARY,
    PADDED,
)
"""In the order of the report. `inner` is what kernels share, `model` is what the generator of bundles wrote, `messages`
the sentences of errors, which only images that print them have, `stand_in` executes on the core of an emulated board
what an NPU would, `npu_driver` is that of an NPU's maker, and `application` is what takes the place of the runner,
`semihost`."""

WITH_PARTS = ("operators", "cortex_m", "kernels", "model")
"""Modules whose parts have rows of their own."""

_PARTS = re.compile(r"^dtn_(?:k|check|op|cm)_(\w+)$")
_BLOCKS = re.compile(r"_(constant|microcode|commands|weights|kernels)\d*$")


def measure(elf: Path, map_file: Path) -> Sizes:
    """The sizes of an image by its two files."""
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
    """The column of a section."""
    if flags & SH_FLAGS.SHF_EXECINSTR:
        return "text"
    if not flags & SH_FLAGS.SHF_WRITE:
        return "rodata"
    return "bss" if section_type == "SHT_NOBITS" else "data"


def _owner(piece: Piece) -> tuple[str, str]:
    """Module and part of a piece: what we compile has names like `driver.model`, all else is the compiler's."""
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
