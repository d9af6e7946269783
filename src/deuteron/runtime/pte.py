"""`.pte` files: delegates, operators, inputs and outputs, read without ExecuTorch.

ExecuTorch's own loader follows the indices of a damaged file and can end the process, so `read` checks every one of
them. Slot numbers follow ExecuTorch's `schema/program.fbs`.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from deuteron.errors import FormatError
from deuteron.runtime.flatbuffer import Buffer, Table

_T = TypeVar("_T")

_IDENTIFIER = b"ET12"
_HEADER_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQQ")
_HEADER_AT = 8
_DAMAGED = "the file is damaged or truncated: build it again"
_MAX_RANK = 16
"""Most dimensions of a tensor in ExecuTorch's runtime."""

_DTYPES = {
    0: ("uint8", 1),
    1: ("int8", 1),
    2: ("int16", 2),
    3: ("int32", 4),
    4: ("int64", 8),
    5: ("float16", 2),
    6: ("float32", 4),
    7: ("float64", 8),
    11: ("bool", 1),
    15: ("bfloat16", 2),
    27: ("uint16", 2),
    28: ("uint32", 4),
    29: ("uint64", 8),
}


class _Value(IntEnum):
    """Members of the union of values."""

    NULL = 1
    INT = 2
    BOOL = 3
    DOUBLE = 4
    TENSOR = 5
    STRING = 6
    INT_LIST = 7
    DOUBLE_LIST = 8
    BOOL_LIST = 9
    TENSOR_LIST = 10
    OPTIONAL_TENSOR_LIST = 11


class _Instruction(IntEnum):
    """Members of the union of instructions."""

    KERNEL_CALL = 1
    DELEGATE_CALL = 2
    MOVE = 3
    JUMP_FALSE = 4
    FREE = 5


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor: `dtype` in numpy's spelling, `dim_order` from the outermost dimension in memory inwards."""

    shape: tuple[int, ...]
    dtype: str
    dim_order: tuple[int, ...]

    @property
    def channels_last(self) -> bool:
        """Whether dimension 1 lies innermost and the others in order."""
        rank = len(self.shape)
        return rank > 2 and self.dim_order == (0, *range(2, rank), 1)


@dataclass(frozen=True, slots=True)
class Delegate:
    """A delegated partition: the backend it is for and the blob that the backend gets."""

    id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Method:
    """One method: inputs and outputs (None if no tensor), `name.overload` of its operators, its delegates."""

    name: str
    inputs: tuple[TensorSpec | None, ...]
    outputs: tuple[TensorSpec | None, ...]
    operators: tuple[str, ...]
    delegates: tuple[Delegate, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """What a `.pte` file holds."""

    methods: tuple[Method, ...]


def delegates(pte: bytes, where: str = "program") -> tuple[Delegate, ...]:
    """The delegates of all methods, in the order of the file."""
    return tuple(delegate for method in read(pte, where).methods for delegate in method.delegates)


def read(pte: bytes, where: str = "program") -> Program:
    """The program of a `.pte` file; FormatError, placed at `where`, when anything in it leads outside."""
    return _Reader(pte, where).program()


class _Reader:
    """One file being read: its flatbuffer, its segments and the constants that tensors refer to."""

    def __init__(self, pte: bytes, where: str) -> None:
        self._where = where
        if len(pte) < _HEADER_AT or pte[4:8] != _IDENTIFIER:
            found = f"bytes 4 to 7 are {pte[4:8]!r}, not {_IDENTIFIER!r}"
            hint = "give a `.pte` file that ExecuTorch 1.x or Deuteron wrote"
            raise FormatError(f"this is not an ExecuTorch program: {found}", where=where, hint=hint)
        size, base = self._extended_header(pte)
        self._root = Buffer(pte[:size], where).root()
        self._segments = self._segments_of(pte, base)
        self._inline = tuple(table.blob(0) or b"" for table in self._root.tables(3))
        self._constant_bytes = tuple(len(table.blob(0) or b"") for table in self._root.tables(2))
        self._constants = self._subsegments(self._root.table(5))
        self._mutable = tuple(self._subsegments(table) for table in self._root.tables(6))
        for table in self._root.tables(7):
            self._index("segment of named data", table.scalar(1, "I"), self._segments)

    def program(self) -> Program:
        """The methods."""
        plans = self._root.tables(1)
        self._check(bool(plans), "the program has no method")
        return Program(tuple(self._method(plan) for plan in plans))

    def _extended_header(self, pte: bytes) -> tuple[int, int]:
        """Size of the flatbuffer and where segments start."""
        if pte[_HEADER_AT : _HEADER_AT + 4] != _HEADER_MAGIC:
            return len(pte), len(pte)
        self._check(len(pte) >= _HEADER_AT + _HEADER.size, f"the file ends inside its header: {len(pte)} bytes")
        _, _, size, base, segment_bytes = _HEADER.unpack_from(pte, _HEADER_AT)
        needed = max(size, base + segment_bytes)
        self._check(needed <= len(pte), f"its header says {needed} bytes, the file has {len(pte)}")
        return size, base or size

    def _segments_of(self, pte: bytes, base: int) -> tuple[bytes, ...]:
        spans = [(base + table.scalar(0, "Q"), table.scalar(1, "Q")) for table in self._root.tables(4)]
        for start, size in spans:
            self._check(start + size <= len(pte), f"a segment ends at byte {start + size}, the file has {len(pte)}")
        total = sum(size for _, size in spans)
        self._check(total <= len(pte), f"its segments overlap: they take {total} bytes, the file has {len(pte)}")
        return tuple(pte[start : start + size] for start, size in spans)

    def _subsegments(self, table: Table | None) -> tuple[int, tuple[int, ...]]:
        """Size of the segment that tensor data lie in, and the start of each of them."""
        offsets = table.scalars(1, "Q") if table else ()
        if table is None or not offsets:
            return 0, ()
        return len(self._index("segment of tensor data", table.scalar(0, "I"), self._segments)), offsets

    def _method(self, plan: Table) -> Method:
        if container := plan.table(1):
            container.string(0)
            container.string(1)
        values = plan.tables(2)
        kinds = tuple(value.scalar(0, "B") for value in values)
        arenas = plan.scalars(8, "q")
        specs = tuple(self._value(value, kinds, arenas) for value in values)
        inputs, outputs = plan.scalars(3, "i"), plan.scalars(4, "i")
        operators = tuple(f"{table.string(0)}.{table.string(1)}".rstrip(".") for table in plan.tables(6))
        parts = tuple(self._delegate(table) for table in plan.tables(7))
        chains = plan.tables(5)
        self._check(bool(chains), "a method has no instructions")
        for chain in chains:
            instructions = chain.tables(2)
            for instruction in instructions:
                self._instruction(instruction, kinds, len(operators), len(parts), len(instructions))
        return Method(
            name=plan.string(0),
            inputs=tuple(self._index("input value", i, specs) for i in inputs),
            outputs=tuple(self._index("output value", i, specs) for i in outputs),
            operators=operators,
            delegates=parts,
        )

    def _delegate(self, table: Table) -> Delegate:
        reference = self._present(table.table(1), f"delegate `{table.string(0)}` has no data")
        for spec in table.tables(2):
            spec.string(0)
            spec.blob(1)
        source = self._segments if reference.scalar(0, "b") else self._inline
        return Delegate(table.string(0), self._index("data of a delegate", reference.scalar(1, "I"), source))

    def _value(self, value: Table, kinds: Sequence[int], arenas: Sequence[int]) -> TensorSpec | None:
        """The tensor, None for other values."""
        kind = value.scalar(0, "B")
        self._check(kind in _Value.__members__.values(), f"a value has the unknown kind {kind}")
        if kind == _Value.NULL:
            return None
        table = self._present(value.table(1), f"a value of kind {kind} has no content")
        match kind:
            case _Value.TENSOR:
                return self._tensor(table, arenas)
            case _Value.STRING:
                table.string(0)
            case _Value.INT_LIST:
                self._elements(table.scalars(0, "q"), kinds, (_Value.INT,))
            case _Value.TENSOR_LIST:
                self._elements(table.scalars(0, "i"), kinds, (_Value.TENSOR,))
            case _Value.OPTIONAL_TENSOR_LIST:
                items = tuple(item for item in table.scalars(0, "i") if item != -1)
                self._elements(items, kinds, (_Value.TENSOR, _Value.NULL))
            case _Value.DOUBLE_LIST:
                table.scalars(0, "d")
            case _Value.BOOL_LIST:
                table.scalars(0, "b")
            case _:
                table.scalar(0, "b" if kind == _Value.BOOL else "q")
        return None

    def _elements(self, items: Sequence[int], kinds: Sequence[int], allowed: Sequence[_Value]) -> None:
        for item in items:
            kind = self._index("list element", item, kinds)
            self._check(kind in allowed, f"a list element is value {item} of kind {kind}")

    def _tensor(self, table: Table, arenas: Sequence[int]) -> TensorSpec:
        scalar_type = table.scalar(0, "b")
        self._check(scalar_type in _DTYPES, f"a tensor has the unknown scalar type {scalar_type}")
        dtype, item_bytes = _DTYPES[scalar_type]
        shape, order = table.scalars(2, "i"), table.scalars(3, "B")
        self._check(len(shape) <= _MAX_RANK, f"a tensor has {len(shape)} dimensions, at most {_MAX_RANK} are allowed")
        self._check(all(size >= 0 for size in shape), f"a tensor has the shape {shape}")
        self._check(sorted(order) == list(range(len(shape))), f"a tensor of shape {shape} has the dim order {order}")
        self._check(0 <= table.scalar(8, "b") <= 2, "a tensor has an unknown kind of shape")
        nbytes = math.prod(shape) * item_bytes
        buffer, allocation, extra = table.scalar(5, "I"), table.table(6), table.table(9)
        if allocation is not None:
            memory = allocation.scalar(0, "I")
            end = allocation.scalar(1, "I") + (allocation.scalar(2, "I") << 32) + nbytes
            arena = self._index("memory of a tensor", memory, arenas)
            self._check(memory > 0 and end <= arena, f"a tensor ends at byte {end} of memory {memory} with {arena}")
        if buffer > 0 and not (extra and extra.scalar(2, "b")):
            self._constant(buffer, nbytes, extra.scalar(0, "Q") if allocation and extra else None)
        return TensorSpec(shape, dtype, order)

    def _constant(self, buffer: int, nbytes: int, mutable: int | None) -> None:
        """Checks that the data of a tensor with initial content lie inside the file."""
        if mutable is None and not self._constants[1]:
            size = self._index("constant of a tensor", buffer, self._constant_bytes)
            self._check(nbytes <= size, f"a constant tensor needs {nbytes} bytes, its buffer has {size}")
            return
        size, offsets = self._constants if mutable is None else self._index("mutable data", mutable, self._mutable)
        end = self._index("constant of a tensor", buffer, offsets) + nbytes
        self._check(end <= size, f"a constant tensor ends at byte {end} of a segment with {size}")

    def _instruction(
        self, instruction: Table, kinds: Sequence[int], operators: int, parts: int, instructions: int
    ) -> None:
        kind = instruction.scalar(0, "B")
        self._check(kind in _Instruction.__members__.values(), f"an instruction has the unknown kind {kind}")
        table = self._present(instruction.table(1), f"an instruction of kind {kind} has no content")
        first = table.scalar(0, "i")
        if kind in {_Instruction.KERNEL_CALL, _Instruction.DELEGATE_CALL}:
            what, count = ("operator", operators) if kind == _Instruction.KERNEL_CALL else ("delegate", parts)
            self._check(0 <= first < count, f"an instruction calls {what} {first} of {count}")
            used = table.scalars(1, "i")
        elif kind == _Instruction.JUMP_FALSE:
            target = table.scalar(1, "i")
            self._check(0 <= target < instructions, f"a jump goes to instruction {target} of {instructions}")
            used = (first,)
        else:
            used = (first, table.scalar(1, "i")) if kind == _Instruction.MOVE else (first,)
        for value in used:
            self._index("argument of an instruction", value, kinds)

    def _index(self, what: str, index: int, items: Sequence[_T]) -> _T:
        self._check(0 <= index < len(items), f"{what}: index {index} of {len(items)}")
        return items[index]

    def _present(self, table: Table | None, message: str) -> Table:
        if table is None:
            raise FormatError(message, where=self._where, hint=_DAMAGED)
        return table

    def _check(self, good: bool, message: str) -> None:
        if not good:
            raise FormatError(message, where=self._where, hint=_DAMAGED)
