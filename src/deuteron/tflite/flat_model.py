"""A TFLite model as plain values: the result of `decode` and input of `encode`.

Names (of operators, element types and options) are those of the TFLite schema.
"""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass, field

from deuteron.tflite.quantization import Quant

Buffer = bytes | mmap.mmap
"""The bytes of a file; large files are memory-mapped."""

FILE_IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3
NO_TENSOR = -1
"""Index of an optional operand that is left out."""

CUSTOM = "CUSTOM"
"""Operator name of every custom operator; `custom_code` identifies it."""

TABLE = "DeuteronTable"
"""Custom operator with a lookup table, for functions that TFLite lacks: its options are the 256 entries."""

HINT_MALFORMED = "make the file again; it is damaged or its exporter has a defect"

Options = Mapping[str, int | float]

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
"""The supported option tables and fields. Other fields keep their defaults."""


@dataclass(frozen=True, slots=True)
class FlatTensor:
    """A tensor: `dtype` by its schema name, `data` the bytes of a constant.

    `problem` is the reason why it cannot be compiled, if any. A variable keeps its values from run to run.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    quant: Quant | None = None
    data: bytes | None = None
    problem: str = ""
    is_variable: bool = False

    @property
    def has_values(self) -> bool:
        """Whether it has values before anything runs: a constant, which may be empty, or a variable."""
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
    options: Options = field(default_factory=dict[str, int | float])
    custom_code: str = ""
    custom_options: bytes = b""

    @property
    def title(self) -> str:
        """Its name; for a custom operator its code."""
        return self.custom_code or self.name


@dataclass(frozen=True, slots=True)
class FlatModel:
    """A model with its one subgraph."""

    name: str
    tensors: tuple[FlatTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[FlatOperator, ...]
    metadata: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
