"""The functions of an image: who calls whom, and how much stack each takes itself.

Calls are read from the instructions, so that they are those of the linked image: overrides have taken the place of weak
functions, and names that nothing defines are never called. Frames are what GCC says in an object's call graph, with
`-fcallgraph-info=su`; for the compiler's own libraries, which come without one, and for functions without a frame, all
that lowers the stack pointer is added up.
"""

import re
import subprocess
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

from deuteron.board.mapfile import Piece
from deuteron.board.toolchain import PREFIX, Object


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the image.

    Attributes:
        address: where it starts.
        name: in C; not unique among static functions.
        object: the object that it comes from.
        frame: bytes of stack that it takes itself, at most; None when nothing bounds them.
        calls: addresses of the functions that it calls.
        indirect: whether it also calls by pointer.
    """

    address: int
    name: str
    object: str
    frame: int | None
    calls: tuple[int, ...]
    indirect: bool


def functions(elf: Path, pieces: Iterable[Piece], objects: Iterable[Object]) -> tuple[Function, ...]:
    """The functions of an image, made of these objects and the compiler's libraries, by address."""
    frames = {item.name: frames_of(item.calls.read_text("utf-8")) for item in objects if item.calls.is_file()}
    homes = sorted((piece.address, piece.address + piece.size, piece.object) for piece in pieces if piece.address)
    bodies = tuple(_bodies(elf))
    starts = [body.address for body in bodies]
    return tuple(_function(body, starts, _home(body.address, homes), frames) for body in bodies)


_NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \(([\w,]+)\)', re.MULTILINE)
_BOUNDED = ("static", "dynamic,bounded")


def frames_of(text: str) -> dict[str, int | None]:
    """The frame of each function in GCC's call graph of an object; None where its size depends on data."""
    return {
        title.rpartition(":")[2]: int(frame) if kind in _BOUNDED else None for title, frame, kind in _NODE.findall(text)
    }


_TAKES_ADDRESS = {2, 38, 43, 47}
"""Relocations that put an address somewhere: R_ARM_ABS32, R_ARM_TARGET1, R_ARM_MOVW_ABS_NC, R_ARM_THM_MOVW_ABS_NC."""


def pointed_at(item: Object) -> tuple[str, ...]:
    """Names that an object takes the address of, functions and variables alike."""
    names: dict[str, None] = {}
    with item.path.open("rb") as file:
        elf = ELFFile(file)
        for section in elf.iter_sections("SHT_REL"):
            symbols = elf.get_section(section["sh_link"])
            if isinstance(section, RelocationSection) and isinstance(symbols, SymbolTableSection):
                for relocation in section.iter_relocations():
                    if relocation["r_info_type"] in _TAKES_ADDRESS:
                        names[symbols.get_symbol(relocation["r_info_sym"]).name] = None
    return tuple(names)


@dataclass(frozen=True, slots=True)
class _Body:
    """A function's instructions: each with its operands."""

    address: int
    name: str
    instructions: list[tuple[str, str]]


_LABEL = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(\S+)(?:\t([^@]*))?")
_TARGET = re.compile(r"([0-9a-f]+) <")
_BRANCH = re.compile(r"bl?|b(?:eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)|cbn?z")
"""What goes to a target. Binutils without vectors take VCTP for `bfcsel`, a branch that GCC does not write."""


def _bodies(elf: Path) -> Iterator[_Body]:
    command = (f"{PREFIX}objdump", "-d", "--no-show-raw-insn", elf)
    body: _Body | None = None
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        if label := _LABEL.match(line):
            if body:
                yield body
            body = _Body(int(label[1], 16), label[2], [])
        elif body and (instruction := _INSTRUCTION.match(line)):
            body.instructions.append((instruction[1], (instruction[2] or "").strip()))
    if body:
        yield body


def _home(address: int, homes: Sequence[tuple[int, int, str]]) -> str:
    """The object that an address lies in."""
    at = bisect_right(homes, address, key=lambda home: home[0]) - 1
    return homes[at][2] if at >= 0 and address < homes[at][1] else ""


def _function(
    body: _Body, starts: Sequence[int], home: str, frames: Mapping[str, Mapping[str, int | None]]
) -> Function:
    calls: dict[int, None] = {}
    indirect = False
    for mnemonic, operands in body.instructions:
        root = mnemonic.partition(".")[0]
        if root in ("bx", "blx"):
            indirect = indirect or operands != "lr"
        elif _BRANCH.fullmatch(root) and (target := _TARGET.search(operands)):
            at = bisect_right(starts, int(target[1], 16)) - 1
            # A branch inside of a function is a loop, but one with a link to its start is recursion.
            if at >= 0 and (starts[at] != body.address or root == "bl"):
                calls[starts[at]] = None
    # GCC says 0 for functions in assembler (`naked`), which save registers themselves.
    frame = frames.get(home, {}).get(body.name, 0)
    frame = _frame(body) if frame == 0 else frame
    return Function(body.address, body.name, home, frame, tuple(calls), indirect)


_REGISTERS = re.compile(r"\{([^}]*)\}")
_STORE_BELOW = re.compile(r"\[sp, #-(\d+)\]!")
_SETS_STACK = re.compile(r"^(?:sp, r|MSP, )")


def _frame(body: _Body) -> int | None:
    """The sum of all by which the instructions lower the stack pointer; None where a register says by how much."""
    total = 0
    for mnemonic, operands in body.instructions:
        lowered = _lowered(mnemonic.partition(".")[0], operands)
        if lowered is None:
            return None
        total += lowered
    return total


def _lowered(mnemonic: str, operands: str) -> int | None:
    if mnemonic in ("push", "vpush") or (mnemonic in ("stmdb", "vstmdb") and operands.startswith("sp!")):
        return _pushed(_REGISTERS.findall(operands)[0])
    if below := _STORE_BELOW.search(operands):
        return int(below[1])
    if mnemonic in ("sub", "subw", "subs") and operands.startswith("sp"):
        by = re.match(r"sp, (?:sp, )?#(\d+)", operands)
        return int(by[1]) if by else None
    if mnemonic in ("mov", "msr", "add") and _SETS_STACK.match(operands):
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
