"""Replaces operators in the main subgraph of a TFLite file, and copies everything else field by field.

`encode` only writes supported operators. This module only needs the layout of tables, from the schema's generated
classes: options, versions and attributes of unsupported operators stay unchanged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, cast

import numpy as np
import tflite

from deuteron.errors import FormatError, UnsupportedError
from deuteron.tflite.decode import DAMAGE, HINT, Decoder, builtin_code
from deuteron.tflite.encode import Encoder
from deuteron.tflite.flat_model import CUSTOM, Buffer, FlatModel, FlatTensor

_UNIONS: Mapping[str, type[object]] = {
    "BuiltinOptions": tflite.BuiltinOptions,
    "BuiltinOptions2": tflite.BuiltinOptions2,
    "Details": tflite.QuantizationDetails,
    "ArraySegments": tflite.SparseIndexVector,
    "ArrayIndices": tflite.SparseIndexVector,
}
"""Union fields; the field of that name with `Type` has the kind of the table."""

_GROWTH = 8
"""Limit of a copy as a multiple of the file's size: a table with several references is copied for each."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A custom operator in place of others.

    Attributes:
        code: its name.
        inputs: tensors of the file by index.
        outputs: the same.
        constants: new tensors after its inputs.
        areas: new tensors after its outputs.
    """

    code: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[FlatTensor, ...] = ()
    areas: tuple[FlatTensor, ...] = ()


def rewrite(
    data: Buffer,
    steps: Sequence[int | Custom],
    *,
    inputs: Sequence[int] | None = None,
    outputs: Sequence[int] | None = None,
    metadata: Mapping[str, bytes] | None = None,
) -> bytes:
    """Return the file with these operators, in this order: existing ones by index, or new ones.

    Unused tensors are removed. Further subgraphs stay.

    Args:
        data: the file.
        steps: the operators.
        inputs: indices of tensors; by default those of the file, with its signatures.
        outputs: the same.
        metadata: further named buffers.

    Raises:
        FormatError: the file is damaged.
        UnsupportedError: it has fields that this schema lacks.
    """
    try:
        return _Rewriter(data).file(steps, inputs, outputs, metadata or {})
    except DAMAGE as error:
        raise FormatError("the TFLite flatbuffer is damaged or truncated", hint=HINT) from error


class _Rewriter(Encoder):
    """Writes a file from the tables of another."""

    def __init__(self, data: Buffer) -> None:
        super().__init__(FlatModel("", (), (), (), ()))
        self.source = Decoder(data, partial=True)
        self.root: Any = self.source.root.raw
        self.most = _GROWTH * len(data) + (1 << 16)
        self.copied: dict[int, int] = {0: 0}
        self.codes: dict[int | str, int] = {}

    def file(
        self,
        steps: Sequence[int | Custom],
        inputs: Sequence[int] | None,
        outputs: Sequence[int] | None,
        metadata: Mapping[str, bytes],
    ) -> bytes:
        """The bytes."""
        main = self.root.Subgraphs(0)
        is_whole = inputs is None and outputs is None
        ends = [
            tuple(getattr(main, side)(i) for i in range(getattr(main, f"{side}Length")())) if chosen is None else chosen
            for side, chosen in (("Inputs", inputs), ("Outputs", outputs))
        ]
        used = {index for end in ends for index in end}
        for step in steps:
            used |= {*step.inputs, *step.outputs} if isinstance(step, Custom) else {*_operands(main.Operators(step))}
        places = {-1: -1} | {old: new for new, old in enumerate(sorted(used - {-1}))}
        tensors = [self.copied_tensor(main.Tensors(old)) for old in places if old >= 0]
        operators: list[int] = []
        for step in steps:
            if isinstance(step, Custom):
                operators.append(self.custom(step, places, tensors))
            else:
                operators.append(self.copied_operator(main.Operators(step), places))
        subgraph = self.copy(
            "SubGraph",
            main,
            Tensors=self.offsets(tensors),
            Inputs=self.integers([places[i] for i in ends[0]]),
            Outputs=self.integers([places[i] for i in ends[1]]),
            Operators=self.offsets(operators),
        )
        others = [self.other(self.root.Subgraphs(i)) for i in range(1, self.root.SubgraphsLength())]
        listed = [self.root.Metadata(i) for i in range(self.root.MetadataLength())] if is_whole else []
        notes = [self.copy("Metadata", entry, Buffer=self.content(entry.Buffer())) for entry in listed]
        notes += [
            self.table("Metadata", Name=self.text(name), Buffer=self.buffer(content))
            for name, content in metadata.items()
        ]
        signatures = self.signatures(places) if is_whole else []
        codes = [
            self.operator_code(CUSTOM, code)
            if isinstance(code, str)
            else self.copy("OperatorCode", raw := self.root.OperatorCodes(code), BuiltinCode=builtin_code(raw))
            for code in self.codes
        ]
        root = self.copy(
            "Model",
            self.root,
            OperatorCodes=self.offsets(codes),
            Subgraphs=self.offsets([subgraph, *others]),
            Buffers=self.offsets(self.buffers),
            MetadataBuffer=None,
            Metadata=self.offsets(notes) if notes else None,
            SignatureDefs=self.offsets(signatures) if signatures else None,
        )
        self.builder.Finish(root, file_identifier=b"TFL3")
        return bytes(self.builder.Output())

    def copy(self, kind: str, raw: Any, **instead: int | None) -> int:
        """Offset of a copy of a table; given fields have another value, or none."""
        if self.builder.Offset() > self.most:
            raise FormatError("the TFLite flatbuffer is damaged: it declares more than the file holds", hint=HINT)
        _check_known(kind, raw)
        values = {name: self.value(raw, name) if name not in instead else instead[name] for name in _fields(kind)}
        return self.table(kind, **{name: value for name, value in values.items() if value is not None})

    def value(self, raw: Any, name: str) -> float | None:
        """Value of a field of a copy: a number, or the offset of a copy of its object."""
        if hasattr(raw, f"{name}Length"):
            if getattr(raw, f"{name}IsNone")():
                return None
            count: int = getattr(raw, f"{name}Length")()
            if hasattr(raw, f"{name}AsNumpy"):
                values = getattr(raw, f"{name}AsNumpy")()
                return int(self.builder.CreateNumpyVector(values if count else np.zeros(0, "u1")))
            return self.offsets([cast("int", self.inner(getattr(raw, name)(i))) for i in range(count)])
        found = getattr(raw, name)()
        if name in _UNIONS and found is not None:
            kind = _name(_UNIONS[name], getattr(raw, f"{name}Type")())
            table = getattr(tflite, kind)()
            table.Init(found.Bytes, found.Pos)
            return self.copy(kind, table)
        return self.inner(found)

    def inner(self, found: Any) -> float | None:
        """Value of one element of a field."""
        if found is None:
            return None
        if isinstance(found, bytes):
            return int(self.builder.CreateString(found))
        return self.copy(type(found).__name__, found) if hasattr(found, "_tab") else found

    def content(self, index: int) -> int:
        """The index of a buffer of the file in the copy."""
        if index not in self.copied:
            self.copied[index] = self.buffer(self.source.content(index))
        return self.copied[index]

    def copied_tensor(self, raw: Any) -> int:
        """Offset of a copy of a tensor."""
        return self.copy("Tensor", raw, Buffer=self.content(raw.Buffer()))

    def copied_operator(self, raw: Any, places: Mapping[int, int]) -> int:
        """Offset of a copy of an operator with new tensor indices."""
        vectors: dict[str, int | None] = {}
        for name in ("Inputs", "Outputs", "Intermediates"):
            if not getattr(raw, f"{name}IsNone")():
                vectors[name] = self.integers([places[i] for i in _vector(raw, name)])
        vectors["OpcodeIndex"] = self.code(raw.OpcodeIndex())
        if raw.LargeCustomOptionsOffset() > 1:
            start, size = raw.LargeCustomOptionsOffset(), raw.LargeCustomOptionsSize()
            options = self.source.slice(start, size, "an operator's options are")
            vectors |= {"CustomOptions": int(self.builder.CreateByteVector(options))}
            vectors |= {"LargeCustomOptionsOffset": None, "LargeCustomOptionsSize": None}
        return self.copy("Operator", raw, **vectors)

    def custom(self, step: Custom, places: Mapping[int, int], tensors: list[int]) -> int:
        """Offset of a new operator; its new tensors are added to the file."""
        first = len(tensors)
        tensors += [self.tensor(tensor) for tensor in (*step.constants, *step.areas)]
        middle = first + len(step.constants)
        return self.table(
            "Operator",
            OpcodeIndex=self.code(step.code),
            Inputs=self.integers([*(places[i] for i in step.inputs), *range(first, middle)]),
            Outputs=self.integers([*(places[i] for i in step.outputs), *range(middle, len(tensors))]),
        )

    def code(self, code: int | str) -> int:
        """Index of an operator code in the copy: one of the file by its index, or a custom one."""
        return self.codes.setdefault(code, len(self.codes))

    def other(self, raw: Any) -> int:
        """Offset of a copy of another subgraph."""
        tensors = [self.copied_tensor(raw.Tensors(i)) for i in range(raw.TensorsLength())]
        places = {i: i for i in range(-1, len(tensors))}
        operators = [self.copied_operator(raw.Operators(i), places) for i in range(raw.OperatorsLength())]
        return self.copy("SubGraph", raw, Tensors=self.offsets(tensors), Operators=self.offsets(operators))

    def signatures(self, places: Mapping[int, int]) -> list[int]:
        """Offsets of the signatures, with new tensor indices."""
        copies: list[int] = []
        for raw in (self.root.SignatureDefs(i) for i in range(self.root.SignatureDefsLength())):
            sides: dict[str, int | None] = {}
            for side in ("Inputs", "Outputs") if raw.SubgraphIndex() == 0 else ():
                maps = [getattr(raw, side)(i) for i in range(getattr(raw, f"{side}Length")())]
                sides[side] = self.offsets(
                    [self.copy("TensorMap", one, TensorIndex=places[one.TensorIndex()]) for one in maps]
                )
            copies.append(self.copy("SignatureDef", raw, **sides))
        return copies


def _operands(raw: Any) -> Iterable[int]:
    return (index for name in ("Inputs", "Outputs", "Intermediates") for index in _vector(raw, name))


def _vector(raw: Any, name: str) -> tuple[int, ...]:
    return tuple(getattr(raw, name)(i) for i in range(getattr(raw, f"{name}Length")()))


def _fields(kind: str) -> tuple[str, ...]:
    """The names of a table's fields."""
    start = f"{kind}Add"
    return tuple(name.removeprefix(start) for name in dir(tflite) if name.startswith(start))


def _name(enumeration: type[object], value: int) -> str:
    return next(name for name, number in vars(enumeration).items() if number == value)


def _check_known(kind: str, raw: Any) -> None:
    """Raise UnsupportedError for a table with fields of a newer schema."""
    table = raw._tab  # noqa: SLF001 (flatbuffers has no other way to a table's layout)
    start = table.Pos - int.from_bytes(table.Bytes[table.Pos : table.Pos + 4], "little", signed=True)
    layout = np.frombuffer(table.Bytes, "<u2", int.from_bytes(table.Bytes[start : start + 2], "little") // 2, start)
    known = _Slots()
    getattr(tflite, f"{kind}Start")(known)
    if layout[2 + known.count :].any():
        raise UnsupportedError(
            f"a table `{kind}` has fields that the schema of TFLite {version('tflite')} lacks; they would be lost",
            hint="write the file with an older exporter",
        )


class _Slots:
    """Mock of a builder that records the number of fields of a table."""

    count = 0

    def StartObject(self, count: int) -> None:  # noqa: N802 (the name is flatbuffers')
        """Record the number."""
        self.count = count
