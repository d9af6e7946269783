"""How much stack an image takes at most: the deepest path of calls, with every interrupt on top of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from deuteron.board.callgraph import Function, compiled, disassembled, pointed_at
from deuteron.board.mapfile import pieces
from deuteron.board.toolchain import Object

EXCEPTION_FRAME = 108
"""What the core puts on the stack for an interrupt: 26 words with the floating-point context, and one for alignment."""

RESET = "dtn_reset"
UNHANDLED = "dtn_unhandled"
"""The handler of faults, which ends the program on a stack of its own below the limit."""

POINTERS: Mapping[str, tuple[str, ...]] = {
    "driver": ("kernels.table", "kernels.selection", "driver.hooks", "port", "semihost"),
    "executor": ("model",),
}
"""Whom the functions of a module call by pointer: functions whose address is taken in objects of these names."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function on a path and the bytes of its own frame, None when nothing bounds them."""

    function: str
    frame: int | None


@dataclass(frozen=True, slots=True)
class Bound:
    """The stack that an image takes.

    Attributes:
        bytes: at most, if there are no `gaps`; otherwise what is known to be taken.
        path: from start-up down to where the stack is deepest.
        interrupts: the handlers, each with what it takes with all that it calls and the frame that the core adds.
        gaps: why it may be more: frames that nothing bounds, recursion, pointers that may lead anywhere.
    """

    bytes: int
    path: tuple[Call, ...]
    interrupts: tuple[Call, ...]
    gaps: tuple[str, ...]


def bound(elf: Path, map_file: Path, objects: Sequence[Object]) -> Bound:
    """The bound for an image made of these objects and the compiler's libraries."""
    placed = pieces(map_file.read_text("utf-8"))
    ours = compiled(objects, placed)
    functions = (*ours, *disassembled(elf, {function.name for function in ours}))
    linked = {piece.object for piece in placed}
    pointers = {item.name: pointed_at(item) for item in objects if item.name in linked}
    graph = Graph(functions, pointers)
    main = graph.deepest(RESET)
    handlers = tuple((name, graph.deepest(name)) for name in interrupts(elf))
    taken = tuple(Call(name, depth(path) + EXCEPTION_FRAME) for name, path in handlers)
    return Bound(depth(main) + sum(call.frame or 0 for call in taken), main, taken, graph.gaps)


def depth(path: Iterable[Call]) -> int:
    """Bytes of all frames of a path that are known."""
    return sum(call.frame or 0 for call in path)


class Graph:
    """Who calls whom, and the deepest path from a function."""

    def __init__(self, functions: Iterable[Function], pointers: Mapping[str, Sequence[str]]) -> None:
        self._functions: dict[tuple[str, str], Function] = {}
        self._by_name: dict[str, Function] = {}
        self._pointers = pointers
        self._known: dict[tuple[str, str], tuple[Call, ...]] = {}
        self._open: list[tuple[str, str]] = []
        self._gaps: dict[str, None] = {}
        for function in functions:
            self._functions[function.object, function.name] = function
            self._by_name.setdefault(function.name, function)

    @property
    def gaps(self) -> tuple[str, ...]:
        """What keeps the paths that were asked for so far from being bounds."""
        return tuple(self._gaps)

    def deepest(self, name: str, caller: str = "") -> tuple[Call, ...]:
        """The deepest path from the function that `name` means in the object `caller`."""
        function = self._functions.get((caller, name)) or self._by_name.get(name)
        if function is None:
            self._gaps[f"nothing is known of `{name}`"] = None
            return (Call(name, None),)
        key = function.object, function.name
        if key in self._open:
            cycle = " -> ".join(f"`{n}`" for _, n in (*self._open[self._open.index(key) :], key))
            self._gaps[f"recursion: {cycle}"] = None
            return ()
        if key not in self._known:
            self._open.append(key)
            below = max((self.deepest(n, function.object) for n in self._callees(function)), key=depth, default=())
            self._open.pop()
            if function.frame is None:
                self._gaps[f"the frame of `{name}` has no bound"] = None
            self._known[key] = (Call(name, function.frame), *below)
        return self._known[key]

    def _callees(self, function: Function) -> tuple[str, ...]:
        if not function.indirect:
            return function.calls
        sources = POINTERS.get(function.object.partition(".")[0], ())
        found = tuple(
            name
            for item, names in self._pointers.items()
            if item.startswith(sources)
            for name in names
            if name in self._by_name
        )
        if not found:
            self._gaps[f"`{function.name}` calls a function by a pointer that may lead anywhere"] = None
        return (*function.calls, *found)


def interrupts(elf: Path) -> tuple[str, ...]:
    """Names of the interrupt handlers in the vector table, but for the one that stands for all unused."""
    with elf.open("rb") as file:
        image = ELFFile(file)
        symbols = image.get_section_by_name(".symtab")
        vectors = image.get_section_by_name(".vectors")
        if not isinstance(symbols, SymbolTableSection) or vectors is None:
            return ()
        names: dict[int, list[str]] = {}
        for symbol in symbols.iter_symbols():
            if symbol["st_info"]["type"] == "STT_FUNC":
                names.setdefault(symbol["st_value"], []).append(symbol.name)
        table = vectors.data()
    words = (int.from_bytes(table[at : at + 4], "little") for at in range(4, len(table), 4))
    handlers = (names[word] for word in dict.fromkeys(words) if word in names)
    return tuple(found[0] for found in handlers if UNHANDLED not in found and RESET not in found)
