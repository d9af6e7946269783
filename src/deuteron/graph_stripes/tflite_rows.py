"""Operators of a TFLite model by rows: dimension 1 of maps [1, rows, columns, channels]."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from deuteron.errors import FormatError, counted
from deuteron.graph_stripes.rows import RowGraph, RowOperator, RowRead, StripesError
from deuteron.operators.row_dependencies import Window
from deuteron.tflite.decode import HINT
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor

SAME = 0
"""`Padding` of the schema; the other is VALID."""

ITEM_BYTES = {"BOOL": 1, "FLOAT32": 4, "INT16": 2, "INT32": 4, "INT64": 8, "INT8": 1, "UINT8": 1}
"""Bytes of an element of the types that are cut."""

_RANK, _CHANNELS = 4, 3
_POWERS_OF_TWO = (2, 4, 8, 16)
"""Factors of a resize whose arithmetic is the same for a part of the rows."""

_UNARY = tuple(
    name
    for names in (
        "ABS CAST CEIL COS DEQUANTIZE ELU EXP FLOOR GELU HARD_SWISH L2_NORMALIZATION LEAKY_RELU LOG LOGISTIC",
        "LOG_SOFTMAX NEG QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SOFTMAX SQRT SQUARE TANH",
    )
    for name in names.split()
)
_BINARY = ("ADD", "DIV", "MAXIMUM", "MINIMUM", "MUL", "PRELU", "SQUARED_DIFFERENCE", "SUB")
_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")

_OPERANDS: Mapping[str, int] = MappingProxyType(
    dict.fromkeys((*_UNARY, "AVERAGE_POOL_2D", "CONCATENATION", "EXPAND_DIMS", "MAX_POOL_2D", "RESHAPE", "SQUEEZE"), 1)
    | dict.fromkeys((*_BINARY, "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "PAD"), 2)
    | dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "SPLIT"), 2)
    | dict.fromkeys(("PADV2", "SLICE", "SPLIT_V", "TRANSPOSE_CONV"), 3)
    | {"STRIDED_SLICE": 4}
)
"""Inputs that operators must have; further ones are optional."""


@dataclass(frozen=True, slots=True)
class Site:
    """An operator and the tensors of its model."""

    at: int
    op: FlatOperator
    tensors: Sequence[FlatTensor]

    def tensor(self, operand: int) -> FlatTensor:
        """Return an input."""
        return self.tensors[self.op.inputs[operand]]

    @property
    def out(self) -> FlatTensor:
        """The first output."""
        return self.tensors[self.op.outputs[0]]

    @property
    def rows(self) -> int:
        """Output rows."""
        return self.out.shape[1]

    def option(self, name: str, default: int = 0) -> int:
        """Return a whole-number option."""
        return int(self.op.options.get(name, default))

    def integers(self, operand: int) -> list[int] | None:
        """Return the values of a constant of whole numbers, None of another tensor."""
        tensor = self.tensor(operand)
        if not tensor.data or tensor.dtype not in ("INT32", "INT64") or len(tensor.data) != nbytes(tensor):
            return None
        return [int(value) for value in np.frombuffer(tensor.data, tensor.dtype.lower())]

    def read(self, operand: int, start: int = 0, step: int = 1, length: int = 1, unit: int = 1) -> RowRead:
        """Return an operand that is read by rows; StripesError for one that has none."""
        if not is_map(self.tensor(operand)):
            raise StripesError("an operand has no rows")
        shape = self.tensor(operand).shape
        window = Window(row_bytes(self.tensor(operand)), shape[1], start, step, length, unit)
        return RowRead(operand, self.op.inputs[operand], window)

    def operator(self, *reads: RowRead, **fields: "int | tuple[int, int] | None") -> RowOperator:
        """Return the operator by rows."""
        return RowOperator(self.at, self.op.outputs, reads, self.rows, **fields)  # pyright: ignore[reportArgumentType]


def row_bytes(tensor: FlatTensor) -> int:
    """Return the bytes of a row of a map."""
    return math.prod(tensor.shape[2:]) * ITEM_BYTES.get(tensor.dtype, 1)


def nbytes(tensor: FlatTensor) -> int:
    """Return the bytes of a tensor."""
    return math.prod(tensor.shape) * ITEM_BYTES.get(tensor.dtype, 1)


def is_map(tensor: FlatTensor) -> bool:
    """Return True for a tensor of one sample with rows, of a type that is cut."""
    shape = tensor.shape
    return len(shape) == _RANK and shape[0] == 1 and 0 not in shape and tensor.dtype in ITEM_BYTES


def check_operands(model: FlatModel) -> None:
    """Raise FormatError for operators that lack inputs or outputs, and for layers with weights of another rank."""
    for at, op in enumerate(model.operators):
        needed = _OPERANDS.get(op.name)
        if needed is None:
            continue
        where = f"operator {op.number(at)} ({op.title})"
        if len(op.inputs) < needed or -1 in op.inputs[:needed] or not op.outputs:
            has = sum(i >= 0 for i in op.inputs[:needed])
            raise FormatError(
                f"it has {has} of at least {counted(needed, 'input')}, and {counted(len(op.outputs), 'output')}",
                where=where,
                hint=HINT,
            )
        if op.name in _LAYERS and len(weights := model.tensors[op.inputs[1]].shape) != _RANK:
            raise FormatError(f"its weights have {len(weights)} dimensions instead of {_RANK}", where=where, hint=HINT)


def graph_of(model: FlatModel) -> RowGraph:
    """Return a model by rows."""
    tensors = model.tensors
    return RowGraph(
        operators=tuple(row_operator(model, at) for at in range(len(model.operators))),
        reads=tuple(tuple(i for i in op.inputs if i >= 0 and tensors[i].data is None) for op in model.operators),
        writes=tuple(op.outputs for op in model.operators),
        row_bytes={i: row_bytes(tensor) for i, tensor in enumerate(tensors) if is_map(tensor)},
        inputs=model.inputs,
        outputs=model.outputs,
    )


def row_operator(model: FlatModel, at: int) -> RowOperator | None:
    """Return an operator by rows, None for one whose rows cannot be computed separately."""
    site = Site(at, model.operators[at], model.tensors)
    describe = _DESCRIBE.get(site.op.name)
    if describe is None or not site.op.outputs or not all(is_map(model.tensors[i]) for i in site.op.outputs):
        return None
    if site.op.intermediates or any(model.tensors[i].has_values for i in site.op.outputs):
        return None
    try:
        return describe(site)
    except StripesError:
        return None


def padding(site: Site, axis: int, kernel: int, stride: int) -> tuple[int, int]:
    """Return the pads before and after a dimension of a window."""
    if site.option("Padding") != SAME:
        return 0, 0
    total = max(0, (site.out.shape[axis] - 1) * stride + kernel - site.tensor(0).shape[axis])
    return total // 2, total - total // 2


def is_window(site: Site) -> bool:
    """Return True for a window over rows and columns with an output of the size that it gives."""
    x = site.tensor(0)
    strides = site.option("StrideH"), site.option("StrideW")
    if not is_map(x) or min(strides) < 1 or min(spans(site)) < 1:
        return False
    pairs = zip(x.shape[1:3], site.out.shape[1:3], spans(site), strides, strict=True)
    if site.option("Padding") == SAME:
        return all(-(-size // stride) == out for size, out, _, stride in pairs)
    return all((size - span) // stride + 1 == out for size, out, span, stride in pairs)


def spans(site: Site) -> tuple[int, int]:
    """Return the rows and columns that a window reaches over."""
    if site.op.name.endswith("POOL_2D"):
        return site.option("FilterHeight"), site.option("FilterWidth")
    shape = site.tensor(1).shape
    dilation = site.option("DilationHFactor", 1) or 1, site.option("DilationWFactor", 1) or 1
    return (shape[1] - 1) * dilation[0] + 1, (shape[2] - 1) * dilation[1] + 1


def macs(model: FlatModel, at: int) -> int:
    """Return the multiply-accumulates of a layer, 0 for other operators."""
    op, tensors = model.operators[at], model.tensors
    if op.name not in (*_LAYERS, "FULLY_CONNECTED"):
        return 0
    weights, results = tensors[op.inputs[1]].shape, math.prod(tensors[op.outputs[0]].shape)
    if op.name == "TRANSPOSE_CONV":
        return math.prod(tensors[op.inputs[2]].shape) * math.prod(weights[:3])
    return results * math.prod(weights[1:3] if op.name == "DEPTHWISE_CONV_2D" else weights[1:])


def _layer(site: Site) -> RowOperator | None:
    """A convolution; not one of float maps with int8 weights, whose input scale depends on all rows."""
    if not is_window(site) or "FLOAT32" in {site.tensor(0).dtype} ^ {site.tensor(1).dtype}:
        return None
    if any(site.tensors[i].data is None for i in site.op.inputs[1:] if i >= 0):
        return None
    kernel, stride = spans(site)[0], site.option("StrideH")
    count = math.prod(site.out.shape)
    weights = site.tensor(1).shape
    each = math.prod(weights[1:3] if site.op.name == "DEPTHWISE_CONV_2D" else weights[1:])
    before, _ = padding(site, 1, kernel, stride)
    return site.operator(site.read(0, -before, stride, kernel), macs=count * each)


def _pool(site: Site) -> RowOperator | None:
    """A pool; one with pads keeps its own, which are not values, so it computes some rows more than it needs."""
    if not is_window(site):
        return None
    kernel, stride = spans(site)[0], site.option("StrideH")
    before, after = padding(site, 1, kernel, stride)
    lattice = None
    if any((before, after, *padding(site, 2, spans(site)[1], site.option("StrideW")))):
        if site.tensor(0).shape[1] % stride or before != max(0, kernel - stride) // 2:
            return None
        lattice = stride, 1
    return site.operator(site.read(0, -before, stride, kernel), lattice=lattice)


def _transposed(site: Site) -> RowOperator | None:
    """A transposed convolution whose output has a whole number of rows for each input row."""
    if any(site.tensors[i].data is None for at, i in enumerate(site.op.inputs) if i >= 0 and at != 2):
        return None
    kernel, stride, x = site.tensor(1).shape[1], site.option("StrideH"), site.tensor(2)
    if "FLOAT32" in {x.dtype} ^ {site.tensor(1).dtype} or stride < 1:
        return None
    if not is_map(x) or site.rows != x.shape[1] * stride or kernel < stride:
        return None
    if site.option("Padding") != SAME and kernel != stride:
        return None
    before = (kernel - stride) // 2
    work = math.prod(x.shape) * math.prod(site.tensor(1).shape[:3])
    return site.operator(site.read(2, before - kernel + 1, 1, kernel, stride), lattice=(1, stride), macs=work)


def _resize(site: Site) -> RowOperator | None:
    x = site.tensor(0)
    if site.option("AlignCorners") or not is_map(x) or site.integers(1) is None:
        return None
    times, rest = divmod(site.rows, x.shape[1])
    if rest or times not in _POWERS_OF_TWO:
        return None
    if site.op.name == "RESIZE_NEAREST_NEIGHBOR":
        return site.operator(site.read(0, 0, 1, 1, times), lattice=(1, times))
    before = times // 2 if site.option("HalfPixelCenters") else 0
    return site.operator(site.read(0, -before, 1, times + 1, times), lattice=(1, times))


def _unary(site: Site) -> RowOperator | None:
    return site.operator(site.read(0)) if site.tensor(0).shape == site.out.shape else None


def _binary(site: Site) -> RowOperator | None:
    """An elementwise operator; operands with one row are read whole."""
    reads: list[RowRead] = []
    for operand in (0, 1):
        shape = site.tensor(operand).shape
        rows = shape[-_CHANNELS] if len(shape) >= _CHANNELS else 1
        if rows > 1 and (len(shape) != _RANK or rows != site.rows):
            return None
        if rows > 1 or (site.rows == 1 and len(shape) == _RANK):
            reads.append(site.read(operand))
    return site.operator(*reads) if reads else None


def _concatenation(site: Site) -> RowOperator | None:
    axis = site.option("Axis") % _RANK
    if axis < 2 or any(i < 0 for i in site.op.inputs):
        return None
    return site.operator(*(site.read(operand) for operand in range(len(site.op.inputs))))


def _split(site: Site) -> RowOperator | None:
    axis, x = (0, 1) if site.op.name == "SPLIT" else (2, 0)
    values = site.integers(axis)
    is_inside = (
        values is not None and len(values) == 1 and values[0] % _RANK >= 2 and len(site.tensor(x).shape) == _RANK
    )
    return site.operator(site.read(x)) if is_inside else None


def pads(site: Site) -> list[list[int]] | None:
    """Return the pads before and after each dimension, None if they are not constant."""
    values = site.integers(1)
    return None if values is None or len(values) != 2 * _RANK else np.reshape(values, (-1, 2)).tolist()


def _pad(site: Site) -> RowOperator | None:
    sizes = pads(site)
    is_constant = len(site.op.inputs) < 3 or site.tensor(2).data is not None
    if sizes is None or not is_constant or not is_map(site.tensor(0)) or any(sizes[0]):
        return None
    return site.operator(site.read(0, -sizes[1][0]))


def row_slice(site: Site) -> tuple[int, int] | None:
    """Return the first row and the step of a slice, None for one that drops or adds dimensions."""
    begin = site.integers(1)
    if begin is None or len(begin) != _RANK or not is_map(site.tensor(0)):
        return None
    if site.op.name == "SLICE":
        return None if site.integers(2) is None else (begin[1], 1)
    steps = site.integers(3)
    odd = any(site.option(name) for name in ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"))
    if steps is None or site.integers(2) is None or odd or steps[1] < 1 or steps[0] != 1:
        return None
    first = 0 if site.option("BeginMask") & 2 else begin[1]
    return (first + site.tensor(0).shape[1] if first < 0 else first), steps[1]


def _slice(site: Site) -> RowOperator | None:
    found = row_slice(site)
    return None if found is None else site.operator(site.read(0, found[0], found[1]))


_DESCRIBE: Mapping[str, Callable[[Site], RowOperator | None]] = MappingProxyType(
    dict.fromkeys(_UNARY, _unary)
    | dict.fromkeys(_BINARY, _binary)
    | {
        "AVERAGE_POOL_2D": _pool,
        "CONCATENATION": _concatenation,
        "CONV_2D": _layer,
        "DEPTHWISE_CONV_2D": _layer,
        "MAX_POOL_2D": _pool,
        "PAD": _pad,
        "PADV2": _pad,
        "RESIZE_BILINEAR": _resize,
        "RESIZE_NEAREST_NEIGHBOR": _resize,
        "SLICE": _slice,
        "SPLIT": _split,
        "SPLIT_V": _split,
        "STRIDED_SLICE": _slice,
        "TRANSPOSE_CONV": _transposed,
    }
)
"""The operators that are cut."""
