"""Lowers TFLite operators to calls of ExecuTorch operators on the CPU, where one computes the same.

QUANTIZE differs for halves: TFLite rounds them away from zero, ExecuTorch's operator to even.

Other operators are in a program under names with `tflite::`, so that an error of the runtime names them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from deuteron.errors import counted
from deuteron.npu.neutron.tflite.operator_view import Site
from deuteron.runtime.pte_writer import CODES, Argument, Call, Ref
from deuteron.tflite.flat_model import FlatTensor
from deuteron.tflite.quantization import Quant

QUANTIZE = "quantized_decomposed::quantize_per_tensor.out"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor.out"

_SLICE = "aten::slice_copy.Tensor_out"

NAMESPACE = "tflite"

_ONE, _TWO, _THREE, _FOUR = (range(n, n + 1) for n in (1, 2, 3, 4))
_ONE_OR_TWO, _ANY_NUMBER = range(1, 3), range(1, 1 << 16)

_Maker = Callable[[Site], "Call | None"]


@dataclass(frozen=True, slots=True)
class _Form:
    """How an operator becomes a call.

    Attributes:
        call: the call; None where there is none for its types and options.
        inputs: the numbers of inputs that it may have.
        outputs: the same of outputs.
    """

    call: _Maker
    inputs: range
    outputs: range = _ONE


def call_of(site: Site) -> Call:
    """The call that computes what an operator does; one that only names it, where there is none.

    Raises:
        FormatError: the operator contradicts itself.
    """
    op, form, call = site.op, _FORMS.get(site.op.name), None
    if form is not None:
        site.check_form(form.inputs, form.outputs)
        call = form.call(site)
    if call is not None:
        return call
    inputs, outputs = [Ref(i) for i in op.inputs if i >= 0], [Ref(i) for i in op.outputs]
    # Several results are a list, as those of ExecuTorch's split.
    result = tuple(outputs) if len(outputs) > 1 else outputs[0]
    return Call(f"{NAMESPACE}::{op.title}.out", (*inputs, result, result))


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
    """A comparison in float, or of int8 values of one scale, whose order is that of the real numbers."""

    def call(site: Site) -> Call | None:
        (a, b), y = _tensors(site)
        is_stored = a.dtype == "INT8" and _same_type(a, b)
        if not (is_stored or a.dtype == b.dtype == "FLOAT32") or y.dtype != "BOOL":
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


def _reshape(site: Site) -> Call | None:
    if len(site.op.inputs) > 1 and (numbers := _numbers_of(site, 1)) is not None and numbers[0] != (0,):
        elements, others = math.prod(site.input_tensor(0).shape), -math.prod(numbers[0])
        shape = [elements // others if n == -1 and others > 0 else n for n in numbers[0]]
        _check_shape(site, site.output_tensor(), shape)  # but for (0,): no dimensions, as old exporters write it
    return _view(site)


def _permute(site: Site) -> Call | None:
    (x, order), y = _tensors(site)
    if order.data is None or order.dtype != "INT32":
        return None
    dims = tuple(dim + len(x.shape) if dim < 0 else dim for dim in site.integers(1, "order of dimensions"))
    if sorted(dims) != [*range(len(x.shape))]:
        raise site.malformed(f"{list(dims)} is no order of {len(x.shape)} dimensions")
    _check_shape(site, y, [x.shape[dim] for dim in dims])
    return Call("aten::permute_copy.out", (_operands(site)[0], dims, *_end(site)))


def _concatenation(site: Site) -> Call | None:
    inputs, y = _tensors(site)
    if _has_activation(site) or any((tensor.dtype, tensor.quant) != (y.dtype, y.quant) for tensor in inputs):
        return None
    return Call("aten::cat.out", (_operands(site), site.axis(site.option("Axis"), len(y.shape)), *_end(site)))


def _same_type(*tensors: FlatTensor) -> bool:
    """Return True if values move between tensors as they are stored."""
    return len({(tensor.dtype, tensor.quant) for tensor in tensors}) == 1


def _numbers_of(site: Site, *positions: int) -> list[tuple[int, ...]] | None:
    """The whole numbers of these inputs; None where one is no constant."""
    tensors = [site.input_tensor(position) for position in positions]
    if any(tensor.data is None or tensor.dtype not in ("INT32", "INT64") for tensor in tensors):
        return None
    return [site.integers(position, "operand") for position in positions]


def _check_shape(site: Site, y: FlatTensor, shape: Sequence[int]) -> None:
    """Check that an output is recorded with the shape that the operands give it."""
    if y.shape != tuple(shape):
        raise site.malformed(f"the operands give `{y.name}` the shape {list(shape)}, it is recorded as {list(y.shape)}")


def _part(site: Site, elements: Sequence[range]) -> Call | None:
    """These elements of each dimension of the first input, where one dimension alone is cut."""
    x, y = site.input_tensor(0), site.output_tensor()
    _check_shape(site, y, [len(part) for part in elements])
    cut = [dim for dim, (whole, part) in enumerate(zip(x.shape, y.shape, strict=True)) if whole != part] or [0]
    if not _same_type(x, y) or len(cut) > 1 or 0 in y.shape:
        return None
    (dim,) = cut
    part = elements[dim]
    return Call(_SLICE, (_operands(site)[0], dim, part[0], part[-1] + 1, part.step, *_end(site)))


def _slice(site: Site) -> Call | None:
    numbers, x = _numbers_of(site, 1, 2), site.input_tensor(0)
    if numbers is None:
        return None
    begins, sizes = numbers
    if not len(begins) == len(sizes) == len(x.shape):
        raise site.malformed(f"{len(begins)} begins and {len(sizes)} sizes for {counted(len(x.shape), 'dimension')}")
    ends = [whole if size == -1 else begin + size for begin, size, whole in zip(begins, sizes, x.shape, strict=True)]
    if any(not 0 <= begin <= end <= whole for begin, end, whole in zip(begins, ends, x.shape, strict=True)):
        raise site.malformed(f"{list(sizes)} elements from {list(begins)} on of {list(x.shape)}")
    return _part(site, [*map(range, begins, ends)])


def _strided_slice(site: Site) -> Call | None:
    numbers = _numbers_of(site, 1, 2, 3)
    x, masks = site.input_tensor(0), ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset")
    if numbers is None or any(map(site.option, masks)) or any(step < 1 for step in numbers[2]):
        return None
    counts = [len(operand) for operand in numbers]
    if len(set(counts)) > 1 or counts[0] > len(x.shape):
        raise site.malformed(f"{counts} begins, ends and steps for {counted(len(x.shape), 'dimension')}")
    from_start, to_end = site.option("BeginMask"), site.option("EndMask")
    # As in Python: bounds outside of the tensor are brought to its edge, and dimensions without bounds are whole.
    elements = [range(whole) for whole in x.shape]
    for dim, (begin, end, step) in enumerate(zip(*numbers, strict=True)):
        bounds = slice(None if from_start >> dim & 1 else begin, None if to_end >> dim & 1 else end, step)
        elements[dim] = elements[dim][bounds]
    return _part(site, elements)


def _chosen(site: Site, values: int, indices: int, axis: int) -> Call | None:
    """Slices of the input at `values`, by the numbers in the one at `indices`."""
    x, numbers, y = site.input_tensor(values), site.input_tensor(indices), site.output_tensor()
    if not _same_type(x, y) or numbers.dtype not in ("INT32", "INT64") or len(numbers.shape) != 1:
        return None
    dim, refs = site.axis(axis, len(x.shape)), _operands(site)
    if y.shape != (*x.shape[:dim], *numbers.shape, *x.shape[dim + 1 :]):
        raise site.malformed(f"{numbers.shape[0]} slices of {list(x.shape)} along dimension {dim} are {list(y.shape)}")
    return Call("aten::index_select.out", (refs[values], dim, refs[indices], *_end(site)))


def _gather(site: Site) -> Call | None:
    return None if site.option("BatchDims") else _chosen(site, 0, 1, site.option("Axis"))


def _pack(site: Site) -> Call | None:
    inputs, y = _tensors(site)
    dim = site.axis(site.option("Axis"), len(y.shape))
    one = (*y.shape[:dim], *y.shape[dim + 1 :])
    if y.shape[dim] != len(inputs) or any(x.shape != one for x in inputs):
        raise site.malformed(f"{counted(len(inputs), 'tensor')} along dimension {dim} of {list(y.shape)}")
    if not _same_type(*inputs, y):
        return None
    return Call("aten::stack.out", (_operands(site), dim, *_end(site)))


def _split(values: int, axis: int, sizes: int | None = None) -> _Maker:
    """Neighbouring parts of the input at `values`, along the dimension that the one at `axis` says.

    They are of the sizes in the input at `sizes`, and one of them may be the rest; without it, all have one size.
    """

    def call(site: Site) -> Call | None:
        positions = (axis,) if sizes is None else (axis, sizes)
        x, numbers = site.input_tensor(values), _numbers_of(site, *positions)
        parts = [site.model.tensors[i] for i in site.op.outputs]
        if numbers is None or not _same_type(x, *parts):
            return None
        if len(numbers[0]) != 1:
            raise site.malformed(f"{counted(len(numbers[0]), 'number')} as the dimension to split")
        dim = site.axis(numbers[0][0], len(x.shape))
        of_parts = _sizes(numbers[1], x.shape[dim]) if numbers[1:] else (x.shape[dim] // len(parts),) * len(parts)
        if min(of_parts, default=0) < 0 or len(of_parts) != len(parts) or sum(of_parts) != x.shape[dim]:
            raise site.malformed(
                f"{counted(len(parts), 'part')} of {list(of_parts)} along a dimension of {x.shape[dim]}"
            )
        for part, size in zip(parts, of_parts, strict=True):
            _check_shape(site, part, (*x.shape[:dim], size, *x.shape[dim + 1 :]))
        outputs = tuple(Ref(i) for i in site.op.outputs)
        return Call("aten::split_with_sizes_copy.out", (_operands(site)[values], of_parts, dim, outputs, outputs))

    return call


def _sizes(numbers: tuple[int, ...], whole: int) -> tuple[int, ...]:
    """Sizes of parts of `whole` elements, of which one may be -1: what the others leave."""
    if numbers.count(-1) != 1:
        return numbers
    left = whole - sum(numbers) - 1
    return tuple(left if number == -1 else number for number in numbers)


def _greatest(site: Site) -> Call | None:
    x, y = site.input_tensor(0), site.output_tensor()
    numbers = _numbers_of(site, 1)
    if not numbers or not numbers[0] or not _same_type(x, y) or x.dtype not in ("FLOAT32", "INT8"):
        return None  # of no dimensions the call would take all
    dims = tuple(sorted({site.axis(axis, len(x.shape)) for axis in numbers[0]}))
    keeps = bool(site.option("KeepDims"))
    _check_shape(site, y, [1 if dim in dims else n for dim, n in enumerate(x.shape) if keeps or dim not in dims])
    return Call("aten::amax.out", (_operands(site)[0], dims, keeps, *_end(site)))


def _broadcast(site: Site) -> Call | None:
    (x, _), y = _tensors(site)
    if (numbers := _numbers_of(site, 1)) is None:
        return None
    _check_shape(site, y, numbers[0])
    missing = len(y.shape) - len(x.shape)
    if missing < 0 or any(n not in (1, whole) for n, whole in zip(x.shape, y.shape[missing:], strict=True)):
        raise site.malformed(f"{list(x.shape)} is not broadcast to {list(y.shape)}")
    if not _same_type(x, y):
        return None
    return Call("aten::expand_copy.out", (_operands(site)[0], y.shape, False, *_end(site)))


_FORMS: Mapping[str, _Form] = MappingProxyType(
    {
        "ADD": _arithmetic("add", 1),
        "BROADCAST_TO": _Form(_broadcast, _TWO),
        "CONCATENATION": _Form(_concatenation, _ANY_NUMBER),
        "DEQUANTIZE": _Form(_dequantize, _ONE),
        "DIV": _arithmetic("div"),
        "EMBEDDING_LOOKUP": _Form(lambda site: _chosen(site, 1, 0, 0), _TWO),
        "EQUAL": _relation("eq"),
        "EXPAND_DIMS": _Form(_view, _TWO),
        "GATHER": _Form(_gather, _TWO),
        "GREATER": _relation("gt"),
        "GREATER_EQUAL": _relation("ge"),
        "LESS": _relation("lt"),
        "LESS_EQUAL": _relation("le"),
        "MUL": _arithmetic("mul"),
        "NOT_EQUAL": _relation("ne"),
        "PACK": _Form(_pack, _ANY_NUMBER),
        "QUANTIZE": _Form(_quantize, _ONE),
        "REDUCE_MAX": _Form(_greatest, _TWO),
        "RELU": _clamp(0.0, None),
        "RELU6": _clamp(0.0, 6.0),
        "RELU_0_TO_1": _clamp(0.0, 1.0),
        "RELU_N1_TO_1": _clamp(-1.0, 1.0),
        "RESHAPE": _Form(_reshape, _ONE_OR_TWO),
        "SLICE": _Form(_slice, _THREE),
        "SPLIT": _Form(_split(1, 0), _TWO, _ANY_NUMBER),
        "SPLIT_V": _Form(_split(0, 2, 1), _THREE, _ANY_NUMBER),
        "SQUEEZE": _Form(_view, _ONE),
        "STRIDED_SLICE": _Form(_strided_slice, _FOUR),
        "SUB": _arithmetic("sub", 1),
        "TRANSPOSE": _Form(_permute, _TWO),
    }
)
