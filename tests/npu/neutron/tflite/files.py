"""TFLite files for tests: sound ones from `cases`, and odd ones with fields that `encode` never writes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.npu.neutron.tflite.cases import CASES

from deuteron.errors import DeuteronError
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.npu.neutron.tflite.reader import read
from deuteron.tflite.decode import decode
from deuteron.tflite.encode import Encoder, encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

Q = Quant((0.5,), (-4,))
Extra = Callable[["OddEncoder"], dict[str, int]]


class OddEncoder(Encoder):
    """Writes a model with further fields in the tables of one kind; `last` has the latest table of each kind."""

    def __init__(self, model: FlatModel, kind: str, extra: Extra) -> None:
        self.kind, self.extra = kind, extra
        self.last: dict[str, int] = {}
        super().__init__(model)

    def table(self, kind: str, **fields: float) -> int:
        more = self.extra(self) if kind == self.kind else {}
        self.last[kind] = super().table(kind, **fields | more)
        return self.last[kind]


class OutsideEncoder(Encoder):
    """Writes a model without the data of its larger buffers, which begin at `start` in the file: `outside` has it."""

    def __init__(self, model: FlatModel, least: int, start: int) -> None:
        super().__init__(model)
        self.least, self.start, self.outside = least, start, b""

    def buffer(self, data: bytes | None) -> int:
        if data is None or len(data) < self.least:
            return super().buffer(data)
        self.buffers.append(self.table("Buffer", Offset=self.start + len(self.outside), Size=len(data)))
        self.outside += data + bytes(-len(data) % 16)
        return len(self.buffers) - 1


def outside_bytes(model: FlatModel, least: int = 1) -> bytes:
    """The model with the data of larger buffers behind the flatbuffer, where Google's quantizer puts it."""
    inside = OutsideEncoder(model, least, 16).finish()
    start = len(inside) + -len(inside) % 16
    encoder = OutsideEncoder(model, least, start)
    return encoder.finish().ljust(start, b"\0") + encoder.outside


def odd_bytes(model: FlatModel, kind: str, extra: Extra) -> bytes:
    return OddEncoder(model, kind, extra).finish()


def model(name: str, seed: int = 0) -> FlatModel:
    """A sound model of one operator."""
    return decode(emit(CASES[name](np.random.default_rng(seed))))


def with_op(source: FlatModel, /, **changes: object) -> FlatModel:
    """The model with its first operator changed; `options` are merged."""
    first, *rest = source.operators
    if isinstance(options := changes.get("options"), dict):
        changes["options"] = {**first.options, **options}
    return replace(source, operators=(replace(first, **changes), *rest))


def with_tensor(source: FlatModel, name: str, /, **changes: object) -> FlatModel:
    """The model with the tensor `name` changed."""
    assert name in {t.name for t in source.tensors}
    return replace(source, tensors=tuple(replace(t, **changes) if t.name == name else t for t in source.tensors))


def with_constant(source: FlatModel, name: str, values: list[int], dtype: str = "INT32") -> FlatModel:
    """The model with other values in the index constant `name`."""
    data = np.array(values, {"INT32": "<i4", "INT64": "<i8"}[dtype]).tobytes()
    return with_tensor(source, name, shape=(len(values),), dtype=dtype, data=data)


def with_float_edges(data: bytes) -> bytes:
    """The model between a QUANTIZE at each input and a DEQUANTIZE at each output."""
    model = decode(data)
    tensors = list(model.tensors)
    before: list[FlatOperator] = []
    after: list[FlatOperator] = []

    def outside(index: int) -> int:
        tensors.append(FlatTensor(f"{tensors[index].name}_float", tensors[index].shape, "FLOAT32"))
        return len(tensors) - 1

    inputs, outputs = tuple(map(outside, model.inputs)), tuple(map(outside, model.outputs))
    for float_, stored in zip(inputs, model.inputs, strict=True):
        before.append(FlatOperator("QUANTIZE", (float_,), (stored,), "QuantizeOptions"))
    for float_, stored in zip(outputs, model.outputs, strict=True):
        after.append(FlatOperator("DEQUANTIZE", (stored,), (float_,), "DequantizeOptions"))
    operators = (*before, *model.operators, *after)
    return encode(FlatModel(model.name, tuple(tensors), inputs, outputs, operators))


def chain(dtype: str) -> FlatModel:
    """Two RELUs with a tensor `h` of another type between them."""
    tensors = tuple(FlatTensor(name, (4,), dtype if name == "h" else "INT8", Q) for name in "xhy")
    return FlatModel("m", tensors, (0,), (2,), (FlatOperator("RELU", (0,), (1,)), FlatOperator("RELU", (1,), (2,))))


def strided_slice(begin: list[int], end: list[int], strides: tuple[int, int] = (1, 1), **options: int) -> FlatModel:
    """A 2x2 part, or what the masks leave of it, of a 5x3 matrix."""
    masks = {"BeginMask": 0, "EndMask": 0, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0, "Offset": 0}
    named = zip(("begin", "end", "strides"), (begin, end, strides), strict=True)
    constants = [FlatTensor(n, (len(v),), "INT32", None, np.array(v, "<i4").tobytes()) for n, v in named]
    tensors = (FlatTensor("x", (5, 3), "INT8", Q), *constants, FlatTensor("y", (2, 2), "INT8", Q))
    op = FlatOperator("STRIDED_SLICE", (0, 1, 2, 3), (4,), "StridedSliceOptions", masks | options)
    return FlatModel("m", tensors, (0,), (4,), (op,))


def transpose_conv(padding: int, stride: tuple[int, int], size: tuple[int, int]) -> FlatModel:
    """A 3x2 transposed convolution of a 4x4 map with one scale for all weights."""
    result = (1, *size, 2)
    tensors = (
        FlatTensor("x", (1, 4, 4, 1), "INT8", Q),
        FlatTensor("w", (2, 3, 2, 1), "INT8", Quant((0.25,), (0,)), bytes(12)),
        FlatTensor("b", (2,), "INT32", Quant((0.125,), (0,)), bytes(8)),
        FlatTensor("y", result, "INT8", Q),
        FlatTensor("y/shape", (4,), "INT32", None, np.array(result, "<i4").tobytes()),
    )
    options = {"Padding": padding, "StrideH": stride[0], "StrideW": stride[1], "FusedActivationFunction": 0}
    op = FlatOperator("TRANSPOSE_CONV", (4, 1, 0, 2), (3,), "TransposeConvOptions", options)
    return FlatModel("m", tensors, (0,), (3,), (op,))


def square_product() -> FlatModel:
    """The product of two stacks of two 3x3 matrices."""
    tensors = tuple(FlatTensor(name, (2, 3, 3), "INT8", Q) for name in "aby")
    op = FlatOperator("BATCH_MATMUL", (0, 1), (2,), "BatchMatMulOptions", {"AdjX": False, "AdjY": False})
    return FlatModel("m", tensors, (0, 1), (2,), (op,))


def nearest_resize(size: tuple[int, int], result: tuple[int, int], *, centres: bool) -> FlatModel:
    """A nearest resize of maps with two channels."""
    tensors = (
        FlatTensor("x", (1, *size, 2), "INT8", Q),
        FlatTensor("size", (2,), "INT32", None, np.array(result, "<i4").tobytes()),
        FlatTensor("y", (1, *result, 2), "INT8", Q),
    )
    options = {"AlignCorners": False, "HalfPixelCenters": centres}
    op = FlatOperator("RESIZE_NEAREST_NEIGHBOR", (0, 1), (2,), "ResizeNearestNeighborOptions", options)
    return FlatModel("m", tensors, (0,), (2,), (op,))


def matrix_product(rng: np.random.Generator, activation: int = 0) -> FlatModel:
    """A product of two matrices of activations, the second transposed, as FULLY_CONNECTED; zero points are random."""
    rows, depth, columns = (int(size) for size in rng.integers(1, 40, 3))
    shapes = {"x": (rows, depth), "w": (columns, depth), "y": (rows, columns)}
    scales = {"x": 0.05, "w": 0.05, "y": 0.5}
    tensors = (
        FlatTensor(n, s, "INT8", Quant((float(np.float32(scales[n])),), (int(rng.integers(-128, 128)),)))
        for n, s in shapes.items()
    )
    options = {"FusedActivationFunction": activation, "WeightsFormat": 0, "KeepNumDims": True}
    op = FlatOperator("FULLY_CONNECTED", (0, 1, -1), (2,), "FullyConnectedOptions", options)
    return FlatModel("m", tuple(tensors), (0, 1), (2,), (op,))


def error(data: bytes | FlatModel, kind: type[DeuteronError]) -> DeuteronError:
    """The error, exactly of this kind, with which the reader refuses the file."""
    with pytest.raises(kind) as caught:
        read(data if isinstance(data, bytes) else encode(data))
    assert type(caught.value) is kind
    return caught.value


def without_hint(caught: DeuteronError) -> str:
    """The place and the problem."""
    return str(DeuteronError(caught.message, where=caught.where))


__all__ = [
    "FlatModel",
    "FlatOperator",
    "FlatTensor",
    "OutsideEncoder",
    "Q",
    "chain",
    "encode",
    "error",
    "model",
    "odd_bytes",
    "outside_bytes",
    "square_product",
    "strided_slice",
    "transpose_conv",
    "with_constant",
    "with_float_edges",
    "with_op",
    "with_tensor",
    "without_hint",
]
