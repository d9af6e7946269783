"""Reads the values of a `.pte` method: tensors with their memory, numbers, lists; checks every index."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from deuteron.errors import FormatError
from deuteron.flatbuffer import Table
from deuteron.runtime.program import Constant, Place, TensorList, TensorSpec, TensorValue, Value

_T = TypeVar("_T")

_MAX_RANK = 16
"""Maximum rank of a tensor in ExecuTorch's runtime."""

DTYPES = {
    0: ("uint8", 1),
    1: ("int8", 1),
    2: ("int16", 2),
    3: ("int32", 4),
    4: ("int64", 8),
    5: ("float16", 2),
    6: ("float32", 4),
    7: ("float64", 8),
    9: ("complex64", 8),
    11: ("bool", 1),
    15: ("bfloat16", 2),
    27: ("uint16", 2),
    28: ("uint32", 4),
    29: ("uint64", 8),
}


class ValueKind(IntEnum):
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


@dataclass(frozen=True, slots=True)
class Check:
    """Checks that raise FormatError, placed at `where`."""

    where: str

    def that(self, good: bool, message: str) -> None:
        """Raise FormatError unless `good`."""
        if not good:
            raise self.error(message)

    def index(self, what: str, index: int, items: Sequence[_T]) -> _T:
        """Return the item of that index."""
        self.that(0 <= index < len(items), f"{what}: index {index} of {len(items)}")
        return items[index]

    def present(self, table: Table | None, message: str) -> Table:
        """Return the table, which must exist."""
        if table is None:
            raise self.error(message)
        return table

    def error(self, message: str) -> FormatError:
        """Return the error for damage found here."""
        return FormatError(message, where=self.where, hint="the file is damaged or truncated: build it again")


@dataclass(frozen=True, slots=True)
class Content:
    """Content of tensors, by number: buffers of the flatbuffer, or offsets in segments.

    Attributes:
        buffers: constants, in old files.
        constants: the segment of constants, with its offsets.
        mutable: the same for each group of mutable tensors with initial content.
    """

    buffers: tuple[bytes, ...]
    constants: tuple[bytes, tuple[int, ...]]
    mutable: tuple[tuple[bytes, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class _IntList:
    """A list of integers as the file has it: indices of values."""

    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the values of one method, whose memories have the sizes `arenas`."""

    check: Check
    content: Content
    arenas: tuple[int, ...]

    def values(self, tables: Sequence[Table]) -> tuple[Value, ...]:
        """Return all values."""
        kinds = tuple(table.scalar(0, "B") for table in tables)
        values = [self._value(kind, table, kinds) for kind, table in zip(kinds, tables, strict=True)]
        return tuple(_resolved(value, values) if isinstance(value, _IntList) else value for value in values)

    def _value(self, kind: int, value: Table, kinds: Sequence[int]) -> "Value | _IntList":
        self.check.that(kind in ValueKind.__members__.values(), f"a value has the unknown kind {kind}")
        if kind == ValueKind.NULL:
            return None
        table = self.check.present(value.table(1), f"a value of kind {kind} has no content")
        match kind:
            case ValueKind.TENSOR:
                return self._tensor(table)
            case ValueKind.STRING:
                return table.string(0)
            case ValueKind.DOUBLE:
                return table.double(0)
            case ValueKind.BOOL:
                return table.scalar(0, "b") != 0
            case ValueKind.INT_LIST:
                return _IntList(self._elements(table.scalars(0, "q"), kinds, (ValueKind.INT,)))
            case ValueKind.DOUBLE_LIST:
                return table.doubles(0)
            case ValueKind.BOOL_LIST:
                return tuple(item != 0 for item in table.scalars(0, "b"))
            case ValueKind.TENSOR_LIST:
                return TensorList(self._elements(table.scalars(0, "i"), kinds, (ValueKind.TENSOR,)))
            case ValueKind.OPTIONAL_TENSOR_LIST:
                items = table.scalars(0, "i")
                self._elements(tuple(item for item in items if item != -1), kinds, (ValueKind.TENSOR, ValueKind.NULL))
                return TensorList(tuple(None if item == -1 else item for item in items))
            case _:
                return table.scalar(0, "q")

    def _elements(self, items: tuple[int, ...], kinds: Sequence[int], allowed: Sequence[ValueKind]) -> tuple[int, ...]:
        """Return the items, which must be indices of values of the allowed kinds."""
        for item in items:
            kind = self.check.index("list element", item, kinds)
            self.check.that(kind in allowed, f"a list element is value {item} of kind {kind}")
        return items

    def _tensor(self, table: Table) -> TensorValue:
        spec, nbytes = self._spec(table)
        dynamism, buffer, allocation, extra = table.scalar(8, "b"), table.scalar(5, "I"), table.table(6), table.table(9)
        self.check.that(0 <= dynamism <= 2, "a tensor has an unknown kind of shape")
        external = extra is not None and extra.scalar(2, "b") != 0
        place = None if allocation is None else self._place(allocation, nbytes)
        constant = None
        if buffer > 0 and not external:
            group = None if place is None else extra.scalar(0, "Q") if extra else 0
            constant = self._constant(buffer, nbytes, group)
        name = extra.string(1) if extra else ""
        return TensorValue(spec, nbytes, place, constant, dynamism != 0, external, name)

    def _spec(self, table: Table) -> tuple[TensorSpec, int]:
        """Return type, shape and dim order of a tensor, and its size in bytes."""
        check, scalar_type = self.check, table.scalar(0, "b")
        check.that(scalar_type in DTYPES, f"a tensor has the unknown scalar type {scalar_type}")
        dtype, item_bytes = DTYPES[scalar_type]
        first, shape, order = table.scalar(1, "i"), table.scalars(2, "i"), table.scalars(3, "B")
        check.that(first == 0, f"a tensor starts at element {first} of its memory, which must be 0")
        check.that(len(shape) <= _MAX_RANK, f"a tensor has {len(shape)} dimensions, at most {_MAX_RANK} are allowed")
        check.that(all(size >= 0 for size in shape), f"a tensor has the shape {shape}")
        check.that(sorted(order) == list(range(len(shape))), f"a tensor of shape {shape} has the dim order {order}")
        return TensorSpec(shape, dtype, order), math.prod(shape) * item_bytes

    def _place(self, allocation: Table, nbytes: int) -> Place:
        memory = allocation.scalar(0, "I")
        offset = allocation.scalar(1, "I") + (allocation.scalar(2, "I") << 32)
        arena = self.check.index("memory of a tensor", memory, self.arenas)
        message = f"a tensor ends at byte {offset + nbytes} of memory {memory} with {arena}"
        self.check.that(memory > 0 and offset + nbytes <= arena, message)
        return Place(memory, offset)

    def _constant(self, buffer: int, nbytes: int, group: int | None) -> Constant:
        """Return the content of a tensor; `group` is the group of a mutable tensor."""
        check, content = self.check, self.content
        if group is None and not content.constants[1]:
            data = check.index("constant of a tensor", buffer, content.buffers)
            check.that(nbytes <= len(data), f"a constant tensor needs {nbytes} bytes, its buffer has {len(data)}")
            return Constant(data, 0, nbytes)
        data, offsets = content.constants if group is None else check.index("mutable data", group, content.mutable)
        start = check.index("constant of a tensor", buffer, offsets)
        message = f"a constant tensor ends at byte {start + nbytes} of a segment with {len(data)}"
        check.that(start + nbytes <= len(data), message)
        return Constant(data, start, nbytes)


def _resolved(indices: _IntList, values: "Sequence[Value | _IntList]") -> tuple[int, ...]:
    """Return the integers at these indices."""
    return tuple(value for value in (values[item] for item in indices.items) if isinstance(value, int))
