"""Decodes TFLite bytes to a `FlatModel`; any other bytes give a FormatError or an UnsupportedError.

Python's flatbuffers package does not verify files: damage raises arbitrary exceptions, and many references to one
vector make a small file expensive. So `decode` alone converts its exceptions, and a budget in proportion to the file's
size limits the bytes that are read.
"""

import math
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
from deuteron.tflite.sparse import Level, densified

DAMAGE = (struct.error, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Errors that flatbuffers, numpy and str raise for wrong offsets, lengths or text in the file."""

_BUILTIN_CODE = 10
"""Position of the newer field in the vtable of an operator code."""

_BUDGET_FACTOR = 8
_BUDGET_BASE = 1 << 16
HINT_PLAIN = "export the model with plain int8 tensors"
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
        UnsupportedError: several subgraphs, dynamic shapes or variable tensors; none of these if `partial`.
    """
    check_kind(data)
    try:
        return Decoder(data, partial=partial).model(subgraph)
    except DAMAGE as error:
        raise FormatError("the TFLite flatbuffer is damaged or truncated", hint=HINT) from error


def signatures(data: Buffer) -> dict[str, int]:
    """Return the subgraph of each signature of a file by its name; FormatError for a damaged one."""
    check_kind(data)
    try:
        return Decoder(data, partial=True).signatures()
    except DAMAGE as error:
        raise FormatError("the TFLite flatbuffer is damaged or truncated", hint=HINT) from error


def check_kind(data: Buffer) -> None:
    """Raise FormatError for bytes that are no TFLite file by their first words."""
    if data[4:8] != FILE_IDENTIFIER:
        marks = f"{len(data)} bytes, of which 4 to 8 are {data[4:8]!r} instead of {FILE_IDENTIFIER!r}"
        if data[4:6] == b"ET":
            raise FormatError("not a TFLite model but an ExecuTorch program", hint=_PROGRAM_HINT)
        raise FormatError(f"not a TFLite model: {marks if data else 'it is empty'}", hint=HINT)


def _names(enumeration: type[object]) -> dict[int, str]:
    """Return the names of a schema enumeration by value."""
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


_OPERATORS = _names(tflite.BuiltinOperator)
_DTYPES = _names(tflite.TensorType)
_OPTION_KINDS = _names(tflite.BuiltinOptions)
_COMPOSITE = int(tflite.BuiltinOptions2.StableHLOCompositeOptions)
_BLOCKWISE = 2
"""A kind of quantization details that this schema lacks: scales for blocks of a row, in another tensor."""
_INDEX_KINDS = _names(tflite.SparseIndexVector)
_SPARSE = {"INT8": "i1", "INT16": "<i2", "FLOAT16": "<f2", "FLOAT32": "<f4"}
"""Element types of sparse tensors, as numpy has them."""

_DENSE_FACTOR = 64
"""Limit of the bytes of a sparse tensor's values as a multiple of the file's size."""


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
        self.is_changed = False

    def signatures(self) -> dict[str, int]:
        """The subgraph of each signature."""
        return {
            each.text("SignatureKey"): each.integer("SubgraphIndex") for each in self.root.children("SignatureDefs")
        }

    def model(self, subgraph: int = 0) -> FlatModel:
        """The model, of which this subgraph counts."""
        if (version := self.root.integer("Version")) != SCHEMA_VERSION:
            raise FormatError(f"TFLite schema version {version}; only version {SCHEMA_VERSION} can be read", hint=HINT)
        subgraphs = self.root.children("Subgraphs")
        if self.partial and not 0 <= subgraph < len(subgraphs):
            raise UnsupportedError(
                f"a signature or an operator names subgraph {subgraph}; the file has {len(subgraphs)}, numbered from 0",
                hint=HINT,
            )
        if len(subgraphs) != 1 and not self.partial:
            raise UnsupportedError(
                f"the TFLite model has {len(subgraphs)} subgraphs instead of 1",
                hint="choose one signature with `--signature NAME`, or export one plain forward function",
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
            operators=tuple(
                self.operator(op, codes, len(tensors), f"{i} of subgraph {subgraph}" if subgraph else str(i))
                for i, op in enumerate(operators)
            ),
            metadata=self.metadata(),
            is_complete=not any(map(_has_more, operators)),
            is_file=subgraph == 0 and not self.is_changed,
        )

    def metadata(self) -> Mapping[str, bytes]:
        """The named buffers."""
        entries = self.root.children("Metadata")
        return {entry.text("Name"): self.content(entry.integer("Buffer")) or b"" for entry in entries}

    def content(self, index: int) -> bytes | None:
        """Return the bytes of buffer `index`, None if it is empty; read once, even if several tensors share it."""
        if index not in self.contents:
            if index == 0 and not self.buffers:  # buffer 0 is always empty; some exporters leave it out
                return None
            if index >= len(self.buffers):
                raise FormatError(
                    f"the TFLite flatbuffer is damaged: buffer {index} where there are {len(self.buffers)} buffers",
                    hint=HINT,
                )
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
            quant = _quantization(given := table.child("Quantization"), name, shape)
            if quant and given and quant.axis is not None and quant.axis != given.integer("QuantizedDimension"):
                self.is_changed = True
            self.check(table, name)
        except UnsupportedError as error:
            if not self.partial:
                raise
            problem = error.message
        code = table.integer("Type")
        data = self.content(table.integer("Buffer"))
        if data is not None and not problem and (sparsity := table.child("Sparsity")) is not None:
            data, self.is_changed = self.dense(data, sparsity, code, shape), True
        return FlatTensor(
            name=name,
            shape=shape,
            dtype=_DTYPES.get(code, f"type {code}"),
            quant=quant,
            data=data,
            problem=problem,
            is_variable=bool(table.integer("IsVariable")),
            is_open=_is_open(shape, table.integers("ShapeSignature")),
        )

    def dense(self, data: bytes, sparsity: _Table, code: int, shape: Sequence[int]) -> bytes:
        """Return all values of a sparse tensor."""
        dtype = np.dtype(_SPARSE[_DTYPES[code]])
        elements = math.prod(shape)
        if elements * dtype.itemsize > _DENSE_FACTOR * len(self.data):
            raise FormatError(
                f"a sparse tensor has the shape {[*shape]}, which is out of proportion to the file", hint=HINT
            )
        levels: list[Level] = []
        for dim in sparsity.children("DimMetadata"):
            if dim.integer("Format"):
                levels.append(Level(0, self.sparse_indices(dim, "Segments"), self.sparse_indices(dim, "Indices")))
            else:
                levels.append(Level(dim.integer("DenseSize")))
        order, blocks = sparsity.integers("TraversalOrder"), sparsity.integers("BlockMap")
        return densified(data, dtype, shape, order, blocks, levels)

    def sparse_indices(self, dim: _Table, part: str) -> npt.NDArray[np.int64]:
        """Return the segments or indices of a sparse dimension."""
        union = dim.child(f"Array{part}")
        if union is None:
            return np.zeros(0, np.int64)
        raw = getattr(tflite, _INDEX_KINDS[dim.integer(f"Array{part}Type")])()
        raw.Init(self.data, getattr(union.raw, "Pos"))  # noqa: B009 (flatbuffers is untyped)
        values = _Table(raw, self.budget).vector("Values")
        return np.zeros(0, np.int64) if values is None else values.astype(np.int64)

    def check(self, table: _Table, name: str) -> None:
        """Raise UnsupportedError for a tensor with a dynamic shape, a sparse one of an unusual type, or a variable."""
        if any(dim < 0 for dim in table.integers("Shape")):
            raise UnsupportedError(
                f"tensor `{name}` has a dynamic shape; all shapes must be known at compile time",
                hint="export the model without dynamic dimensions",
            )
        dtype = _DTYPES.get(table.integer("Type"), "")
        if table.child("Sparsity") is not None and dtype not in _SPARSE:
            raise UnsupportedError(
                f"tensor `{name}` is sparse and {dtype}; {', '.join(_SPARSE)} are allowed", hint=HINT_PLAIN
            )
        if table.child("Sparsity") is not None and self.content(table.integer("Buffer")) is None:
            raise UnsupportedError(
                f"tensor `{name}` is sparse and has no values; only constants may be sparse", hint=HINT_PLAIN
            )
        if table.integer("IsVariable"):
            raise UnsupportedError(
                f"tensor `{name}` is a variable; state between runs cannot be compiled", hint=HINT_PLAIN
            )

    def operator_code(self, table: _Table) -> tuple[str, str, int]:
        """Return (operator name, custom code, version); old files have the code in the deprecated field only."""
        code = builtin_code(table.raw)
        return _OPERATORS.get(code, f"operator {code}"), table.text("CustomCode"), table.integer("Version")

    def operator(
        self, table: _Table, codes: list[tuple[str, str, int]], tensors: int, origin: str = ""
    ) -> FlatOperator:
        """An operator; `origin` is its index in the file."""
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
            origin=origin,
        )

    def options(self, table: _Table) -> tuple[str, Options]:
        """Return kind and fields of the option table; an unknown kind has no fields."""
        if table.integer("BuiltinOptions2Type") == _COMPOSITE:
            raw: Any = getattr(tflite, "StableHLOCompositeOptions")()  # noqa: B009 (flatbuffers is untyped)
            raw.Init(self.data, getattr(getattr(table.raw, "BuiltinOptions2")(), "Pos"))  # noqa: B009
            return "", {"DecompositionSubgraphIndex": int(raw.DecompositionSubgraphIndex())}
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
    """Return True if an operator has fields that `FlatOperator` does not keep."""
    return bool(
        operator.integer("BuiltinOptions2Type") not in (0, _COMPOSITE) or operator.integer("LargeCustomOptionsSize")
    )


def _is_open(shape: Sequence[int], signature: Sequence[int]) -> bool:
    """Return True if a file leaves a dimension open: -1 in the signature alone means the size that the shape has."""
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


def _quantization(table: _Table | None, tensor: str, shape: tuple[int, ...]) -> Quant | None:
    """Return the quantization of a tensor, None if its table has no scales; one scale means per tensor.

    Old converters give a bias the dimension of its weights, such as 3; its scales lie along the one that it has.
    """
    if table is None:
        return None
    if details := table.integer("DetailsType"):
        kind = "blockwise" if details == _BLOCKWISE else "custom"
        raise UnsupportedError(
            f"tensor `{tensor}` has {kind} quantization; scales and zero points are allowed", hint=HINT_PLAIN
        )
    if not any(scales := table.floats("Scale")):
        return None  # some exporters write a scale of 0 for tensors of zeros
    zero_points = table.integers("ZeroPoint") or (0,)
    if len(zero_points) == 1:
        zero_points *= len(scales)
    axis = 0 if shape == (len(scales),) else table.integer("QuantizedDimension")
    try:
        return Quant(scales, zero_points, axis if len(scales) > 1 else None)
    except VerifyError as error:
        raise FormatError(error.message, where=f"tensor `{tensor}`", hint=HINT) from error
