"""Call graph of an image: callers, callees and stack frames of functions.

Calls are read from the instructions of the linked image: overrides have replaced weak functions, and undefined names
are never called. Frame sizes come from GCC's call graph of an object (`-fcallgraph-info=su`). The compiler's libraries
have none, and functions in assembler have 0; there the instructions that lower the stack pointer are summed.
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
        address: start address.
        name: C name; not unique among static functions.
        object: object file that defines it.
        frame: maximum bytes of its stack frame, without callees; None if it is unbounded.
        calls: addresses of the functions that it calls.
        indirect: true if it also calls through pointers.
    """

    address: int
    name: str
    object: str
    frame: int | None
    calls: tuple[int, ...]
    indirect: bool


def functions(elf: Path, pieces: Iterable[Piece], objects: Iterable[Object]) -> tuple[Function, ...]:
    """Return the functions of an image, which is linked from these objects and the compiler's libraries, by address."""
    frames = {item.name: frames_of(item.calls.read_text("utf-8")) for item in objects if item.calls.is_file()}
    homes = sorted((piece.address, piece.address + piece.size, piece.object) for piece in pieces if piece.address)
    bodies = tuple(_bodies(elf))
    starts = [body.address for body in bodies]
    return tuple(_function(body, starts, _section_of(body.address, homes), frames) for body in bodies)


_NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes \(([\w,]+)\)', re.MULTILINE)
_BOUNDED = ("static", "dynamic,bounded")


def frames_of(text: str) -> dict[str, int | None]:
    """Return the frame size of each function in GCC's call graph of an object; None if it depends on data."""
    return {
        title.rpartition(":")[2]: int(frame) if kind in _BOUNDED else None for title, frame, kind in _NODE.findall(text)
    }


_TAKES_ADDRESS = {2, 38, 43, 47}
"""Relocations that store an address: R_ARM_ABS32, R_ARM_TARGET1, R_ARM_MOVW_ABS_NC, R_ARM_THM_MOVW_ABS_NC."""


def pointed_at(item: Object) -> tuple[str, ...]:
    """Return the names of functions and variables whose address an object takes."""
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
    """A function's instructions, each with its operands."""

    address: int
    name: str
    instructions: list[tuple[str, str]]


_LABEL = re.compile(r"^([0-9a-f]+) <([^>]+)>:$")
_INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\t(\S+)(?:\t([^@]*))?")
_TARGET = re.compile(r"([0-9a-f]+) <")
_BRANCH = re.compile(r"bl?|b(?:eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)|cbn?z")
"""Branches to a target. Binutils without vectors decode VCTP as `bfcsel`, a branch that GCC does not emit."""


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


def _section_of(address: int, homes: Sequence[tuple[int, int, str]]) -> str:
    """Return the object that contains an address."""
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
            # A branch inside a function is a loop, but one with a link to its start is recursion.
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
    """Return the sum of all stack pointer decreases; None if one is by a register."""
    total = 0
    for mnemonic, operands in body.instructions:
        lowered = _stack_bytes(mnemonic.partition(".")[0], operands)
        if lowered is None:
            return None
        total += lowered
    return total


def _stack_bytes(mnemonic: str, operands: str) -> int | None:
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
    """Return the bytes of a register list such as `r4, r5, lr` or `d8-d15`."""
    total = 0
    for item in registers.split(","):
        first, _, last = item.strip().partition("-")
        count = int(last[1:]) - int(first[1:]) + 1 if last else 1
        total += count * (8 if first.startswith("d") else 4)
    return total
