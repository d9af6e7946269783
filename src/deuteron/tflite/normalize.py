"""Brings a TFLite file into the one form that compilers and kernels here take, without changing what it computes.

Shapes are propagated from the inputs, operators on constants are computed, int4 weights are unpacked, biases get the
scale in which LiteRT adds them, and operators that no output depends on are removed.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, InputError, MissingOperatorError, UnsupportedError
from deuteron.tflite.constants import DTYPES, LIMIT, Array, values_of
from deuteron.tflite.custom_options import DETECTION, HINT_CUSTOM
from deuteron.tflite.encode import OPERATORS, TENSOR_TYPES, encode
from deuteron.tflite.execution_order import check_order
from deuteron.tflite.flat_model import (
    CUSTOM,
    HINT_MALFORMED,
    NO_TENSOR,
    RUNS_SUBGRAPHS,
    Buffer,
    FlatModel,
    FlatOperator,
    FlatTensor,
)
from deuteron.tflite.operands import NotConstantError, Operands, Shape, ShapeError
from deuteron.tflite.quantization import Quant
from deuteron.tflite.shapes import shapes_of, unknown_shape
from deuteron.tflite.tensor_checks import check_tensor

_BIASED = {
    "CONV_2D": (0, 1, 2),
    "DEPTHWISE_CONV_2D": (0, 1, 2),
    "FULLY_CONNECTED": (0, 1, 2),
    "TRANSPOSE_CONV": (2, 1, 3),
}
"""Positions of the input, the weights and the bias of layers."""

_TOLERANCE = 0.02
"""LiteRT's limit of |input scale x weight scale - bias scale|, in output steps (`GetQuantizedConvolutionMultipler`)."""

_BEYOND_REASON = 2.0
"""A bias scale that is this many times off is a broken file, not a rounding of its exporter."""

_STORED = ("INT8", "UINT8", "INT16")

INT32 = 2
"""A type of the schema."""

RESIZES = ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")

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
        can_be_written: whether a file of the model's values has all that the model needs.
    """

    model: FlatModel
    source: Buffer
    notes: tuple[str, ...] = ()
    can_be_written: bool = True


def normalized(source: Buffer, model: FlatModel, shapes: Mapping[str, Shape] | None = None) -> Normalized:
    """The file in that form.

    Args:
        source: the file's bytes.
        model: what `decode(source, partial=True)` gave.
        shapes: sizes of inputs by name, in the place of those that the file has.

    Raises:
        InputError: a shape is given for a tensor that is no input.
        FormatError: shapes contradict each other.
        UnsupportedError: a shape stays unknown, or the scale of a bias is wrong beyond reason.
    """
    check_order(model)
    pass_ = _Pass(with_shapes(model, shapes or {}))
    result = pass_.run()
    if len(result.operators) != len(model.operators):
        result = _needed(result)
    can_be_written = model.is_complete and not any(op.name in RUNS_SUBGRAPHS for op in result.operators)
    can_be_written &= all(tensor.dtype in TENSOR_TYPES for tensor in result.tensors)
    can_be_written &= all(op.name in OPERATORS for op in result.operators)
    is_source = (result == model and model.is_file) or not can_be_written
    return Normalized(result, source if is_source else encode(result), tuple(pass_.notes), can_be_written)


class Propagation:
    """Shapes and constants of tensors, from one operator to the next, for models that grow meanwhile.

    Raises:
        UnsupportedError: the shape of an input is unknown.
    """

    def __init__(self, model: FlatModel) -> None:
        self._pass = _Pass(model)
        self._pass.check_inputs()

    def visit(self, op: FlatOperator) -> None:
        """Give the outputs of the next operator their shapes and values."""
        self._pass.visit(0, op)

    def extend(self, tensors: Sequence[FlatTensor]) -> None:
        """Add tensors to the model."""
        self._pass.extend(tensors)

    def tensor(self, index: int) -> FlatTensor:
        """A tensor with what is known of it."""
        return self._pass.tensor(index)


def with_unique_names(model: FlatModel) -> FlatModel:
    """The model without two tensors of one name: tensors are found by name in what a compiler makes of the file.

    Inputs keep their names first, then outputs.
    """
    names = [tensor.name for tensor in model.tensors]
    if len({*names}) == len(names):
        return model
    taken, tensors, counts = {*names}, [*model.tensors], Counter[str]()
    for index in dict.fromkeys((*model.inputs, *model.outputs, *range(len(names)))):
        name = names[index]
        counts[name] += 1
        if counts[name] == 1:
            continue
        while (fresh := f"{name}/{counts[name]}") in taken:
            counts[name] += 1
        taken.add(fresh)
        tensors[index] = replace(tensors[index], name=fresh)
    return replace(model, tensors=tuple(tensors), is_file=False)


def with_shapes(model: FlatModel, shapes: Mapping[str, Shape]) -> FlatModel:
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
    return replace(model, tensors=tuple(tensors), is_file=model.is_file and tuple(tensors) == model.tensors)


class _Pass:
    """Follows the operators in their order: shapes, constants, and the scales of biases."""

    def __init__(self, model: FlatModel) -> None:
        self._model = model
        self._tensors, self._recorded = list[FlatTensor](), list[Shape]()
        self._anchors = {i for op in model.operators if op.title == DETECTION for i in op.inputs[2:3]}
        self._custom: dict[int, str] = {}
        self.notes: list[str] = []
        self.extend(model.tensors)

    def extend(self, tensors: Sequence[FlatTensor]) -> None:
        """Add tensors."""
        for tensor in map(_unpacked, tensors):
            check_tensor(tensor)
            self._tensors.append(tensor)
        self._recorded += (tensor.shape for tensor in tensors)

    def tensor(self, index: int) -> FlatTensor:
        """A tensor with what is known of it."""
        return self._tensors[index]

    def run(self) -> FlatModel:
        """The model with known shapes."""
        self.check_inputs()
        operators = (self.visit(i, op) for i, op in enumerate(self._model.operators))
        left = tuple(op for op in operators if op is not None)
        return replace(self._model, tensors=tuple(self._tensors), operators=left)

    def check_inputs(self) -> None:
        """Raise UnsupportedError for an input whose shape is unknown."""
        for index in self._model.inputs:
            if self._tensors[index].is_open:
                raise unknown_shape(self._tensors[index].name)

    def visit(self, number: int, op: FlatOperator) -> FlatOperator | None:
        """Return the operator if it stays; None for one whose outputs are computed here."""
        operands = self._operands(op)
        where = f"op {op.number(number)} {op.title}"
        if op.outputs:
            where += f", output `{self._tensors[op.outputs[0]].name}`"
        try:
            shapes = shapes_of(operands) if op.inputs[:1] != (NO_TENSOR,) else None
        except ShapeError as error:
            if custom := next((self._custom[i] for i in op.inputs if i in self._custom), None):
                message = f"the shape of its operand is not known, which the custom operator {custom} computes"
                raise MissingOperatorError(message, where=where, hint=HINT_CUSTOM) from error
            raise FormatError(str(error), where=where, hint=HINT_MALFORMED) from error
        except NotConstantError:
            shapes = None
            self._note_shape(op, operands, where)
        except (ArithmeticError, IndexError, ValueError) as error:
            message = f"{op.title} lacks operands, or they have another number of dimensions than it takes"
            raise FormatError(message, where=where, hint=HINT_MALFORMED) from error
        self._set_shapes(op, operands, shapes)
        if op.outputs and self._may_fold(op) and self._fold(op):
            return None
        self._give_zeros_a_scale(op)
        self._compare_ends(op, where)
        return self._with_bias(self._with_bias_type(self._without_zero_point(op, where)), where)

    def _operands(self, op: FlatOperator) -> Operands:
        tensors = [self._tensors[i] if i >= 0 else None for i in op.inputs]
        return Operands(
            op,
            [() if t is None else t.shape for t in tensors],
            [None if t is None else _values(t) for t in tensors],
            [self._tensors[i].shape for i in op.outputs],
        )

    def _note_shape(self, op: FlatOperator, operands: Operands, where: str) -> None:
        """Note a computed operand on which the shape of the result depends: the file's shape is taken."""
        computed = [i for i, value in zip(op.inputs, operands.values, strict=True) if i >= 0 and value is None]
        shapes = [self._tensors[i].name for i in computed if self._tensors[i].dtype in ("INT32", "INT64")]
        if shapes:
            self.notes.append(
                f"{where}: the result has the shape of the file; what `{shapes[0]}` holds when the model runs does not "
                "change it, as it would in LiteRT"
            )

    def _set_shapes(self, op: FlatOperator, operands: Operands, shapes: Sequence[Shape] | None) -> None:
        """Give the outputs the shapes that the inputs give them; those of the file where no rule knows better."""
        if shapes is None:
            self._custom |= dict.fromkeys(op.outputs if op.name == CUSTOM else (), op.title)
            for index in op.outputs if op.name not in RUNS_SUBGRAPHS else ():
                if self._tensors[index].is_open:
                    raise unknown_shape(self._tensors[index].name)
            changed = [i for i in op.inputs if i >= 0 and self._tensors[i].shape != self._recorded[i]]
            if changed and op.name not in RUNS_SUBGRAPHS:
                name = self._tensors[changed[0]].name
                raise UnsupportedError(
                    f"{op.title} reads tensor `{name}` of another shape than the file records, and the shape of its "
                    "result is not known",
                    where=f"tensor `{self._tensors[op.outputs[0]].name}`" if op.outputs else None,
                    hint="export the model with fixed shapes",
                )
            return
        for index, shape in zip(op.outputs, shapes, strict=False):
            tensor = replace(self._tensors[index], shape=tuple(shape), is_open=False, problem="", data=None)
            check_tensor(tensor)
            self._tensors[index] = tensor

    def _may_fold(self, op: FlatOperator) -> bool:
        """Return True if constants keep their values' meaning; quantized ones do only if elements move."""
        outputs = [self._tensors[i] for i in op.outputs]
        read = (math.prod(self._tensors[i].shape) for i in op.inputs if i >= 0)
        if sum(math.prod(tensor.shape) for tensor in outputs) > max(LIMIT, *read, 0):
            return False
        quants = {quant for i in op.inputs if i >= 0 and (quant := self._tensors[i].quant) is not None}
        if not any(t.quant for t in outputs) and not quants:
            return True
        same = {t.quant for t in outputs}
        if op.name == "DEQUANTIZE" and (op.outputs[0] in self._anchors or all(q.axis is not None for q in quants)):
            return True  # weights of a channel each; no kernel has more than one scale, and detections need constants
        return op.name == "SHAPE" or (op.name in _MOVES and same == quants and all(q and q.axis is None for q in same))

    def _fold(self, op: FlatOperator) -> bool:
        """Compute the outputs where all inputs are constants."""
        source = self._tensors[op.inputs[0]] if op.inputs and op.inputs[0] >= 0 else None
        if op.name == "DEQUANTIZE" and source is not None and source.quant is not None:
            results = _dequantized(source)
        else:
            results = values_of(self._operands(op), self._tensors[op.outputs[0]].dtype)
        if results is None or len(results) != len(op.outputs):
            return False
        for index, result in zip(op.outputs, results, strict=True):
            tensor = self._tensors[index]
            if result.shape != tensor.shape:
                return False
            self._tensors[index] = replace(tensor, data=result.tobytes())
        return True

    def _with_bias_type(self, op: FlatOperator) -> FlatOperator:
        """Record the type of an int32 bias in a layer of int16; LiteRT takes its bytes for int64 numbers otherwise."""
        bias = bias_without_type(op, self._tensors)
        if bias is None:
            return op
        self.notes.append(
            f"bias `{bias.name}` is int32 and the layer's options do not say it: LiteRT reads such bytes as int64"
        )
        return replace(op, options={**op.options, "QuantizedBiasType": INT32})

    def _without_zero_point(self, op: FlatOperator, where: str) -> FlatOperator:
        """Give int8 weights the zero point that LiteRT takes them with.

        LiteRT heeds it in FULLY_CONNECTED with one scale, refuses it in CONV_2D, and takes it for 0 in other layers.
        """
        at_x, at, _ = _BIASED.get(op.name, (0, 0, 0))
        if not at or max(at_x, at) >= len(op.inputs) or min(op.inputs[at_x], op.inputs[at]) < 0:
            return op
        weights, quant = self._tensors[op.inputs[at]], self._tensors[op.inputs[at]].quant
        if self._tensors[op.inputs[at_x]].dtype not in ("INT8", "INT16") or weights.dtype != "INT8" or quant is None:
            return op
        point = next((point for point in quant.zero_points if point), 0)
        if not point or weights.data is None or (op.name == "FULLY_CONNECTED" and len(quant.scales) == 1):
            return op
        if op.name == "CONV_2D":
            raise UnsupportedError(
                f"weights `{weights.name}` have zero point {point}; LiteRT allows 0 in CONV_2D of int8 and int16",
                where=where,
                hint="convert the model with the default int8 quantization, whose weights are symmetric",
            )
        self.notes.append(f"weights `{weights.name}` have zero point {point}: as in LiteRT, {op.title} takes it for 0")
        plain = replace(quant, zero_points=(0,) * len(quant.scales))
        return self._with_operand(op, at, replace(weights, quant=plain), where)

    def _with_operand(self, op: FlatOperator, at: int, tensor: FlatTensor, where: str) -> FlatOperator:
        """Change a constant operand of an operator; operators that share it keep theirs."""
        index = op.inputs[at]
        if sum(other.inputs.count(index) for other in self._model.operators) == 1:
            self._tensors[index] = tensor
            return op
        self.extend([replace(tensor, name=f"{tensor.name}/{where}")])
        inputs = [*op.inputs]
        inputs[at] = len(self._tensors) - 1
        return replace(op, inputs=tuple(inputs))

    def _compare_ends(self, op: FlatOperator, where: str) -> None:
        """Note a resize between two quantizations: LiteRT interpolates the stored values as they are."""
        if op.name in RESIZES and has_two_quants(op, self._tensors):
            self.notes.append(
                f"{where}: input and output have two quantizations; as in LiteRT, stored values are not scaled"
            )

    def _give_zeros_a_scale(self, op: FlatOperator) -> None:
        """Give a factor of zeros without quantization the scale of the product; LiteRT multiplies by the scale 0."""
        if op.name != "MUL":
            return
        for index in op.inputs:
            tensor, product = self._tensors[index], self._tensors[op.outputs[0]].quant
            if product is None or tensor.quant is not None or tensor.dtype not in _STORED:
                continue
            if (values := _values(tensor)) is not None and not values.any():
                self._tensors[index] = replace(tensor, quant=Quant(product.scales[:1], (0,)))

    def _with_bias(self, op: FlatOperator, where: str) -> FlatOperator:
        """Give the bias of a layer the scale in which LiteRT adds it: that of the input times that of the weights.

        Layers with different products that share a bias get one each.
        """
        positions = _BIASED.get(op.name)
        if positions is None or len(op.inputs) <= positions[2] or op.inputs[positions[2]] < 0:
            return op
        index = op.inputs[positions[2]]
        bias, *others = (self._tensors[i] for i in (index, *(op.inputs[p] for p in positions[:2]), op.outputs[0]))
        match bias.quant, [tensor.quant for tensor in others]:
            case Quant() as of_bias, [Quant(axis=None) as x, Quant() as weights, Quant(axis=None) as y]:
                product = np.float32(x.scale) * np.array(weights.scales, np.float32)
                scales = np.resize(np.array(of_bias.scales, np.float32), product.shape)
            case _:
                return op
        if others[0].dtype not in _STORED or np.array_equal(scales, product) or not (product > 0).all():
            return op
        values = _values(bias)
        if values is None or values.any():
            self._compare_scales(bias.name, scales, product, y.scale, where)
        quant = Quant(tuple(map(float, product)), (0,) * product.size, None if product.size == 1 else 0)
        return self._with_operand(op, positions[2], replace(bias, quant=quant), where)

    def _compare_scales(self, bias: str, scales: Scales, product: Scales, step: float, where: str) -> None:
        """Refuse a bias whose scale is wrong beyond reason, and note one that is beyond LiteRT's tolerance."""
        with np.errstate(over="ignore"):
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


def has_two_quants(op: FlatOperator, tensors: Sequence[FlatTensor]) -> bool:
    """Return True if the first input and an output are quantized, and not alike."""
    if not op.inputs or op.inputs[0] < 0:
        return False
    quant = tensors[op.inputs[0]].quant
    return quant is not None and any((other := tensors[i].quant) and other != quant for i in op.outputs)


def bias_without_type(op: FlatOperator, tensors: Sequence[FlatTensor]) -> FlatTensor | None:
    """The int32 bias of a layer of int16 whose options do not record its type; None for other operators."""
    x, _, at = _BIASED.get(op.name, (0, 0, 0))
    if at >= len(op.inputs) or min(op.inputs[at], op.inputs[x]) < 0 or op.options.get("QuantizedBiasType") != 0:
        return None
    bias = tensors[op.inputs[at]]
    return bias if at and tensors[op.inputs[x]].dtype == "INT16" and bias.dtype == "INT32" else None


def _dequantized(tensor: FlatTensor) -> list[Array] | None:
    """The numbers that a quantized constant stands for; None for other tensors."""
    values = _values(tensor)
    if values is None or tensor.quant is None:
        return None
    sizes = [-1 if axis == tensor.quant.axis else 1 for axis in range(values.ndim)]
    scales, zero_points = (np.reshape(each, sizes) for each in (tensor.quant.scales, tensor.quant.zero_points))
    return [scales.astype(np.float32) * (values.astype(np.int32) - zero_points).astype(np.float32)]


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
