"""Operators of TFLite as calls of a program on the CPU: of those that boards have, where one means the same.

QUANTIZE means the same but for halves, which TFLite rounds away from zero, and the call, as ExecuTorch has it, to even.

Others stand in a program under a name of their own, `tflite::`, so that whoever runs it says which it lacks.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from deuteron.npu.neutron.ir.types import Quant
from deuteron.npu.neutron.tflite.flat import FlatTensor
from deuteron.npu.neutron.tflite.site import Site
from deuteron.runtime.pte_writer import CODES, Argument, Call, Ref

QUANTIZE = "quantized_decomposed::quantize_per_tensor.out"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor.out"

NAMESPACE = "tflite"

_ONE, _TWO, _ONE_OR_TWO, _ANY_NUMBER = range(1, 2), range(2, 3), range(1, 3), range(1, 1 << 16)

_Maker = Callable[[Site], "Call | None"]


@dataclass(frozen=True, slots=True)
class _Form:
    """How an operator becomes a call.

    Attributes:
        call: the call; None where there is none for its types and options.
        inputs: the numbers of inputs that it may have.
    """

    call: _Maker
    inputs: range


def call_of(site: Site) -> Call:
    """The call that computes what an operator does; one that only names it, where there is none.

    Raises:
        FormatError: the operator contradicts itself.
    """
    op, form, call = site.op, _FORMS.get(site.op.name), None
    if form is not None:
        site.check_form(form.inputs)
        call = form.call(site)
    outputs = tuple(Ref(i) for i in op.outputs)
    return call or Call(f"{NAMESPACE}::{op.title}.out", (*(Ref(i) for i in op.inputs if i >= 0), *outputs))


def on_boards() -> tuple[str, ...]:
    """TFLite's operators that become such calls, where their types and options allow."""
    return tuple(_FORMS)


def _operands(site: Site) -> tuple[Ref, ...]:
    return tuple(Ref(i) for i in site.op.inputs)


def _end(site: Site) -> tuple[Ref, Ref]:
    """The output, which stands twice in each call: as an argument, and as the result."""
    return Ref(site.op.outputs[0]), Ref(site.op.outputs[0])


def _tensors(site: Site) -> tuple[list[FlatTensor], FlatTensor]:
    return [site.input_tensor(position) for position in range(len(site.op.inputs))], site.output_tensor()


def _numbers(quant: Quant, dtype: str) -> tuple[Argument, ...]:
    """Scale, zero point, the least and the largest value, and the type of stored values."""
    limits = np.iinfo(dtype.lower())
    # In a file it is float32: the nearest double, as ExecuTorch has it.
    return float(quant.scale), quant.zero_point, int(limits.min), int(limits.max), CODES[dtype.lower()]


def _is_stored(tensor: FlatTensor) -> bool:
    return tensor.dtype in ("INT8", "UINT8", "INT16") and tensor.quant is not None and tensor.quant.axis is None


def _quantize(site: Site) -> Call | None:
    (x,), y = _tensors(site)
    if x.dtype != "FLOAT32" or not _is_stored(y) or y.quant is None:
        return None
    return Call(QUANTIZE, (*_operands(site), *_numbers(y.quant, y.dtype), *_end(site)))


def _dequantize(site: Site) -> Call | None:
    (x,), y = _tensors(site)
    if y.dtype != "FLOAT32" or not _is_stored(x) or x.quant is None:
        return None
    return Call(DEQUANTIZE, (*_operands(site), *_numbers(x.quant, x.dtype), None, *_end(site)))


def _has_activation(site: Site) -> bool:
    return bool(site.option("FusedActivationFunction"))


def _arithmetic(name: str, *factor: int) -> _Form:
    """A sum or product in float; sums have a factor."""

    def call(site: Site) -> Call | None:
        inputs, y = _tensors(site)
        if _has_activation(site) or any(tensor.dtype != "FLOAT32" for tensor in (*inputs, y)):
            return None
        return Call(f"aten::{name}.out", (*_operands(site), *factor, *_end(site)))

    return _Form(call, _TWO)


def _relation(name: str) -> _Form:
    """A comparison in float."""

    def call(site: Site) -> Call | None:
        inputs, y = _tensors(site)
        if any(tensor.dtype != "FLOAT32" for tensor in inputs) or y.dtype != "BOOL":
            return None
        return Call(f"aten::{name}.Tensor_out", (*_operands(site), *_end(site)))

    return _Form(call, _TWO)


def _clamp(low: float, high: float | None) -> _Form:
    """Bounds in float."""

    def call(site: Site) -> Call | None:
        (x,), y = _tensors(site)
        if (x.dtype, y.dtype) != ("FLOAT32", "FLOAT32"):
            return None
        return Call("aten::clamp.out", (*_operands(site), low, high, *_end(site)))

    return _Form(call, _ONE)


def _view(site: Site) -> Call | None:
    """The same values, of any type, under another shape."""
    (x, *_), y = _tensors(site)
    if x.dtype != y.dtype:
        raise site.malformed(f"tensor `{x.name}` is {x.dtype}, and the output {y.dtype}")
    if math.prod(x.shape) != math.prod(y.shape):
        raise site.malformed(
            f"tensor `{x.name}` has {math.prod(x.shape):,} elements, the output {math.prod(y.shape):,}"
        )
    return Call("aten::view_copy.out", (_operands(site)[0], y.shape, *_end(site)))


def _permute(site: Site) -> Call | None:
    (x, order), _ = _tensors(site)
    if order.data is None or order.dtype != "INT32":
        return None
    dims = site.integers(1, "order of dimensions")
    if sorted(dims) != [*range(len(x.shape))]:
        raise site.malformed(f"{list(dims)} is no order of {len(x.shape)} dimensions")
    return Call("aten::permute_copy.out", (_operands(site)[0], dims, *_end(site)))


def _concatenation(site: Site) -> Call | None:
    inputs, y = _tensors(site)
    if _has_activation(site) or any((tensor.dtype, tensor.quant) != (y.dtype, y.quant) for tensor in inputs):
        return None
    return Call("aten::cat.out", (_operands(site), site.axis(site.option("Axis"), len(y.shape)), *_end(site)))


_FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "ADD": _arithmetic("add", 1),
        "CONCATENATION": _Form(_concatenation, _ANY_NUMBER),
        "DEQUANTIZE": _Form(_dequantize, _ONE),
        "DIV": _arithmetic("div"),
        "EQUAL": _relation("eq"),
        "EXPAND_DIMS": _Form(_view, _TWO),
        "GREATER": _relation("gt"),
        "GREATER_EQUAL": _relation("ge"),
        "LESS": _relation("lt"),
        "LESS_EQUAL": _relation("le"),
        "MUL": _arithmetic("mul"),
        "NOT_EQUAL": _relation("ne"),
        "QUANTIZE": _Form(_quantize, _ONE),
        "RELU": _clamp(0.0, None),
        "RELU6": _clamp(0.0, 6.0),
        "RELU_0_TO_1": _clamp(0.0, 1.0),
        "RELU_N1_TO_1": _clamp(-1.0, 1.0),
        "RESHAPE": _Form(_view, _ONE_OR_TWO),
        "SQUEEZE": _Form(_view, _ONE),
        "SUB": _arithmetic("sub", 1),
        "TRANSPOSE": _Form(_permute, _TWO),
    }
)
