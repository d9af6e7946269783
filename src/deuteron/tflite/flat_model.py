"""A TFLite model as plain values: `decode` reads them, `encode` writes them.

Names (of operators, element types and options) are those of the TFLite schema.
"""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deuteron.tflite.quantization import Quant

Buffer = bytes | mmap.mmap
"""The bytes of a file; large files are memory-mapped."""

FILE_IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
RUNS_SUBGRAPHS = ("CALL_ONCE", "IF", "STABLEHLO_COMPOSITE", "WHILE")
"""Operators that run other subgraphs, which a `FlatModel` does not have."""

NO_TENSOR = -1
"""Index of an optional operand that is left out."""

CUSTOM = "CUSTOM"
"""Operator name of every custom operator; `custom_code` identifies it."""

TABLE = "DeuteronTable"
"""Custom operator with a lookup table, for functions that TFLite lacks: its options are the 256 entries."""

HINT_MALFORMED = "make the file again; it is damaged or its exporter has a defect"

Options = Mapping[str, Any]
"""Fields of an operator's option table by their schema names: numbers, and tuples for vectors of them."""

OPTION_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Conv2DOptions": (
        "Padding",
        "StrideW",
        "StrideH",
        "FusedActivationFunction",
        "DilationWFactor",
        "DilationHFactor",
    ),
    "DepthwiseConv2DOptions": (
        "Padding",
        "StrideW",
        "StrideH",
        "DepthMultiplier",
        "FusedActivationFunction",
        "DilationWFactor",
        "DilationHFactor",
    ),
    "FullyConnectedOptions": ("FusedActivationFunction", "WeightsFormat", "KeepNumDims"),
    "TransposeConvOptions": ("Padding", "StrideW", "StrideH", "FusedActivationFunction"),
    "BatchMatMulOptions": ("AdjX", "AdjY"),
    "AddOptions": ("FusedActivationFunction",),
    "SubOptions": ("FusedActivationFunction",),
    "MulOptions": ("FusedActivationFunction",),
    "DivOptions": ("FusedActivationFunction",),
    "MaximumMinimumOptions": (),
    "LeakyReluOptions": ("Alpha",),
    "ResizeBilinearOptions": ("AlignCorners", "HalfPixelCenters"),
    "ResizeNearestNeighborOptions": ("AlignCorners", "HalfPixelCenters"),
    "MirrorPadOptions": ("Mode",),
    "SqueezeOptions": (),
    "ExpandDimsOptions": (),
    "StridedSliceOptions": ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"),
    "Pool2DOptions": (
        "Padding",
        "StrideW",
        "StrideH",
        "FilterWidth",
        "FilterHeight",
        "FusedActivationFunction",
    ),
    "ReducerOptions": ("KeepDims",),
    "GatherOptions": ("Axis", "BatchDims"),
    "PackOptions": ("ValuesCount", "Axis"),
    "PadOptions": (),
    "PadV2Options": (),
    "ReshapeOptions": (),
    "SoftmaxOptions": ("Beta",),
    "TransposeOptions": (),
    "ConcatenationOptions": ("Axis", "FusedActivationFunction"),
    "SliceOptions": (),
    "QuantizeOptions": (),
    "DequantizeOptions": (),
}
"""Fields of option tables in the order in which they are written; all further fields of the schema follow."""


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """A tensor: `dtype` by its schema name, `data` the bytes of a constant.

    `problem` is the reason why it cannot be compiled, if any. `is_variable`: it keeps its values from run to run.
    `is_open`: the file leaves a dimension open.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: Quant | None = None
    data: bytes | None = None
    problem: str = ""
    is_variable: bool = False
    is_open: bool = False

    @property
    def has_values(self) -> bool:
        """True if it has values before anything runs: a constant, which may be empty, or a variable."""
        return self.data is not None or 0 in self.shape or self.is_variable


@dataclass(frozen=True, slots=True)
class FlatOperator:
    """An operator: operands are tensor indices, `options` the fields of the table `kind` ("" for none).

    A custom operator has a code and option bytes.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kind: str = ""
    options: Options = field(default_factory=dict[str, Any])
    custom_code: str = ""
    custom_options: bytes = b""
    version: int = 1
    intermediates: tuple[int, ...] = ()
    """Tensors that hold nothing: an LSTM's have the scales of its intermediate results."""
    is_unsigned: bool = False
    """True if the operator is uint8 in the file: LiteRT derives its multipliers in float32 (`tflite.unsigned`)."""
    origin: str = field(default="", compare=False)
    """Its index in the file, with its subgraph unless that is the first; "" for one that the file does not have."""

    def number(self, index: int) -> str:
        """Return its index in the file, for errors; for one that the file does not have, that in the model."""
        return self.origin or str(index)

    @property
    def title(self) -> str:
        """Its name; for a custom operator its code."""
        return self.custom_code or self.name


@dataclass(frozen=True, slots=True)
class State:
    """Values that a model keeps from run to run: its name, and the bytes before the first run."""

    name: str
    initial: bytes


@dataclass(frozen=True, slots=True)
class FlatModel:
    """A model with its one subgraph.

    `is_complete` says that a file written from these values has all that the model's own file has, unless operators
    run other subgraphs. `is_file` says that the file has these values itself: not in another subgraph, nor
    sparse, nor with scales along another dimension.

    Each of `states` is an input and an output, which are the last ones: its values before and after a run
    (`tflite.variables`).
    """

    name: str
    tensors: tuple[FlatTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FlatOperator, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    is_complete: bool = True
    is_file: bool = True
    states: tuple[State, ...] = ()

    @property
    def own_inputs(self) -> tuple[int, ...]:
        """The inputs that a caller gives."""
        return self.inputs[: len(self.inputs) - len(self.states)]

    @property
    def own_outputs(self) -> tuple[int, ...]:
        """The outputs that a caller gets."""
        return self.outputs[: len(self.outputs) - len(self.states)]

    @property
    def state_ends(self) -> tuple[tuple[int, int], ...]:
        """The input and the output of each state."""
        own = len(self.own_inputs), len(self.own_outputs)
        return tuple(zip(self.inputs[own[0] :], self.outputs[own[1] :], strict=True))
