"""Functions of an image with their stack frames and calls.

For what we compile, GCC's call graph tells both. For the compiler's own libraries, and whatever else comes without one,
the instructions do: the sum of all that lower the stack pointer is a frame's upper bound.
"""

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from deuteron.board.mapfile import Piece
from deuteron.board.toolchain import PREFIX, Object

INDIRECT = "__indirect_call"
"""GCC's name for whatever a function pointer calls."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the image.

    Attributes:
        name: in C; not unique among static functions.
        object: the object that it is in; empty for what the instructions tell.
        frame: bytes of stack that it takes itself, at most; None when nothing bounds them.
        calls: names of the functions that it calls.
        indirect: whether it also calls by pointer.
    """

    name: str
    object: str
    frame: int | None
    calls: tuple[str, ...]
    indirect: bool


_NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \(([\w,]+)\)')
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
_BOUNDED = ("static", "dynamic,bounded")


def compiled(objects: Iterable[Object], pieces: Iterable[Piece]) -> tuple[Function, ...]:
    """The functions of the objects that are in the image; what the linker dropped, or an override replaced, is not."""
    linked: dict[str, set[str]] = {}
    for piece in pieces:
        if piece.section.startswith(".text."):
            linked.setdefault(piece.object, set()).add(piece.section.removeprefix(".text."))
    found: list[Function] = []
    for item in objects:
        if item.calls.is_file() and (sections := linked.get(item.name)):
            found += (f for f in parse(item.calls.read_text("utf-8"), item.name) if _is_in(f.name, sections))
    return tuple(found)


def _is_in(name: str, sections: set[str]) -> bool:
    """Whether a function's section is there; GCC gives those that run rarely or at start-up a group of their own."""
    return not sections.isdisjoint({name, f"startup.{name}", f"unlikely.{name}"})


def parse(text: str, name: str) -> Iterator[Function]:
    """The functions that a call graph defines."""
    calls: dict[str, list[str]] = {}
    for line in text.splitlines():
        if edge := _EDGE.match(line):
            calls.setdefault(edge[1], []).append(edge[2].rpartition(":")[2])
    for line in text.splitlines():
        if node := _NODE.match(line):
            targets = dict.fromkeys(calls.get(node[1], ()))
            frame = int(node[2]) if node[3] in _BOUNDED else None
            direct = tuple(target for target in targets if target != INDIRECT)
            yield Function(node[1].rpartition(":")[2], name, frame, direct, INDIRECT in targets)


_RELOCATIONS = {2, 38, 43, 47}
"""Kinds that put a symbol's address somewhere: R_ARM_ABS32, TARGET1, MOVW_ABS_NC and THM_MOVW_ABS_NC."""


def pointed_at(item: Object) -> tuple[str, ...]:
    """Names that an object takes the address of, functions and variables alike."""
    found: dict[str, None] = {}
    with item.path.open("rb") as file:
        elf = ELFFile(file)
        for section in elf.iter_sections("SHT_REL"):
            assert isinstance(section, RelocationSection)  # noqa: S101 - what the filter lets through
            symbols = elf.get_section(section["sh_link"])
            assert isinstance(symbols, SymbolTableSection)  # noqa: S101 - as the format has it
            for relocation in section.iter_relocations():
                if relocation["r_info_type"] in _RELOCATIONS:
                    found[symbols.get_symbol(relocation["r_info_sym"]).name] = None
    return tuple(found)


_LABEL = re.compile(r"^[0-9a-f]+ <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^ +[0-9a-f]+:\t(\S+)(?:\t([^@]*))?")
_TARGET = re.compile(r"<([^>+]+)>")
_REGISTERS = re.compile(r"\{([^}]*)\}")
_STORE_BELOW = re.compile(r"\[sp, #-(\d+)\]!")
_LOWER = re.compile(r"^(?:sp, )?(?:sp, )?#(\d+)")


def disassembled(elf: Path, known: Iterable[str]) -> tuple[Function, ...]:
    """The functions of an image by their instructions, but for those that are `known` already."""
    command = (f"{PREFIX}objdump", "-d", "--no-show-raw-insn", elf)
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bodies: dict[str, list[tuple[str, str]]] = {}
    body: list[tuple[str, str]] = []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            body = bodies.setdefault(label[1], [])
        elif instruction := _INSTRUCTION.match(line):
            body.append((instruction[1], (instruction[2] or "").strip()))
    skip = set(known)
    return tuple(_function(name, body) for name, body in bodies.items() if name not in skip)


def _function(name: str, body: Sequence[tuple[str, str]]) -> Function:
    frame: int | None = 0
    calls: dict[str, None] = {}
    indirect = False
    for mnemonic, operands in body:
        lowered = _lowered(mnemonic, operands)
        frame = None if frame is None or lowered is None else frame + lowered
        root = mnemonic.partition(".")[0]
        if root in ("bx", "blx") and not operands.startswith("lr"):
            indirect = True
        elif root.startswith("b") and (target := _TARGET.search(operands)) and target[1] != name:
            calls[target[1]] = None
    return Function(name, "", frame, tuple(calls), indirect)


def _lowered(mnemonic: str, operands: str) -> int | None:
    """Bytes by which an instruction lowers the stack pointer; None when a register says by how many."""
    root = mnemonic.partition(".")[0]
    if root in ("push", "vpush") or (root in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        return _pushed(_REGISTERS.findall(operands)[0])
    if below := _STORE_BELOW.search(operands):
        return int(below[1])
    if root in ("sub", "subw", "subs") and operands.startswith("sp"):
        by = _LOWER.match(operands)
        return int(by[1]) if by else None
    if root in ("mov", "msr", "add") and re.match(r"(?:sp|MSP), r", operands):
        return None
    return 0


def _pushed(registers: str) -> int:
    """Bytes that a list such as `r4, r5, lr` or `d8-d15` takes."""
    total = 0
    for item in registers.split(","):
        first, _, last = item.strip().partition("-")
        count = int(last[1:]) - int(first[1:]) + 1 if last else 1
        total += count * (8 if first.startswith("d") else 4)
    return total
