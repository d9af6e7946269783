"""Encodes a `FlatModel` as TFLite bytes."""

from collections.abc import Sequence
from typing import Any, cast

import flatbuffers
import numpy as np
import tflite

from deuteron.errors import FormatError
from deuteron.tflite.decode import option_fields
from deuteron.tflite.flat_model import (
    FILE_IDENTIFIER,
    HINT_MALFORMED,
    SCHEMA_VERSION,
    FlatModel,
    FlatOperator,
    FlatTensor,
)
from deuteron.tflite.quantization import Quant

OPERATORS = frozenset(name for name, value in vars(tflite.BuiltinOperator).items() if isinstance(value, int))
"""Names of the operators of the schema."""

TENSOR_TYPES = frozenset(name for name, value in vars(tflite.TensorType).items() if isinstance(value, int))
"""Names of the element types of the schema."""

_ALIGNMENT = 16
"""Alignment of constants that interpreters expect."""

_LARGEST_OLD_CODE = 127
"""Largest code that is also written to the one-byte field for older readers."""

_SIZES = 1 << 31
"""Sizes of dimensions are below this, as int32."""

_VERSIONS = {"BROADCAST_TO": 2}
"""Versions of operators that interpreters do not take as version 1."""

_DESCRIPTION = "Deuteron"


def encode(model: FlatModel, signature: str = "", others: Sequence[FlatModel] = ()) -> bytes:
    """The model as a TFLite flatbuffer, with a signature of this name whose tensors are `inputs_0`, `outputs_0` etc.

    `others` are further subgraphs.
    """
    return Encoder(model, others).finish(signature)


class Encoder:
    """Encodes one model; `table` writes every table of the schema.

    Attributes:
        codes_written: operator codes with their numbers: name, custom code and version.
        description: of the file.
    """

    description = _DESCRIPTION

    def __init__(self, model: FlatModel, others: Sequence[FlatModel] = ()) -> None:
        self.model, self.others = model, others
        self.codes_written: dict[tuple[str, str, int], int] = {}
        constants = [t.data for each in (model, *others) for t in each.tensors if t.data]
        constants += model.metadata.values()
        self.builder: Any = flatbuffers.Builder(4096 + sum(len(data) + _ALIGNMENT for data in constants))
        self.buffers = [self.table("Buffer")]  # buffer 0 is empty: tensors without data name it

    def finish(self, signature: str = "") -> bytes:
        """The flatbuffer's bytes."""
        model = self.model
        subgraphs = [self.subgraph(each) for each in (model, *self.others)]
        metadata = [
            self.table("Metadata", Name=self.text(name), Buffer=self.buffer(data))
            for name, data in model.metadata.items()
        ]
        signatures = self.signature_defs(signature)
        root = self.table(
            "Model",
            Version=SCHEMA_VERSION,
            OperatorCodes=self.offsets([self.operator_code(*code) for code in self.codes_written]),
            SignatureDefs=self.offsets(signatures),
            Subgraphs=self.offsets(subgraphs),
            Description=self.text(self.description),
            Buffers=self.offsets(self.buffers),
            Metadata=self.offsets(metadata),
        )
        self.builder.Finish(root, file_identifier=FILE_IDENTIFIER)
        return bytes(self.builder.Output())

    def signature_defs(self, name: str) -> list[int]:
        """Offsets of the signatures: one of this name, none for ""."""
        return [self.signature(name, self.model)] if name else []

    def subgraph(self, model: FlatModel) -> int:
        """Offset of a subgraph."""
        operators = [self.operator(op, self.code_number(op)) for op in model.operators]
        tensors = [self.tensor(tensor) for tensor in model.tensors]
        return self.table(
            "SubGraph",
            Tensors=self.offsets(tensors),
            Inputs=self.integers(model.inputs),
            Outputs=self.integers(model.outputs),
            Operators=self.offsets(operators),
            Name=self.text(model.name),
        )

    def code_number(self, op: FlatOperator) -> int:
        """Number of an operator's code in the file."""
        return self.codes_written.setdefault((op.name, op.custom_code, op.version), len(self.codes_written))

    def table(self, kind: str, **fields: float) -> int:
        """Offset of a new table of the schema; `fields` are numbers or offsets, by the schema's names."""
        getattr(tflite, f"{kind}Start")(self.builder)
        for name, value in fields.items():
            getattr(tflite, f"{kind}Add{name}")(self.builder, value)
        offset: int = getattr(tflite, f"{kind}End")(self.builder)
        return offset

    def signature(self, name: str, model: FlatModel, subgraph: int = 0) -> int:
        """Offset of a signature of a subgraph, whose tensors are `inputs_0`, `outputs_0` and so on."""
        maps: dict[str, int] = {}
        for side, tensors in (("Inputs", model.inputs), ("Outputs", model.outputs)):
            names = [self.text(f"{side.lower()}_{i}") for i in range(len(tensors))]
            entries = [self.table("TensorMap", Name=n, TensorIndex=i) for n, i in zip(names, tensors, strict=True)]
            maps[side] = self.offsets(entries)
        return self.table("SignatureDef", SignatureKey=self.text(name), SubgraphIndex=subgraph, **maps)

    def text(self, value: str) -> int:
        """Offset of a string."""
        return int(self.builder.CreateString(value))

    def integers(self, values: Sequence[int], dtype: str = "<i4") -> int:
        """Offset of a vector of integers."""
        return int(self.builder.CreateNumpyVector(np.array(values, dtype)))

    def floats(self, values: Sequence[float]) -> int:
        """Offset of a vector of float32 values."""
        return int(self.builder.CreateNumpyVector(np.array(values, "<f4")))

    def offsets(self, offsets: Sequence[int]) -> int:
        """Offset of a vector of tables."""
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def buffer(self, data: bytes | None) -> int:
        """Index of a buffer with these bytes, 0 when there are none."""
        if data is None:
            return 0
        self.builder.StartVector(1, len(data), _ALIGNMENT)
        self.builder.head -= len(data)
        self.builder.Bytes[self.builder.head : self.builder.head + len(data)] = data
        self.buffers.append(self.table("Buffer", Data=int(self.builder.EndVector())))
        return len(self.buffers) - 1

    def tensor(self, tensor: FlatTensor) -> int:
        """Offset of a tensor; its data becomes a separate buffer.

        Raises:
            FormatError: its shape does not fit a file: sizes computed from those of a damaged file may be too large.
        """
        if any(not -_SIZES <= size < _SIZES for size in tensor.shape):
            raise FormatError(f"tensor `{tensor.name}` has the shape {list(tensor.shape)}", hint=HINT_MALFORMED)
        fields = {
            "Shape": self.integers(tensor.shape),
            "Type": int(getattr(tflite.TensorType, tensor.dtype)),
            "Buffer": self.buffer(tensor.data),
            "Name": self.text(tensor.name),
        }
        if tensor.is_variable:
            fields["IsVariable"] = True
        return self.table("Tensor", **fields, **self.tensor_fields(tensor))

    def tensor_fields(self, tensor: FlatTensor) -> dict[str, int]:
        """Offsets and values of a tensor's further fields."""
        return {} if tensor.quant is None else {"Quantization": self.quantization(tensor.quant)}

    def quantization(self, quant: Quant, **more: int) -> int:
        """Offset of scales and zero points, and further fields."""
        return self.table(
            "QuantizationParameters",
            Scale=self.floats(quant.scales),
            ZeroPoint=self.integers(quant.zero_points, "<i8"),
            QuantizedDimension=quant.axis or 0,
            **more,
        )

    def operator(self, op: FlatOperator, code: int) -> int:
        """Offset of an operator whose code is number `code`."""
        fields = {"OpcodeIndex": code, "Inputs": self.integers(op.inputs), "Outputs": self.integers(op.outputs)}
        if op.kind:
            if not hasattr(tflite.BuiltinOptions, op.kind):
                raise FormatError(f"a {op.name} has {op.kind}, which the schema lacks", hint=HINT_MALFORMED)
            fields["BuiltinOptionsType"] = int(getattr(tflite.BuiltinOptions, op.kind))
            values = {name: op.options[name] for name in option_fields(op.kind) if name in op.options}
            fields["BuiltinOptions"] = self.table(op.kind, **{name: self._field(v) for name, v in values.items()})
        if op.intermediates:
            fields["Intermediates"] = self.integers(op.intermediates)
        if op.custom_options:
            fields["CustomOptions"] = self.integers(list(op.custom_options), "u1")
        return self.table("Operator", **fields)

    def _field(self, value: Any) -> Any:
        """Value of a field of an option table: a number, or the offset of a vector or string."""
        if isinstance(value, bytes):
            return int(self.builder.CreateString(value))
        return self.integers(cast("tuple[int, ...]", value)) if isinstance(value, tuple) else value

    def operator_code(self, name: str, custom_code: str, version: int = 1) -> int:
        """Offset of an operator code; a builtin one is in both fields, for old and new readers."""
        code = int(getattr(tflite.BuiltinOperator, name))
        version = max(version, _VERSIONS.get(name, 1))
        fields = {"DeprecatedBuiltinCode": min(code, _LARGEST_OLD_CODE), "Version": version, "BuiltinCode": code}
        if custom_code:
            fields["CustomCode"] = self.text(custom_code)
        return self.table("OperatorCode", **fields)
