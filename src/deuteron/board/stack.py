"""Bounds the stack of an image: the deepest path of calls, plus every interrupt on top of it."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from deuteron.board.callgraph import Function, functions, pointed_at
from deuteron.board.mapfile import pieces
from deuteron.board.toolchain import Object
from deuteron.errors import CapacityError

EXCEPTION_FRAME = 108
"""Bytes that the core pushes for an interrupt: 26 words with the floating-point context, and one for alignment."""

RESET = "dtn_reset"
VECTORS = "dtn_vectors"
UNHANDLED = "dtn_unhandled"
"""The handler of faults, which ends the program on its own stack below the limit."""

POINTERS: Mapping[str, tuple[str, ...]] = {
    "driver.call": ("kernels.table_fast", "kernels.selection"),
    "driver.model": ("driver.hooks", "port.fetch"),
    "driver.progress": ("semihost.*",),
    "executor.npu_copy": ("executor.npu_ethosu", "executor.npu_neutron", "npu.*"),
    "executor.cache": ("executor.npu_ethosu", "executor.npu_neutron", "npu.*"),
    "executor.delegate": ("executor.npu_ethosu", "executor.npu_neutron", "npu.*"),
    "executor.run_step": ("model.dtn_bundle",),
    "port.dma": ("port.fetch", "port.io_copy_dma"),
    "stand_in.*": ("stand_in.driver", "stand_in.hazard_check"),
}
"""Targets of pointer calls, by the caller's object name or pattern: functions whose address is taken in objects of
these names. An object's own functions count only if it is listed itself: a family's `run` may be the executor's, which
calls the family."""


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A function on a path and the bytes of its frame, None if it is unbounded."""

    function: str
    frame: int | None


@dataclass(frozen=True, slots=True)
class Bound:
    """Stack bound of an image.

    Attributes:
        bytes: upper bound, if there are no `gaps`; otherwise a lower bound.
        available: bytes that the linker script reserves.
        path: calls from start-up to the deepest point of the stack.
        interrupts: the handlers, each with its call depth and the frame that the core pushes.
        gaps: reasons why the bound may be exceeded: unbounded frames, recursion, unknown pointer calls.
    """

    bytes: int
    available: int
    path: tuple[StackFrame, ...]
    interrupts: tuple[StackFrame, ...]
    gaps: tuple[str, ...]


def bound(elf: Path, map_file: Path, objects: Sequence[Object]) -> Bound:
    """Return the bound for an image made of these objects and the compiler's libraries."""
    placed = pieces(map_file.read_text("utf-8"))
    linked = {piece.object for piece in placed}
    pointers = {item.name: pointed_at(item) for item in objects if item.name in linked}
    graph = Graph(functions(elf, placed, objects), pointers)
    reset = graph.named(RESET)
    main = graph.deepest(reset[0]) if reset else ()
    unhandled = {function.address for function in (*reset, *graph.named(UNHANDLED))}
    handlers = [graph.deepest(graph.at(address)) for address in vectors(elf) if address not in unhandled]
    taken = tuple(StackFrame(path[0].function, depth(path) + EXCEPTION_FRAME) for path in handlers)
    gaps = graph.gaps if reset else (*graph.gaps, f"the image has no function `{RESET}` to start from")
    return Bound(depth(main) + depth(taken), available(elf), main, taken, gaps)


def check(bound: Bound, name: str) -> None:
    """Raise CapacityError, with the deepest path, if an image may exceed its stack."""
    if bound.bytes <= bound.available:
        return
    frames = " > ".join(f"{call.function} {call.frame or 0:,} B" for call in bound.path)
    interrupts = "".join(f"\n  interrupt {call.function}: {call.frame or 0:,} B" for call in bound.interrupts)
    raise CapacityError(
        f"the stack of `{name}` may take {bound.bytes:,} B, but {bound.available:,} B are reserved for it:\n"
        f"  deepest: {frames}{interrupts}",
        hint=f"reserve enough with `deuteron firmware ... --stack {bound.bytes + -bound.bytes % 8}`",
    )


def depth(path: Iterable[StackFrame]) -> int:
    """Return the bytes of all known frames of a path."""
    return sum(call.frame or 0 for call in path)


class Graph:
    """Call graph with the deepest path from a function.

    Args:
        functions: all of an image.
        pointers: for each object, the names of functions whose address it takes.
    """

    def __init__(self, functions: Iterable[Function], pointers: Mapping[str, Sequence[str]]) -> None:
        self._at = {function.address: function for function in functions}
        self._pointers = pointers
        self._known: dict[int, tuple[StackFrame, ...]] = {}
        self._open: list[Function] = []
        self._gaps: dict[str, None] = {}

    @property
    def gaps(self) -> tuple[str, ...]:
        """Return the reasons why the paths requested so far are not bounds."""
        return tuple(self._gaps)

    def at(self, address: int) -> Function:
        """Return the function that starts at an address."""
        return self._at.get(address) or Function(address, f"0x{address:08x}", "", None, (), indirect=False)

    def named(self, name: str, user: str = "") -> tuple[Function, ...]:
        """Return the functions that a name means in the object `user`: its own, or else those of other objects."""
        candidates = tuple(function for function in self._at.values() if function.name == name)
        return tuple(function for function in candidates if function.object == user) or candidates

    def deepest(self, function: Function) -> tuple[StackFrame, ...]:
        """Return the deepest path from a function."""
        if function in self._open:
            cycle = " -> ".join(f"`{f.name}`" for f in (*self._open[self._open.index(function) :], function))
            self._gaps[f"recursion: {cycle}"] = None
            return ()
        if function.address not in self._known:
            self._open.append(function)
            below = max((self.deepest(callee) for callee in self._callees(function)), key=depth, default=())
            self._open.pop()
            if function.frame is None:
                self._gaps[f"the frame of `{function.name}` has no bound"] = None
            self._known[function.address] = (StackFrame(function.name, function.frame), *below)
        return self._known[function.address]

    def _callees(self, function: Function) -> tuple[Function, ...]:
        direct = tuple(self.at(address) for address in function.calls)
        if not function.indirect:
            return direct
        tables = next((POINTERS[user] for user in POINTERS if fnmatch.fnmatch(function.object, user)), None)
        if tables is None:
            self._gaps[f"`{function.name}` calls a function through an unknown pointer"] = None
            return direct
        takers = [taker for table in tables for taker in fnmatch.filter(self._pointers, table)]
        taken = (self.named(name, taker) for taker in takers for name in self._pointers[taker])
        own = () if function.object in takers else (function.object,)
        return (*direct, *(callee for callees in taken for callee in callees if callee.object not in own))


def available(elf: Path) -> int:
    """Return the bytes between the stack's top and the limit that the core checks."""
    with elf.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        if not isinstance(symbols, SymbolTableSection):
            return 0
        ends = [symbols.get_symbol_by_name(name) for name in ("__dtn_stack_top", "__dtn_stack_limit")]
    top, limit = (end[0]["st_value"] if end else 0 for end in ends)
    return top - limit


def vectors(elf: Path) -> tuple[int, ...]:
    """Return the addresses of the functions in the vector table, each once; the first word, the stack, is skipped.

    The section `.vectors` may have other words behind the table, such as the image block of a boot ROM: the size of the
    table's symbol ends it. A table without that symbol fills the section.
    """
    with elf.open("rb") as file:
        image = ELFFile(file)
        section = image.get_section_by_name(".vectors")
        table = section.data() if section else b""
        symbols = image.get_section_by_name(".symtab")
        named = symbols.get_symbol_by_name(VECTORS) if isinstance(symbols, SymbolTableSection) else None
        if section and named:
            start = named[0]["st_value"] - section["sh_addr"]
            table = table[start : start + named[0]["st_size"]]
    words = (int.from_bytes(table[at : at + 4], "little") for at in range(4, len(table), 4))
    return tuple(dict.fromkeys(word & ~1 for word in words if word))
