"""`.pte` files of one partition between quantise and dequantise operators, written without ExecuTorch.

What `deuteron.runtime.pte` reads, and ExecuTorch's runtime, too. Slot numbers follow ExecuTorch's `schema/program.fbs`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers  # pyright: ignore[reportMissingTypeStubs]

from deuteron.runtime.program import TensorSpec
from deuteron.runtime.pte import IDENTIFIER, InstructionKind
from deuteron.runtime.pte_values import DTYPES, Kind

ALIGNMENT = 16
_CODES = {name: (code, size) for code, (name, size) in DTYPES.items()}

QUANTIZE = "quantized_decomposed::quantize_per_tensor"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor"


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor of the model, and how the partition's tensor is stored, which differs where the model has floats.

    Attributes:
        outer: what the caller gives or gets.
        stored: what the partition takes or gives.
        scale: of `stored`, where `outer` is float32.
        zero_point: the same.
        lowest: the least value of its type.
        highest: the largest.
    """

    outer: TensorSpec
    stored: TensorSpec
    scale: float = 1.0
    zero_point: int = 0
    lowest: int = 0
    highest: int = 0

    @property
    def is_float(self) -> bool:
        """Whether the program quantises it."""
        return self.outer.dtype != self.stored.dtype


def write(inputs: Sequence[Edge], outputs: Sequence[Edge], delegate_id: str, payload: bytes) -> bytes:
    """The file: one method `forward` that runs one delegate; quantised inputs come first, dequantised outputs last."""
    return _Writer().file(inputs, outputs, delegate_id, payload)


@dataclass(slots=True)
class _Writer:
    """One file being written: its values, its instructions, and the memory that is planned for its tensors."""

    builder: Any = field(default_factory=lambda: flatbuffers.Builder(1024))
    values: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    instructions: list[tuple[InstructionKind, int]] = field(default_factory=list[tuple[InstructionKind, int]])
    operators: list[str] = field(default_factory=list[str])
    arena: int = 0

    def file(self, inputs: Sequence[Edge], outputs: Sequence[Edge], delegate_id: str, payload: bytes) -> bytes:
        """The bytes."""
        ins, outs = [self._tensor(edge.outer) for edge in inputs], [self._tensor(edge.outer) for edge in outputs]
        stored = [self._stored(edge, value) for edge, value in zip((*inputs, *outputs), (*ins, *outs), strict=True)]
        for edge, outer, inner in zip(inputs, ins, stored, strict=False):
            if edge.is_float:
                self._convert(QUANTIZE, edge, outer, inner)
        self._call(InstructionKind.DELEGATE_CALL, 0, stored)
        for edge, outer, inner in zip(outputs, outs, stored[len(ins) :], strict=True):
            if edge.is_float:
                self._convert(DEQUANTIZE, edge, inner, outer)
        plan = self._plan(ins, outs, delegate_id)
        data = self._table((0, self._bytes(payload)))
        root = self._program(plan, data)
        self.builder.Finish(root, IDENTIFIER)
        return bytes(self.builder.Output())

    def _stored(self, edge: Edge, outer: int) -> int:
        return self._tensor(edge.stored) if edge.is_float else outer

    def _convert(self, name: str, edge: Edge, source: int, target: int) -> None:
        numbers = [self._double(edge.scale)]
        code = _CODES[edge.stored.dtype][0]
        numbers += [self._int(n) for n in (edge.zero_point, edge.lowest, edge.highest, code)]
        if name == DEQUANTIZE:
            numbers.append(self._value(Kind.NULL, self._table()))
        if name not in self.operators:
            self.operators.append(name)
        self._call(InstructionKind.KERNEL_CALL, self.operators.index(name), [source, *numbers, target, target])

    def _call(self, kind: InstructionKind, index: int, args: Sequence[int]) -> None:
        vector = self._numbers(args, 4, self.builder.PrependInt32)
        self.builder.StartObject(2)
        self.builder.PrependInt32Slot(0, index, 0)
        self.builder.PrependUOffsetTRelativeSlot(1, vector, 0)
        self.instructions.append((kind, self.builder.EndObject()))

    def _tensor(self, spec: TensorSpec) -> int:
        """The index of a new tensor, with memory of its own."""
        code, nbytes = _CODES[spec.dtype]
        for size in spec.shape:
            nbytes *= size
        offset, self.arena = self.arena, self.arena + nbytes + -nbytes % ALIGNMENT
        sizes = self._numbers(spec.shape, 4, self.builder.PrependInt32)
        order = self._numbers(spec.dim_order, 1, self.builder.PrependUint8)
        self.builder.StartObject(3)
        self.builder.PrependUint32Slot(0, 1, 0)
        self.builder.PrependUint32Slot(1, offset & 0xFFFFFFFF, 0)
        self.builder.PrependUint32Slot(2, offset >> 32, 0)
        place = self.builder.EndObject()
        self.builder.StartObject(10)
        self.builder.PrependInt8Slot(0, code, 0)
        self.builder.PrependUOffsetTRelativeSlot(2, sizes, 0)
        self.builder.PrependUOffsetTRelativeSlot(3, order, 0)
        self.builder.PrependUOffsetTRelativeSlot(6, place, 0)
        return self._value(Kind.TENSOR, self.builder.EndObject())

    def _int(self, number: int) -> int:
        self.builder.StartObject(1)
        self.builder.PrependInt64Slot(0, number, 0)
        return self._value(Kind.INT, self.builder.EndObject())

    def _double(self, number: float) -> int:
        self.builder.StartObject(1)
        self.builder.PrependFloat64Slot(0, number, 0.0)
        return self._value(Kind.DOUBLE, self.builder.EndObject())

    def _value(self, kind: Kind, content: int) -> int:
        self.values.append((int(kind), content))
        return len(self.values) - 1

    def _plan(self, inputs: Sequence[int], outputs: Sequence[int], delegate_id: str) -> int:
        """The one execution plan."""
        build = self.builder
        name, ident = build.CreateString("forward"), build.CreateString(delegate_id)
        values = self._tables([self._union(kind, content) for kind, content in self.values])
        steps = self._tables([self._union(int(kind), content) for kind, content in self.instructions])
        nothing = self._numbers((), 4, build.PrependInt32)
        chain = self._table((0, nothing), (1, nothing), (2, steps))
        operators = [(build.CreateString(operator), build.CreateString("out")) for operator in self.operators]
        calls = self._tables([self._table((0, operator), (1, overload)) for operator, overload in operators])
        build.StartObject(2)  # the first inline data
        build.PrependInt8Slot(0, 0, 0)
        build.PrependUint32Slot(1, 0, 0)
        reference = build.EndObject()
        no_specs = self._tables([])
        delegate = self._table((0, ident), (1, reference), (2, no_specs))
        fields = (
            (0, name),
            (2, values),
            (3, self._numbers(inputs, 4, build.PrependInt32)),
            (4, self._numbers(outputs, 4, build.PrependInt32)),
            (5, self._tables([chain])),
            (6, calls),
            (7, self._tables([delegate])),
            (8, self._numbers((0, self.arena), 8, build.PrependInt64)),
        )
        return self._table(*fields)

    def _program(self, plan: int, data: int) -> int:
        offsets = self._numbers((0,), 8, self.builder.PrependUint64)
        constants = self._table((1, offsets))  # the first segment's, which stands for no constants
        segments = self._tables([self._table()])
        parts = ((1, self._tables([plan])), (3, self._tables([data])), (4, segments), (5, constants))
        return self._table(*parts)

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
        """A vector of bytes that lies as ExecuTorch wants what delegates read in place."""
        build = self.builder
        build.StartVector(1, len(data), ALIGNMENT)
        build.head -= len(data)
        build.Bytes[build.head : build.head + len(data)] = data
        return build.EndVector()
