"""Brings a TFLite file into the one form that compilers and kernels here take, without changing what it computes.

Shapes are propagated from the inputs, operators on constants are computed, int4 weights are unpacked, biases get the
scale in which LiteRT adds them, and operators that no output depends on are removed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, InputError, UnsupportedError
from deuteron.tflite.constants import DTYPES, Array, values_of
from deuteron.tflite.encode import encode
from deuteron.tflite.execution_order import check_order
from deuteron.tflite.flat_model import HINT_MALFORMED, NO_TENSOR, Buffer, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant
from deuteron.tflite.shapes import NotConstantError, Operands, Shape, ShapeError, shapes_of, unknown_shape

_BIASED = {
    "CONV_2D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
"""Positions of the input, the weights and the bias of layers."""

_TOLERANCE = 0.02
"""Of LiteRT (`GetQuantizedConvolutionMultipler`): |input scale x weight scale - bias scale| in steps of the output."""

_BEYOND_REASON = 2.0
"""A bias scale that is this many times off is a broken file, not a rounding of its exporter."""

_STORED = ("INT8", "UINT8", "INT16")

Scales = npt.NDArray[np.float32]

_MOVES = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "CONCATENATION", "PACK", "UNPACK"}
"""Operators that only move elements, of constants in any quantization."""


@dataclass(frozen=True, slots=True)
class Normalized:
    """A file in that form.

    Attributes:
        model: the model.
        source: the model as a file; the file itself where nothing had to change, and where `is_complete` is False.
        notes: sentences about what was found, such as a bias whose scale is not the product.
    """

    model: FlatModel
    source: Buffer
    notes: tuple[str, ...] = ()


def normalized(source: Buffer, model: FlatModel, shapes: Mapping[str, Shape] | None = None) -> Normalized:
    """The file in that form.

    Args:
        source: the file's bytes.
        model: what `decode(source, partial=True)` gave.
        shapes: sizes of inputs by name, in the place of those that the file has.

    Raises:
        InputError: a shape is given for what is no input.
        FormatError: shapes contradict each other.
        UnsupportedError: a shape stays unknown, or the scale of a bias is wrong beyond reason.
    """
    check_order(model)
    pass_ = _Pass(_with_shapes(model, shapes or {}))
    result = pass_.run()
    if len(result.operators) != len(model.operators):
        result = _needed(result)
    return Normalized(result, encode(result) if result != model and model.is_complete else source, tuple(pass_.notes))


def parse_shapes(texts: Sequence[str]) -> dict[str, Shape]:
    """Sizes of inputs as users write them: `INPUT=1,96,96,3`, or without a name for the only input.

    Raises:
        InputError: naming what is wrong.
    """
    shapes: dict[str, Shape] = {}
    for text in texts:
        name, _, sizes = text.rpartition("=")
        try:
            shape = tuple(int(size) for size in sizes.split(",")) if sizes else ()
        except ValueError:
            shape = (0,)
        if min(shape, default=1) < 1 or name in shapes:
            raise InputError(
                f"`--shape {text}` names no shape", hint="write it as INPUT=1,96,96,3, once for each input"
            )
        shapes[name] = shape
    return shapes


def _with_shapes(model: FlatModel, shapes: Mapping[str, Shape]) -> FlatModel:
    """The model with other sizes of inputs."""
    names = {model.tensors[index].name: index for index in model.own_inputs}
    given = dict(shapes)
    if "" in given and len(names) == 1:
        given[next(iter(names))] = given.pop("")
    for name in given:
        if name not in names:
            listed = ", ".join(f"`{known}`" for known in names)
            raise InputError(f"the model has no input `{name}`", hint=f"its inputs are {listed}")
    tensors = list(model.tensors)
    for name, shape in given.items():
        tensor = tensors[names[name]]
        if len(tensor.shape) != len(shape) and tensor.shape:
            raise InputError(
                f"input `{name}` has {len(tensor.shape)} dimensions, `--shape` gives {len(shape)}",
                hint=f"the file's shape is {list(tensor.shape)}",
            )
        tensors[names[name]] = replace(tensor, shape=shape, is_open=False, problem="")
    return replace(model, tensors=tuple(tensors))


class _Pass:
    """Follows the operators in their order: shapes, constants, and the scales of biases."""

    def __init__(self, model: FlatModel) -> None:
        self._model = model
        self._tensors = [_unpacked(tensor) for tensor in model.tensors]
        self.notes: list[str] = []

    def run(self) -> FlatModel:
        """The model with known shapes."""
        for index in self._model.inputs:
            if self._tensors[index].is_open:
                raise unknown_shape(self._tensors[index].name)
        operators = [op for i, op in enumerate(self._model.operators) if self._keeps(i, op)]
        return replace(self._model, tensors=tuple(self._tensors), operators=tuple(operators))

    def _keeps(self, number: int, op: FlatOperator) -> bool:
        """Whether an operator stays: one whose outputs are computed here does not."""
        operands = self._operands(op)
        where = f"op {number} {op.title}"
        if op.outputs:
            where += f", output `{self._tensors[op.outputs[0]].name}`"
        try:
            shapes = shapes_of(operands) if op.inputs[:1] != (NO_TENSOR,) else None
        except ShapeError as error:
            raise FormatError(str(error), where=where, hint=HINT_MALFORMED) from error
        except NotConstantError:
            shapes = None
        except (IndexError, ValueError):  # operands are missing, which the check of the operator's form says
            shapes = None
        self._set_shapes(op, operands, shapes)
        if op.outputs and self._may_fold(op) and self._fold(op):
            return False
        self._check_bias(op, where)
        return True

    def _operands(self, op: FlatOperator) -> Operands:
        tensors = [self._tensors[i] if i >= 0 else None for i in op.inputs]
        return Operands(
            op,
            [() if t is None else t.shape for t in tensors],
            [None if t is None else _values(t) for t in tensors],
            [self._tensors[i].shape for i in op.outputs],
        )

    def _set_shapes(self, op: FlatOperator, operands: Operands, shapes: Sequence[Shape] | None) -> None:
        """Give the outputs the shapes that the inputs give them; those of the file where no rule knows better."""
        if shapes is None:
            for index in op.outputs:
                if self._tensors[index].is_open:
                    raise unknown_shape(self._tensors[index].name)
            changed = [i for i in op.inputs if i >= 0 and self._tensors[i].shape != self._model.tensors[i].shape]
            if changed and op.name not in ("WHILE", "IF", "CALL_ONCE"):
                name = self._tensors[changed[0]].name
                raise UnsupportedError(
                    f"{op.title} reads tensor `{name}` of another shape than the file records, and the shape of its "
                    "result is not known",
                    where=f"tensor `{self._tensors[op.outputs[0]].name}`" if op.outputs else None,
                    hint="export the model with fixed shapes",
                )
            return
        for index, shape in zip(op.outputs, shapes, strict=False):
            self._tensors[index] = replace(self._tensors[index], shape=tuple(shape), is_open=False, problem="")

    def _may_fold(self, op: FlatOperator) -> bool:
        """Whether values of constants keep their meaning: of quantized ones only where elements move."""
        outputs = [self._tensors[i] for i in op.outputs]
        quants = {self._tensors[i].quant for i in op.inputs if i >= 0 and self._tensors[i].quant is not None}
        if not any(t.quant for t in outputs) and not quants:
            return True
        same = {t.quant for t in outputs}
        return op.name == "SHAPE" or (op.name in _MOVES and same == quants and all(q and q.axis is None for q in same))

    def _fold(self, op: FlatOperator) -> bool:
        """Compute the outputs where all inputs are constants."""
        results = values_of(self._operands(op), self._tensors[op.outputs[0]].dtype)
        if results is None or len(results) != len(op.outputs):
            return False
        for index, result in zip(op.outputs, results, strict=True):
            tensor = self._tensors[index]
            if result.shape != tensor.shape:
                return False
            self._tensors[index] = replace(tensor, data=result.tobytes())
        return True

    def _check_bias(self, op: FlatOperator, where: str) -> None:
        """Give the bias of a layer the scale in which LiteRT adds it: that of the input times that of the weights."""
        positions = _BIASED.get(op.name)
        if positions is None or len(op.inputs) <= positions[2] or op.inputs[positions[2]] < 0:
            return
        index = op.inputs[positions[2]]
        bias, *others = (self._tensors[i] for i in (index, *(op.inputs[p] for p in positions[:2]), op.outputs[0]))
        match bias.quant, [tensor.quant for tensor in others]:
            case Quant() as of_bias, [Quant(axis=None) as x, Quant() as weights, Quant(axis=None) as y]:
                product = np.float32(x.scale) * np.array(weights.scales, np.float32)
                scales = np.resize(np.array(of_bias.scales, np.float32), product.shape)
            case _:
                return
        if others[0].dtype not in _STORED or np.array_equal(scales, product) or not (product > 0).all():
            return
        values = _values(bias)
        if values is None or values.any():
            self._compare_scales(bias.name, scales, product, y.scale, where)
        quant = Quant(tuple(map(float, product)), (0,) * product.size, None if product.size == 1 else 0)
        self._tensors[index] = replace(bias, quant=quant)

    def _compare_scales(self, bias: str, scales: Scales, product: Scales, step: float, where: str) -> None:
        """Refuse a bias whose scale is wrong beyond reason, and note one that is beyond LiteRT's tolerance."""
        ratios = np.maximum(scales / product, product / scales)
        worst = int(ratios.argmax())
        if ratios[worst] > _BEYOND_REASON:
            raise UnsupportedError(
                f"bias `{bias}` has the scale {scales[worst]:.6g}, input times weights have {product[worst]:.6g}",
                where=where,
                hint="make the file again: LiteRT adds a bias in the scale of input times weights",
            )
        if (np.abs(product - scales) / np.float32(step)).max() > _TOLERANCE:
            self.notes.append(f"bias `{bias}` has another scale than input times weights, in which LiteRT adds it")


def _unpacked(tensor: FlatTensor) -> FlatTensor:
    """Constants of int4, two in a byte with the first in the low half, as int8."""
    if tensor.dtype != "INT4" or tensor.data is None:
        return tensor
    packed = np.frombuffer(tensor.data, np.uint8)
    halves = np.stack([packed & 15, packed >> 4], 1).ravel()[: int(np.prod(tensor.shape, dtype=np.int64))]
    return replace(tensor, dtype="INT8", data=(((halves ^ 8).astype(np.int16) - 8).astype(np.int8)).tobytes())


def _values(tensor: FlatTensor) -> Array | None:
    """The values of a constant; None of others, and of types that have no numpy counterpart."""
    dtype = DTYPES.get(tensor.dtype)
    if dtype is None or tensor.is_variable or (tensor.data is None and 0 not in tensor.shape):
        return None
    data = tensor.data or b""
    if len(data) != dtype.itemsize * int(np.prod(tensor.shape, dtype=np.int64)):
        return None
    return np.frombuffer(data, dtype).reshape(tensor.shape)


def _needed(model: FlatModel) -> FlatModel:
    """The model without operators and tensors that no output depends on."""
    needed, operators = {*model.outputs}, list[FlatOperator]()
    for op in reversed(model.operators):
        if not op.outputs or needed & {*op.outputs}:
            operators.append(op)
            needed |= {i for i in (*op.inputs, *op.intermediates) if i >= 0}
    operators.reverse()
    used = sorted(needed | {*model.inputs} | {i for op in operators for i in op.outputs})
    if len(used) == len(model.tensors) and len(operators) == len(model.operators):
        return model
    places = {-1: -1} | {old: new for new, old in enumerate(used)}
    return replace(
        model,
        tensors=tuple(model.tensors[i] for i in used),
        inputs=tuple(places[i] for i in model.inputs),
        outputs=tuple(places[i] for i in model.outputs),
        operators=tuple(
            replace(
                op,
                inputs=tuple(places[i] for i in op.inputs),
                outputs=tuple(places[i] for i in op.outputs),
                intermediates=tuple(places[i] for i in op.intermediates),
            )
            for op in operators
        ),
    )
