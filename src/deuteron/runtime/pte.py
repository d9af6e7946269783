"""Reads `.pte` files without ExecuTorch: methods with their values, instructions and delegates.

ExecuTorch's loader follows the indices of a damaged file and can crash the process, so `read` checks every index.
Slot numbers follow ExecuTorch's `schema/program.fbs`.
"""

import struct
from enum import IntEnum
from pathlib import Path

from deuteron.errors import FormatError
from deuteron.flatbuffer import Buffer, Table
from deuteron.runtime.program import (
    Delegate,
    DelegateCall,
    Free,
    Instruction,
    JumpFalse,
    KernelCall,
    Method,
    Move,
    Program,
)
from deuteron.runtime.pte_memory import check_memory
from deuteron.runtime.pte_values import Check, Content, ValueReader

IDENTIFIER = b"ET12"
_HEADER_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQQ")
_HEADER_AT = 8


class InstructionKind(IntEnum):
    """Members of the union of instructions."""

    KERNEL_CALL = 1
    DELEGATE_CALL = 2
    MOVE = 3
    JUMP_FALSE = 4
    FREE = 5


def is_program(path: Path) -> bool:
    """Return true for a readable file with the identifier of a program."""
    try:
        with path.open("rb") as file:
            return file.read(_HEADER_AT)[4:] == IDENTIFIER
    except OSError:
        return False


def delegates(pte: bytes, where: str = "program") -> tuple[Delegate, ...]:
    """Return the delegates of all methods, in file order."""
    return tuple(delegate for method in read(pte, where).methods for delegate in method.delegates)


def read(pte: bytes, where: str = "program") -> Program:
    """Read a `.pte` file; FormatError, placed at `where`, if an index or offset is out of range."""
    return _Reader(pte, where).program()


class _Reader:
    """Reads one file: its flatbuffer, its segments and the content of its tensors."""

    def __init__(self, pte: bytes, where: str) -> None:
        self._check = Check(where)
        if len(pte) < _HEADER_AT or pte[4:8] != IDENTIFIER:
            problem = f"bytes 4 to 7 are {pte[4:8]!r}, not {IDENTIFIER!r}" if pte else "it is empty"
            hint = "give a `.pte` file that ExecuTorch 1.x or Deuteron wrote"
            raise FormatError(f"this is not an ExecuTorch program: {problem}", where=where, hint=hint)
        size, base = self._extended_header(pte)
        self._root = Buffer(pte[:size], where).root()
        self._segments = self._segments_of(pte, size, base)
        self._inline = tuple(table.blob(0) or b"" for table in self._root.tables(3))
        self._content = Content(
            buffers=tuple(table.blob(0) or b"" for table in self._root.tables(2)),
            constants=self._subsegments(self._root.table(5)),
            mutable=tuple(self._subsegments(table) for table in self._root.tables(6)),
        )
        for table in self._root.tables(7):
            self._check.index("segment of named data", table.scalar(1, "I"), self._segments)

    def program(self) -> Program:
        """Return the methods."""
        plans = self._root.tables(1)
        self._check.that(bool(plans), "the program has no method")
        return Program(tuple(self._method(plan) for plan in plans))

    def _extended_header(self, pte: bytes) -> tuple[int, int]:
        """Return the size of the flatbuffer and the start of the segments."""
        if pte[_HEADER_AT : _HEADER_AT + 4] != _HEADER_MAGIC:
            return len(pte), len(pte)
        self._check.that(len(pte) >= _HEADER_AT + _HEADER.size, f"the file ends inside its header: {len(pte)} bytes")
        _, _, size, base, segment_bytes = _HEADER.unpack_from(pte, _HEADER_AT)
        needed = max(size, base + segment_bytes)
        self._check.that(needed <= len(pte), f"its header says {needed} bytes, the file has {len(pte)}")
        return size, base

    def _segments_of(self, pte: bytes, size: int, base: int) -> tuple[bytes, ...]:
        """Return the segments, which follow the flatbuffer and do not overlap."""
        spans = [(base + table.scalar(0, "Q"), table.scalar(1, "Q")) for table in self._root.tables(4)]
        spans = [(start, start + length) for start, length in spans]
        end, before = size, "program"
        for start, stop in sorted(span for span in spans if span[1] > span[0]):
            self._check.that(stop <= len(pte), f"a segment ends at byte {stop}, the file has {len(pte)}")
            message = f"a segment starts at byte {start}, inside the {before} that ends at byte {end}"
            self._check.that(start >= end, message)
            end, before = stop, "segment"
        return tuple(pte[start:stop] for start, stop in spans)

    def _subsegments(self, table: Table | None) -> tuple[bytes, tuple[int, ...]]:
        """Return the segment with tensor data, and the start of each tensor in it."""
        offsets = table.scalars(1, "Q") if table else ()
        if table is None or not offsets:
            return b"", ()
        return self._check.index("segment of tensor data", table.scalar(0, "I"), self._segments), offsets

    def _method(self, plan: Table) -> Method:
        if container := plan.table(1):
            container.string(0)
            container.string(1)
        arenas = plan.scalars(8, "q")
        for i, size in enumerate(arenas):
            self._check.that(size >= 0, f"memory {i} has {size} bytes")
        values = ValueReader(self._check, self._content, arenas).values(plan.tables(2))
        inputs, outputs = plan.scalars(3, "i"), plan.scalars(4, "i")
        for side, indices in (("input", inputs), ("output", outputs)):
            for index in indices:
                self._check.index(f"{side} value", index, values)
        operators = tuple(f"{table.string(0)}.{table.string(1)}".rstrip(".") for table in plan.tables(6))
        parts = tuple(self._delegate(table) for table in plan.tables(7))
        tables = plan.tables(5)
        self._check.that(bool(tables), "a method has no instructions")
        chains = tuple(tuple(self._instruction(table) for table in chain.tables(2)) for chain in tables)
        method = Method(plan.string(0), values, inputs, outputs, operators, parts, chains, arenas)
        for chain in chains:
            for instruction in chain:
                self._check_instruction(instruction, method, len(chain))
        check_memory(method, self._check)
        return method

    def _delegate(self, table: Table) -> Delegate:
        reference = self._check.present(table.table(1), f"delegate `{table.string(0)}` has no data")
        for spec in table.tables(2):
            spec.string(0)
            spec.blob(1)
        source = self._segments if reference.scalar(0, "b") else self._inline
        return Delegate(table.string(0), self._check.index("data of a delegate", reference.scalar(1, "I"), source))

    def _instruction(self, instruction: Table) -> Instruction:
        kind = instruction.scalar(0, "B")
        self._check.that(kind in InstructionKind.__members__.values(), f"an instruction has the unknown kind {kind}")
        table = self._check.present(instruction.table(1), f"an instruction of kind {kind} has no content")
        first = table.scalar(0, "i")
        match kind:
            case InstructionKind.KERNEL_CALL:
                return KernelCall(first, table.scalars(1, "i"))
            case InstructionKind.DELEGATE_CALL:
                return DelegateCall(first, table.scalars(1, "i"))
            case InstructionKind.MOVE:
                return Move(first, table.scalar(1, "i"))
            case InstructionKind.JUMP_FALSE:
                return JumpFalse(first, table.scalar(1, "i"))
            case _:
                return Free(first)

    def _check_instruction(self, instruction: Instruction, method: Method, count: int) -> None:
        """Check the indices of one of `count` instructions."""
        operators, parts = len(method.operators), len(method.delegates)
        match instruction:
            case KernelCall(operator, args):
                self._check.that(0 <= operator < operators, f"an instruction calls operator {operator} of {operators}")
            case DelegateCall(delegate, args):
                self._check.that(0 <= delegate < parts, f"an instruction calls delegate {delegate} of {parts}")
            case Move(source, target):
                args = (source, target)
            case JumpFalse(condition, target):
                args = (condition,)
                self._check.that(0 <= target < count, f"a jump leads to instruction {target} of {count}")
            case Free(value):
                args = (value,)
        for value in args:
            self._check.index("argument of an instruction", value, method.values)
