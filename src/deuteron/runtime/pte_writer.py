"""Writes `.pte` files of partitions and CPU operators without ExecuTorch.

`deuteron.runtime.pte` and ExecuTorch's runtime read them. Slot numbers follow ExecuTorch's `schema/program.fbs`.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import flatbuffers  # pyright: ignore[reportMissingTypeStubs]

from deuteron.planner.interval_placement import first_fit
from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte import IDENTIFIER, InstructionKind
from deuteron.runtime.pte_values import DTYPES, ValueKind
from deuteron.tflite.flat_model import State

ALIGNMENT = 16
_HEADER_BYTES = 32
"""Size of the header after a program's identifier; keeps the rest aligned."""

CODES = {name: code for code, (name, _) in DTYPES.items()}
"""Numbers of element types."""


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor of the program, by its number."""

    tensor: int


Argument = Ref | float | tuple[int, ...] | tuple[Ref, ...] | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an operator on the CPU: its name with the overload, and its arguments."""

    operator: str
    args: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Delegated:
    """A call of a partition on these tensors."""

    payload: bytes
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contents:
    """Content of a program.

    Attributes:
        tensors: by number.
        constants: the bytes of tensors with content.
        inputs: numbers of the program's inputs.
        outputs: numbers of the program's outputs.
        steps: in execution order.
        states: names and initial bytes of tensors that keep their values from run to run.
    """

    tensors: Mapping[int, TensorSpec]
    constants: Mapping[int, bytes]
    inputs: Sequence[int]
    outputs: Sequence[int]
    steps: Sequence[Call | Delegated]
    states: Mapping[int, State] = field(default_factory=dict[int, State])


def write(contents: Contents, delegate_id: str) -> bytes:
    """Return the file: one method `forward`."""
    return _Writer().file(contents, delegate_id)


def _allocated_bytes(spec: TensorSpec) -> int:
    """Return the bytes that are allocated for a tensor."""
    return -(-DTYPES[CODES[spec.dtype]][1] * math.prod(spec.shape) // ALIGNMENT) * ALIGNMENT


def _offsets(contents: Contents) -> Mapping[int, int]:
    """Place each tensor without constant data, largest first, by first fit among those that are live with it."""
    offsets: dict[int, int] = {}
    lifetimes = _lifetimes(contents)
    sizes = {number: _allocated_bytes(contents.tensors[number]) for number in lifetimes}
    for number in sorted(lifetimes, key=lambda number: -sizes[number]):
        first, last = lifetimes[number]
        occupied = [
            (at, at + sizes[other])
            for other, at in offsets.items()
            if first <= lifetimes[other][1] and lifetimes[other][0] <= last
        ]
        offsets[number] = first_fit(occupied, sizes[number])
    return offsets


def _lifetimes(contents: Contents) -> Mapping[int, tuple[int, int]]:
    """Return the first and last step at which a tensor without content is live.

    Inputs are live before step 0, and states at every step: they share memory with no other tensor.
    """
    uses = [(-1, number) for number in contents.inputs]
    for at, step in enumerate(contents.steps):
        uses += ((at, number) for number in (step.args if isinstance(step, Delegated) else refs(step.args)))
    uses += ((len(contents.steps), number) for number in contents.outputs)
    uses += ((at, number) for number in contents.states for at in (-1, len(contents.steps)))
    lifetimes: dict[int, tuple[int, int]] = {}
    for at, number in uses:
        if number not in contents.constants:
            first, last = lifetimes.get(number, (at, at))
            lifetimes[number] = min(first, at), max(last, at)
    return lifetimes


def refs(args: Sequence[object]) -> Iterator[int]:
    """Yield the tensors among the arguments."""
    for arg in args:
        if isinstance(arg, Ref):
            yield arg.tensor
        elif isinstance(arg, tuple):
            yield from refs(cast("tuple[object, ...]", arg))


@dataclass(slots=True)
class _Writer:
    """Writes one file: its values, its instructions, and the planned memory of its tensors."""

    builder: Any = field(default_factory=lambda: flatbuffers.Builder(1024))
    values: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    instructions: list[tuple[InstructionKind, int]] = field(default_factory=list[tuple[InstructionKind, int]])
    operators: list[str] = field(default_factory=list[str])
    segment: bytearray = field(default_factory=bytearray)
    offsets: list[int] = field(default_factory=list[int])
    initial: bytearray = field(default_factory=bytearray)
    initial_offsets: list[int] = field(default_factory=list[int])
    payloads: list[bytes] = field(default_factory=list[bytes])
    ints: dict[int, int] = field(default_factory=dict[int, int])
    arena: int = 0

    def file(self, contents: Contents, delegate_id: str) -> bytes:
        """Return the file's bytes."""
        offsets = _offsets(contents)
        places = {
            i: self._tensor(spec, contents.constants.get(i), offsets.get(i, 0), contents.states.get(i))
            for i, spec in contents.tensors.items()
        }
        for step in contents.steps:
            if isinstance(step, Delegated):
                self.payloads.append(step.payload)
                args = [places[number] for number in step.args]
                self._instruction(InstructionKind.DELEGATE_CALL, len(self.payloads) - 1, args)
                continue
            if step.operator not in self.operators:
                self.operators.append(step.operator)
            args = [self._argument(arg, places) for arg in step.args]
            self._instruction(InstructionKind.KERNEL_CALL, self.operators.index(step.operator), args)
        plan = self._plan([places[i] for i in contents.inputs], [places[i] for i in contents.outputs], delegate_id)
        data = [self._table((0, self._bytes(payload))) for payload in self.payloads]
        root = self._program(plan, data)
        self.builder.Finish(root, IDENTIFIER)
        return self._with_segments(bytes(self.builder.Output()))

    def _argument(self, arg: Argument, places: Mapping[int, int]) -> int:
        """Return the index of an argument among the values."""
        match arg:
            case Ref(tensor):
                return places[tensor]
            case float():
                return self._double(arg)
            case bool():
                return self._bool(arg)
            case int():
                return self._int(arg)
            case tuple():
                items = [self._argument(item, places) for item in arg]
                if any(isinstance(item, Ref) for item in arg):
                    tensors = self._numbers(items, 4, self.builder.PrependInt32)
                    return self._value(ValueKind.TENSOR_LIST, self._table((0, tensors)))
                numbers = self._numbers(items, 8, self.builder.PrependInt64)
                return self._value(ValueKind.INT_LIST, self._table((0, numbers)))
            case None:
                return self._value(ValueKind.NULL, self._table())

    def _instruction(self, kind: InstructionKind, index: int, args: Sequence[int]) -> None:
        vector = self._numbers(args, 4, self.builder.PrependInt32)
        self.builder.StartObject(2)
        self.builder.PrependInt32Slot(0, index, 0)
        self.builder.PrependUOffsetTRelativeSlot(1, vector, 0)
        self.instructions.append((kind, self.builder.EndObject()))

    def _tensor(self, spec: TensorSpec, content: bytes | None, offset: int, state: State | None) -> int:
        """Return the index of a new tensor, with content or an offset in the planned memory; a state has both."""
        code, extra = CODES[spec.dtype], 0
        sizes = self._numbers(spec.shape, 4, self.builder.PrependInt32)
        order = self._numbers(spec.dim_order, 1, self.builder.PrependUint8)
        place = self._place(offset, offset + _allocated_bytes(spec)) if content is None else 0
        if state is not None:
            extra = self._table((1, self.builder.CreateString(state.name)))  # the group of mutable data is 0
            self.initial_offsets.append(len(self.initial))
            self.initial += state.initial + bytes(-len(state.initial) % ALIGNMENT)
        self.builder.StartObject(10)
        self.builder.PrependInt8Slot(0, code, 0)
        self.builder.PrependUOffsetTRelativeSlot(2, sizes, 0)
        self.builder.PrependUOffsetTRelativeSlot(3, order, 0)
        if content is not None:
            self.offsets.append(len(self.segment))
            self.segment += content + bytes(-len(content) % ALIGNMENT)
            self.builder.PrependUint32Slot(5, len(self.offsets), 0)
        else:
            self.builder.PrependUOffsetTRelativeSlot(6, place, 0)
        if state is not None:
            self.builder.PrependUint32Slot(5, len(self.initial_offsets), 0)
            self.builder.PrependUOffsetTRelativeSlot(9, extra, 0)
        return self._value(ValueKind.TENSOR, self.builder.EndObject())

    def _place(self, offset: int, end: int) -> int:
        """Write the allocation of these bytes of the planned memory."""
        self.arena = max(self.arena, end)
        self.builder.StartObject(3)
        self.builder.PrependUint32Slot(0, 1, 0)
        self.builder.PrependUint32Slot(1, offset & 0xFFFFFFFF, 0)
        self.builder.PrependUint32Slot(2, offset >> 32, 0)
        return self.builder.EndObject()

    def _bool(self, value: bool) -> int:
        self.builder.StartObject(1)
        self.builder.PrependBoolSlot(0, value, False)
        return self._value(ValueKind.BOOL, self.builder.EndObject())

    def _int(self, number: int) -> int:
        """The index of a number, which all arguments that have it share."""
        if number in self.ints:
            return self.ints[number]
        self.builder.StartObject(1)
        self.builder.PrependInt64Slot(0, number, 0)
        self.ints[number] = self._value(ValueKind.INT, self.builder.EndObject())
        return self.ints[number]

    def _double(self, number: float) -> int:
        self.builder.StartObject(1)
        self.builder.PrependFloat64Slot(0, number, 0.0)
        return self._value(ValueKind.DOUBLE, self.builder.EndObject())

    def _value(self, kind: ValueKind, content: int) -> int:
        self.values.append((int(kind), content))
        return len(self.values) - 1

    def _plan(self, inputs: Sequence[int], outputs: Sequence[int], delegate_id: str) -> int:
        """Write the execution plan."""
        build = self.builder
        name, ident = build.CreateString("forward"), build.CreateString(delegate_id)
        values = self._tables([self._union(kind, content) for kind, content in self.values])
        steps = self._tables([self._union(int(kind), content) for kind, content in self.instructions])
        nothing = self._numbers((), 4, build.PrependInt32)
        chain = self._table((0, nothing), (1, nothing), (2, steps))
        parts = [operator.partition(".") for operator in self.operators]
        operators = [(build.CreateString(name), build.CreateString(overload)) for name, _, overload in parts]
        calls = self._tables([self._table((0, operator), (1, overload)) for operator, overload in operators])
        no_specs = self._tables([])
        delegates: list[int] = []
        for number in range(len(self.payloads)):
            build.StartObject(2)  # inline data of this number
            build.PrependInt8Slot(0, 0, 0)
            build.PrependUint32Slot(1, number, 0)
            reference = build.EndObject()
            delegates.append(self._table((0, ident), (1, reference), (2, no_specs)))
        fields = (
            (0, name),
            (2, values),
            (3, self._numbers(inputs, 4, build.PrependInt32)),
            (4, self._numbers(outputs, 4, build.PrependInt32)),
            (5, self._tables([chain])),
            (6, calls),
            (7, self._tables(delegates)),
            (8, self._numbers((0, self.arena), 8, build.PrependInt64)),
        )
        return self._table(*fields)

    def _program(self, plan: int, data: Sequence[int]) -> int:
        """Write the root table; segment 0 has the constants, 1 the states, and index 0 of both means no content."""
        segments = [self._span(0, len(self.segment))]
        parts = [(1, self._tables([plan])), (3, self._tables(data)), (5, self._subsegments(0, self.offsets))]
        if self.initial_offsets:
            segments.append(self._span(len(self.segment), len(self.initial)))
            parts.append((6, self._tables([self._subsegments(1, self.initial_offsets)])))
        return self._table(*parts, (4, self._tables(segments)))

    def _span(self, start: int, size: int) -> int:
        """Write where a segment is."""
        self.builder.StartObject(2)
        self.builder.PrependUint64Slot(0, start, 0)
        self.builder.PrependUint64Slot(1, size, 0)
        return self.builder.EndObject()

    def _subsegments(self, segment: int, offsets: Sequence[int]) -> int:
        """Write where tensors are in a segment."""
        vector = self._numbers((0, *offsets), 8, self.builder.PrependUint64)
        self.builder.StartObject(2)
        self.builder.PrependUint32Slot(0, segment, 0)
        self.builder.PrependUOffsetTRelativeSlot(1, vector, 0)
        return self.builder.EndObject()

    def _with_segments(self, program: bytes) -> bytes:
        """Return the flatbuffer with a header that locates the segments, and the segments."""
        (root,) = struct.unpack_from("<I", program)
        size = len(program) + _HEADER_BYTES
        base = size + -size % ALIGNMENT
        content = bytes(self.segment) + bytes(self.initial)
        header = struct.pack("<4sIQQQ", b"eh00", _HEADER_BYTES, size, base, len(content))
        whole = struct.pack("<I", root + _HEADER_BYTES) + program[4:8] + header + program[8:]
        return whole.ljust(base, b"\0") + content

    def _union(self, kind: int, content: int) -> int:
        self.builder.StartObject(2)
        self.builder.PrependUint8Slot(0, kind, 0)
        self.builder.PrependUOffsetTRelativeSlot(1, content, 0)
        return self.builder.EndObject()

    def _table(self, *fields: tuple[int, int]) -> int:
        """A table whose fields are all offsets."""
        self.builder.StartObject(max((slot for slot, _ in fields), default=-1) + 1)
        for slot, offset in fields:
            self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return self.builder.EndObject()

    def _tables(self, offsets: Sequence[int]) -> int:
        return self._numbers(offsets, 4, self.builder.PrependUOffsetTRelative)

    def _numbers(self, numbers: Sequence[int], size: int, prepend: "Callable[[int], object]") -> int:
        self.builder.StartVector(size, len(numbers), size)
        for number in reversed(numbers):
            prepend(number)
        return self.builder.EndVector()

    def _bytes(self, data: bytes) -> int:
        """Write a byte vector with the alignment that ExecuTorch's delegates need."""
        build = self.builder
        build.StartVector(1, len(data), ALIGNMENT)
        build.head -= len(data)
        build.Bytes[build.head : build.head + len(data)] = data
        return build.EndVector()
