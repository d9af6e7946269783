"""Decodes TFLite bytes to a `FlatModel`; any other bytes give a FormatError or an UnsupportedError.

Python's flatbuffers package does not verify files: damage raises arbitrary exceptions, and many references to one
vector make a small file expensive. So `decode` alone converts its exceptions, and a budget in proportion to the file's
size limits the bytes that are read.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from deuteron.errors import FormatError, UnsupportedError, VerifyError
from deuteron.tflite.flat_model import (
    FILE_IDENTIFIER,
    NO_TENSOR,
    OPTION_FIELDS,
    SCHEMA_VERSION,
    Buffer,
    FlatModel,
    FlatOperator,
    FlatTensor,
    Options,
)
from deuteron.tflite.quantization import Quant

DAMAGE = (struct.error, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What flatbuffers, numpy and str raise when offsets, lengths or text in the file are wrong."""

_BUILTIN_CODE = 10
"""Position of the newer field in the vtable of an operator code."""

_BUDGET_FACTOR = 8
_BUDGET_BASE = 1 << 16
_HINT_PLAIN = "export the model with plain int8 tensors"
HINT = "make the file again; it is not what a TFLite exporter writes"
_PROGRAM_HINT = "give `deuteron run` or `deuteron inspect` the build directory that the program is in"


def decode(data: Buffer, *, partial: bool = False, subgraph: int = 0) -> FlatModel:
    """Decode the model in `data`, with every index in range.

    Args:
        data: the file.
        partial: accept models that cannot be compiled: one of several subgraphs, tensors with a `problem`.
        subgraph: the one of several.

    Raises:
        FormatError: the file is damaged, truncated, or not TFLite.
        UnsupportedError: several subgraphs, dynamic shapes, sparse or variable tensors; none of these if `partial`.
    """
    if data[4:8] != FILE_IDENTIFIER:
        marks = f"{len(data)} bytes, of which 4 to 8 are {data[4:8]!r} instead of {FILE_IDENTIFIER!r}"
        if data[4:6] == b"ET":
            raise FormatError("not a TFLite model but an ExecuTorch program", hint=_PROGRAM_HINT)
        raise FormatError(f"not a TFLite model: {marks if data else 'it is empty'}", hint=HINT)
    try:
        return Decoder(data, partial=partial).model(subgraph)
    except DAMAGE as error:
        raise FormatError("the TFLite flatbuffer is damaged or truncated", hint=HINT) from error


def _names(enumeration: type[object]) -> dict[int, str]:
    """Return the names of a schema enumeration by value."""
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


_OPERATORS = _names(tflite.BuiltinOperator)
_DTYPES = _names(tflite.TensorType)
_OPTION_KINDS = _names(tflite.BuiltinOptions)


class _Budget:
    """Bytes that may still be read from the file."""

    def __init__(self, size: int) -> None:
        self.left = _BUDGET_BASE + _BUDGET_FACTOR * size

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise FormatError("the TFLite flatbuffer is damaged: it declares more than the file holds", hint=HINT)


@dataclass(frozen=True, slots=True)
class _Table:
    """A flatbuffer table with typed accessors; fields have the names of the schema's generated classes."""

    raw: object
    budget: _Budget

    def integer(self, field: str) -> int:
        """An integer, boolean or enumeration field."""
        return int(getattr(self.raw, field)())

    def text(self, field: str) -> str:
        """A string field, "" when it is left out."""
        value: bytes | None = getattr(self.raw, field)()
        if value is None:
            return ""
        self.budget.take(len(value))
        return value.decode("utf-8")

    def vector(self, field: str) -> npt.NDArray[np.generic] | None:
        """A vector of numbers, None when it is left out or empty."""
        if not self._length(field, 1):
            return None
        values: npt.NDArray[np.generic] = getattr(self.raw, f"{field}AsNumpy")()
        self.budget.take(values.nbytes)
        return values

    def integers(self, field: str) -> tuple[int, ...]:
        """A vector of integers, () when it is left out."""
        values = self.vector(field)
        return () if values is None else tuple(values.tolist())

    def floats(self, field: str) -> tuple[float, ...]:
        """A vector of numbers, () when it is left out."""
        values = self.vector(field)
        return () if values is None else tuple(values.tolist())

    def child(self, field: str) -> "_Table | None":
        """A table field, None when it is left out."""
        raw: object | None = getattr(self.raw, field)()
        return None if raw is None else _Table(raw, self.budget)

    def children(self, field: str) -> "list[_Table]":
        """A vector of tables, [] when it is left out."""
        return [_Table(getattr(self.raw, field)(i), self.budget) for i in range(self._length(field, 4))]

    def _length(self, field: str, width: int) -> int:
        length: int = getattr(self.raw, f"{field}Length")()
        self.budget.take(length * width)
        return length


class Decoder:
    """Decodes one file; `root` is its first table."""

    def __init__(self, data: Buffer, *, partial: bool = False) -> None:
        self.data, self.partial = data, partial
        self.budget = _Budget(len(data))
        model: Any = tflite.Model
        self.root = _Table(model.GetRootAs(data, 0), self.budget)
        self.buffers = self.root.children("Buffers")
        self.contents: dict[int, bytes | None] = {}

    def model(self, subgraph: int = 0) -> FlatModel:
        """The model, of which this subgraph counts."""
        if (version := self.root.integer("Version")) != SCHEMA_VERSION:
            raise FormatError(f"TFLite schema version {version}; only version {SCHEMA_VERSION} can be read", hint=HINT)
        subgraphs = self.root.children("Subgraphs")
        if len(subgraphs) != 1 and not (self.partial and 0 <= subgraph < len(subgraphs)):
            raise UnsupportedError(
                f"the TFLite model has {len(subgraphs)} subgraphs instead of 1",
                hint="control flow and several signatures cannot be compiled; export one plain forward function",
            )
        graph = subgraphs[subgraph]
        tensors = tuple(self.tensor(t, i) for i, t in enumerate(graph.children("Tensors")))
        operators = graph.children("Operators")
        codes = [self.operator_code(code) for code in self.root.children("OperatorCodes")]
        return FlatModel(
            name=graph.text("Name"),
            tensors=tensors,
            inputs=_indices(graph, "Inputs", 0, len(tensors)),
            outputs=_indices(graph, "Outputs", 0, len(tensors)),
            operators=tuple(self.operator(op, codes, len(tensors)) for op in operators),
            metadata=self.metadata(),
            is_complete=len(subgraphs) == 1 and not any(map(_has_more, operators)),
        )

    def keeps_all(self, subgraph: int) -> bool:
        """Whether `FlatOperator` keeps all fields of a subgraph's operators."""
        return not any(map(_has_more, self.root.children("Subgraphs")[subgraph].children("Operators")))

    def metadata(self) -> Mapping[str, bytes]:
        """The named buffers."""
        entries = self.root.children("Metadata")
        return {entry.text("Name"): self.content(entry.integer("Buffer")) or b"" for entry in entries}

    def content(self, index: int) -> bytes | None:
        """Return the bytes of buffer `index`, None if it is empty; read once, even if several tensors share it."""
        if index not in self.contents:
            data = self.buffers[index].vector("Data")
            self.contents[index] = self.outside(index) if data is None else data.tobytes()
        return self.contents[index]

    def outside(self, index: int) -> bytes | None:
        """Return the bytes of buffer `index` after the flatbuffer, where exporters put large constants."""
        start, size = self.buffers[index].integer("Offset"), self.buffers[index].integer("Size")
        if start <= 1 or size == 0:  # no bytes, by the schema
            return None
        return self.slice(start, size, f"buffer {index} is")

    def slice(self, start: int, size: int, what: str) -> bytes:
        """Return bytes of the file; `what` is the start of an error about them."""
        if start + size > len(self.data):
            raise FormatError(
                f"the TFLite file is damaged or cut off: {what} its bytes {start} to {start + size}, and it "
                f"has {len(self.data)}",
                hint="copy the file again, or make it again",
            )
        self.budget.take(size)
        return self.data[start : start + size]

    def tensor(self, table: _Table, index: int) -> FlatTensor:
        """A tensor."""
        name = table.text("Name") or f"tensor_{index}"
        shape, quant, problem = table.integers("Shape"), None, ""
        try:
            quant = _quantization(table.child("Quantization"), name)
            self.check(table, name)
        except UnsupportedError as error:
            if not self.partial:
                raise
            problem = error.message
        code = table.integer("Type")
        return FlatTensor(
            name=name,
            shape=shape,
            dtype=_DTYPES.get(code, f"type {code}"),
            quant=quant,
            data=self.content(table.integer("Buffer")),
            problem=problem,
            is_variable=bool(table.integer("IsVariable")),
            is_open=_is_open(shape, table.integers("ShapeSignature")),
        )

    def check(self, table: _Table, name: str) -> None:
        """Raise UnsupportedError for a tensor with a dynamic shape, a sparse one, or a variable."""
        if any(dim < 0 for dim in table.integers("Shape")):
            raise UnsupportedError(
                f"tensor `{name}` has a dynamic shape; all shapes must be known at compile time",
                hint="export the model without dynamic dimensions",
            )
        if table.child("Sparsity") is not None:
            raise UnsupportedError(f"tensor `{name}` is sparse; only dense tensors can be compiled", hint=_HINT_PLAIN)
        if table.integer("IsVariable"):
            raise UnsupportedError(
                f"tensor `{name}` is a variable; state between runs cannot be compiled", hint=_HINT_PLAIN
            )

    def operator_code(self, table: _Table) -> tuple[str, str, int]:
        """Return (operator name, custom code, version); old files have the code in the deprecated field only."""
        code = builtin_code(table.raw)
        return _OPERATORS.get(code, f"operator {code}"), table.text("CustomCode"), table.integer("Version")

    def operator(self, table: _Table, codes: list[tuple[str, str, int]], tensors: int) -> FlatOperator:
        """An operator."""
        name, custom_code, version = codes[table.integer("OpcodeIndex")]
        kind, options = self.options(table)
        return FlatOperator(
            name=name,
            inputs=_indices(table, "Inputs", NO_TENSOR, tensors),
            outputs=_indices(table, "Outputs", 0, tensors),
            kind=kind,
            options=options,
            custom_code=custom_code,
            custom_options=b"" if (data := table.vector("CustomOptions")) is None else data.tobytes(),
            version=version,
            intermediates=_indices(table, "Intermediates", NO_TENSOR, tensors),
        )

    def options(self, table: _Table) -> tuple[str, Options]:
        """Return kind and fields of the option table; an unknown kind has no fields."""
        code = table.integer("BuiltinOptionsType")
        kind = _OPTION_KINDS.get(code, f"options {code}") if code else ""
        union = table.child("BuiltinOptions")
        if union is None or not hasattr(tflite, kind):
            return kind, {}
        raw = getattr(tflite, kind)()
        raw.Init(self.data, getattr(union.raw, "Pos"))  # noqa: B009 (flatbuffers is untyped)
        fields = _Table(raw, self.budget)
        return kind, {
            field: fields.integers(field) if hasattr(raw, f"{field}Length") else getattr(raw, field)()
            for field in option_fields(kind)
        }


@cache
def option_fields(kind: str) -> tuple[str, ...]:
    """The fields of an option table that hold numbers or vectors of them, those of `OPTION_FIELDS` first."""
    start = f"{kind}Add"
    table = getattr(tflite, kind, None)
    found = [name.removeprefix(start) for name in dir(tflite) if name.startswith(start)]
    known = OPTION_FIELDS.get(kind, ())
    return (*known, *(field for field in found if hasattr(table, field) and field not in known))


def _has_more(operator: _Table) -> bool:
    """Whether an operator has fields that `FlatOperator` does not keep."""
    return bool(operator.integer("BuiltinOptions2Type") or operator.integer("LargeCustomOptionsSize"))


def _is_open(shape: Sequence[int], signature: Sequence[int]) -> bool:
    """Whether a file leaves a dimension open: -1 in the signature alone means the size that the shape has."""
    return any(dim < 0 for dim in shape) or (0 in shape and -1 in signature)


def builtin_code(raw: Any) -> int:
    """Return the builtin code of an operator. Old files use the older field, some exporters the newer one only.

    The schema's generated class ignores the newer field if the number fits into the older one.
    """
    table = raw._tab  # noqa: SLF001 (flatbuffers has no other way to a field)
    place: int = table.Offset(_BUILTIN_CODE)
    code: int = struct.unpack_from("<i", table.Bytes, place + table.Pos)[0] if place else 0
    return max(code, raw.DeprecatedBuiltinCode())


def _indices(table: _Table, field: str, lowest: int, tensors: int) -> tuple[int, ...]:
    """A vector of tensor indices, each from `lowest` to below `tensors`."""
    indices = table.integers(field)
    for index in indices:
        if not lowest <= index < tensors:
            raise FormatError(
                f"the TFLite flatbuffer is damaged: tensor index {index} where there are {tensors} tensors", hint=HINT
            )
    return indices


def _quantization(table: _Table | None, tensor: str) -> Quant | None:
    """Return the quantisation of a tensor, None if its table has no scales; one scale means per tensor."""
    if table is None or not any(scales := table.floats("Scale")):
        return None  # some exporters write a scale of 0 for tensors of zeros
    if table.integer("DetailsType"):
        raise UnsupportedError(
            f"tensor `{tensor}` has custom quantisation; scales and zero points are allowed", hint=_HINT_PLAIN
        )
    zero_points = table.integers("ZeroPoint") or (0,)
    if len(zero_points) == 1:
        zero_points *= len(scales)
    try:
        return Quant(scales, zero_points, table.integer("QuantizedDimension") if len(scales) > 1 else None)
    except VerifyError as error:
        raise FormatError(error.message, where=f"tensor `{tensor}`", hint=HINT) from error
