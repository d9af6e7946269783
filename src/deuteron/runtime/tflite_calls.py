"""Operators of TFLite as calls of a program on the CPU: of those that boards have, where one means the same.

Others stand in a program under a name of their own, `tflite::`, so that whoever runs it says which it lacks.
"""

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.npu.neutron.ir.types import Quant
from deuteron.npu.neutron.tflite.flat import FlatModel, FlatOperator, FlatTensor
from deuteron.runtime.pte_writer import CODES, Argument, Call, Ref

QUANTIZE = "quantized_decomposed::quantize_per_tensor.out"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor.out"

NAMESPACE = "tflite"

_Form = Callable[[FlatModel, FlatOperator], "Call | None"]


def call_of(model: FlatModel, op: FlatOperator) -> Call:
    """The call that computes what an operator does; one that only names it, where there is none."""
    form = _FORMS.get(op.name)
    call = form(model, op) if form else None
    outputs = tuple(Ref(i) for i in op.outputs)
    return call or Call(f"{NAMESPACE}::{op.title}.out", (*(Ref(i) for i in op.inputs if i >= 0), *outputs))


def _end(op: FlatOperator) -> tuple[Ref, Ref]:
    """The output, which stands twice in each call: as an argument, and as the result."""
    return Ref(op.outputs[0]), Ref(op.outputs[0])


def _tensors(model: FlatModel, op: FlatOperator) -> tuple[list[FlatTensor], FlatTensor]:
    return [model.tensors[i] for i in op.inputs if i >= 0], model.tensors[op.outputs[0]]


def _numbers(quant: Quant, dtype: str) -> tuple[Argument, ...]:
    """Scale, zero point, the least and the largest value, and the type of stored values."""
    limits = np.iinfo(dtype.lower())
    # In a file it is float32: the nearest double, as ExecuTorch has it.
    return float(quant.scale), quant.zero_point, int(limits.min), int(limits.max), CODES[dtype.lower()]


def _is_stored(tensor: FlatTensor) -> bool:
    return tensor.dtype in ("INT8", "UINT8", "INT16") and tensor.quant is not None and tensor.quant.axis is None


def _quantize(model: FlatModel, op: FlatOperator) -> Call | None:
    (x,), y = _tensors(model, op)
    if x.dtype != "FLOAT32" or not _is_stored(y) or y.quant is None:
        return None
    return Call(QUANTIZE, (Ref(op.inputs[0]), *_numbers(y.quant, y.dtype), *_end(op)))


def _dequantize(model: FlatModel, op: FlatOperator) -> Call | None:
    (x,), y = _tensors(model, op)
    if y.dtype != "FLOAT32" or not _is_stored(x) or x.quant is None:
        return None
    return Call(DEQUANTIZE, (Ref(op.inputs[0]), *_numbers(x.quant, x.dtype), None, *_end(op)))


def _has_activation(op: FlatOperator) -> bool:
    return bool(op.options.get("FusedActivationFunction", 0))


def _arithmetic(name: str, *factor: int) -> _Form:
    """A sum or product in float; sums have a factor."""

    def form(model: FlatModel, op: FlatOperator) -> Call | None:
        inputs, y = _tensors(model, op)
        if _has_activation(op) or any(tensor.dtype != "FLOAT32" for tensor in (*inputs, y)):
            return None
        return Call(f"aten::{name}.out", (Ref(op.inputs[0]), Ref(op.inputs[1]), *factor, *_end(op)))

    return form


def _relation(name: str) -> _Form:
    """A comparison in float."""

    def form(model: FlatModel, op: FlatOperator) -> Call | None:
        if any(tensor.dtype != "FLOAT32" for tensor in _tensors(model, op)[0]):
            return None
        return Call(f"aten::{name}.Tensor_out", (Ref(op.inputs[0]), Ref(op.inputs[1]), *_end(op)))

    return form


def _clamp(low: float, high: float | None) -> _Form:
    """Bounds in float."""

    def form(model: FlatModel, op: FlatOperator) -> Call | None:
        if _tensors(model, op)[1].dtype != "FLOAT32":
            return None
        return Call("aten::clamp.out", (Ref(op.inputs[0]), low, high, *_end(op)))

    return form


def _view(model: FlatModel, op: FlatOperator) -> Call | None:
    """The same values, of any type, under another shape."""
    return Call("aten::view_copy.out", (Ref(op.inputs[0]), _tensors(model, op)[1].shape, *_end(op)))


def _permute(model: FlatModel, op: FlatOperator) -> Call | None:
    order = _tensors(model, op)[0][1]
    if order.data is None or order.dtype != "INT32":
        return None
    return Call("aten::permute_copy.out", (Ref(op.inputs[0]), _integers(order.data), *_end(op)))


def _concatenation(model: FlatModel, op: FlatOperator) -> Call | None:
    inputs, y = _tensors(model, op)
    if _has_activation(op) or any((tensor.dtype, tensor.quant) != (y.dtype, y.quant) for tensor in inputs):
        return None
    return Call("aten::cat.out", (tuple(Ref(i) for i in op.inputs), int(op.options["Axis"]), *_end(op)))


def _integers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 4}i", data)


_FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "ADD": _arithmetic("add", 1),
        "CONCATENATION": _concatenation,
        "DEQUANTIZE": _dequantize,
        "DIV": _arithmetic("div"),
        "EQUAL": _relation("eq"),
        "EXPAND_DIMS": _view,
        "GREATER": _relation("gt"),
        "GREATER_EQUAL": _relation("ge"),
        "LESS": _relation("lt"),
        "LESS_EQUAL": _relation("le"),
        "MUL": _arithmetic("mul"),
        "NOT_EQUAL": _relation("ne"),
        "QUANTIZE": _quantize,
        "RELU": _clamp(0.0, None),
        "RELU6": _clamp(0.0, 6.0),
        "RELU_0_TO_1": _clamp(0.0, 1.0),
        "RELU_N1_TO_1": _clamp(-1.0, 1.0),
        "RESHAPE": _view,
        "SQUEEZE": _view,
        "SUB": _arithmetic("sub", 1),
        "TRANSPOSE": _permute,
    }
)
