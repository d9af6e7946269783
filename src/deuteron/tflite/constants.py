"""Values of TFLite operators whose inputs are constants: shape computations and stored weights of other forms.

Only what exporters write between constants is here; everything else stays an operator.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from deuteron.tflite.operands import NotConstantError, Operands
from deuteron.tflite.shapes import strided_slices

Array = npt.NDArray[Any]

DTYPES: Mapping[str, np.dtype[np.generic]] = MappingProxyType(
    {
        "BOOL": np.dtype("?"),
        "INT8": np.dtype("<i1"),
        "UINT8": np.dtype("<u1"),
        "INT16": np.dtype("<i2"),
        "UINT16": np.dtype("<u2"),
        "INT32": np.dtype("<i4"),
        "UINT32": np.dtype("<u4"),
        "INT64": np.dtype("<i8"),
        "UINT64": np.dtype("<u8"),
        "FLOAT16": np.dtype("<f2"),
        "FLOAT32": np.dtype("<f4"),
        "FLOAT64": np.dtype("<f8"),
    }
)
"""Element types of the schema as numpy has them."""

LIMIT = 1 << 16
"""Elements up to which a computed constant is kept: shapes and small tables, not activations."""

Value = Callable[[Operands], "list[Array]"]


def values_of(operands: Operands, dtype: str) -> list[Array] | None:
    """The outputs of an operator whose inputs are constants; None where it is not one that is folded.

    Args:
        operands: shapes and values of the inputs.
        dtype: element type of the first output, by its schema name.
    """
    value = _VALUES.get(operands.op.name)
    if value is None or operands.op.options.get("FusedActivationFunction"):
        return None
    if operands.op.name != "SHAPE" and any(each is None for each in operands.values):
        return None
    if operands.op.name not in ("SHAPE", "DEQUANTIZE") and any(
        each is not None and each.dtype.kind not in "iub" and each.size > LIMIT for each in operands.values
    ):
        return None
    try:
        with np.errstate(all="ignore"):
            results = value(operands)
    except (NotConstantError, LookupError, OverflowError, TypeError, ValueError):
        return None  # operands that the operator does not take: it stays, and its lowering reports them
    wanted = DTYPES.get(dtype)
    return None if wanted is None else [result.astype(wanted) for result in results]


def _inputs(operands: Operands) -> list[Array]:
    values = [value for value in operands.values if value is not None]
    if len(values) != len(operands.values):
        raise NotConstantError
    return values


def _numpy(function: Callable[..., Array]) -> Value:
    """A numpy function of all inputs."""
    return lambda operands: [np.asarray(function(*_inputs(operands)))]


def _integers(function: Callable[..., Array]) -> Value:
    """Like `_numpy`, for integers alone: float operators are not folded, so that the kernel's rounding decides."""

    def value(operands: Operands) -> list[Array]:
        if any(each.dtype.kind != "i" for each in _inputs(operands)):
            raise NotConstantError
        return [np.asarray(function(*_inputs(operands)))]

    return value


def _quotient(a: Array, b: Array) -> Array:
    """C's quotient, towards zero."""
    if not np.all(b):
        raise NotConstantError
    exact = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -exact, exact)


def _floor_quotient(a: Array, b: Array) -> Array:
    """Python's quotient, towards minus infinity."""
    quotient = _quotient(a, b)
    return quotient - ((quotient * b != a) & ((a < 0) != (b < 0)))


def _floor_remainder(a: Array, b: Array) -> Array:
    """Python's remainder, with the divisor's sign."""
    return a - b * _floor_quotient(a, b)


def _selected(condition: Array, a: Array, b: Array) -> Array:
    """The elements of two tensors of integers that a condition chooses."""
    if a.dtype.kind != "i":
        raise NotConstantError
    return np.where(condition, a, b)


def _range(start: Array, limit: Array, step: Array) -> Array:
    numbers = range(int(start.item()), int(limit.item()), int(step.item()))
    return np.array(numbers, start.dtype)


def _broadcast_shapes(a: Array, b: Array) -> Array:
    return np.array(np.broadcast_shapes(tuple(a.tolist()), tuple(b.tolist())), a.dtype)


def _tiled(values: Array, counts: Array) -> Array:
    return np.tile(values, counts.tolist())


def _transposed(values: Array, order: Array) -> Array:
    return np.transpose(values, order.tolist())


def _reduced(function: Callable[..., Array]) -> Value:
    def value(operands: Operands) -> list[Array]:
        x, dims = _inputs(operands)
        axes = tuple(operands.axis(int(dim), x.ndim) for dim in dims.ravel())
        if x.dtype.kind != "i":
            raise NotConstantError
        return [np.asarray(function(x, axis=axes, keepdims=bool(operands.option("KeepDims"))))]

    return value


def _concatenated(operands: Operands) -> list[Array]:
    values = _inputs(operands)
    return [np.concatenate(values, operands.axis(operands.option("Axis"), values[0].ndim))]


def _packed(operands: Operands) -> list[Array]:
    values = _inputs(operands)
    return [np.stack(values, operands.axis(operands.option("Axis"), values[0].ndim + 1))]


def _unpacked(operands: Operands) -> list[Array]:
    (values,) = _inputs(operands)
    dim = operands.axis(operands.option("Axis"), values.ndim)
    return [np.take(values, i, dim) for i in range(values.shape[dim])]


def _strided_slice(operands: Operands) -> list[Array]:
    values = _inputs(operands)[0]
    index, shape = strided_slices(operands)
    return [values[tuple(index)].reshape(shape)]


def _slice(operands: Operands) -> list[Array]:
    values, begins, sizes = _inputs(operands)[0], operands.numbers(1), operands.numbers(2)
    ends = [None if size == -1 else first + size for first, size in zip(begins, sizes, strict=True)]
    return [values[tuple(slice(first, last) for first, last in zip(begins, ends, strict=True))]]


def _gather(operands: Operands) -> list[Array]:
    values, indices = _inputs(operands)
    dim = operands.axis(operands.option("Axis"), values.ndim)
    if operands.option("BatchDims") or np.any((indices < 0) | (indices >= values.shape[dim])):
        raise NotConstantError
    return [np.take(values, indices.astype(np.int64), dim)]


def _recorded(operands: Operands) -> list[Array]:
    """The same values in the shape of the output."""
    return [_inputs(operands)[0].reshape(operands.recorded[0])]


def _dequantized(operands: Operands) -> list[Array]:
    """Float16 weights as float32; integers keep their operator, which knows their scales."""
    (values,) = _inputs(operands)
    if values.dtype.kind != "f":
        raise NotConstantError
    return [values]


def _cast(operands: Operands) -> list[Array]:
    (values,) = _inputs(operands)
    return [np.trunc(values) if values.dtype.kind == "f" else values]


_VALUES: Mapping[str, Value] = MappingProxyType(
    {
        "ABS": _integers(np.abs),
        "ADD": _integers(np.add),
        "BROADCAST_ARGS": _numpy(_broadcast_shapes),
        "BROADCAST_TO": lambda operands: [np.broadcast_to(_inputs(operands)[0], operands.recorded[0])],
        "CAST": _cast,
        "CONCATENATION": _concatenated,
        "DEQUANTIZE": _dequantized,
        "DIV": _integers(_quotient),
        "DENSIFY": _numpy(np.copy),
        "EQUAL": _integers(np.equal),
        "EXPAND_DIMS": _recorded,
        "FILL": lambda operands: [np.full(operands.recorded[0], _inputs(operands)[1])],
        "FLOOR_DIV": _integers(_floor_quotient),
        "FLOOR_MOD": _integers(_floor_remainder),
        "GATHER": _gather,
        "GREATER": _integers(np.greater),
        "GREATER_EQUAL": _integers(np.greater_equal),
        "LESS": _integers(np.less),
        "LESS_EQUAL": _integers(np.less_equal),
        "LOGICAL_AND": _numpy(np.logical_and),
        "LOGICAL_NOT": _numpy(np.logical_not),
        "LOGICAL_OR": _numpy(np.logical_or),
        "MAXIMUM": _integers(np.maximum),
        "MINIMUM": _integers(np.minimum),
        "MUL": _integers(np.multiply),
        "NEG": _integers(np.negative),
        "NOT_EQUAL": _integers(np.not_equal),
        "PACK": _packed,
        "RANGE": _integers(_range),
        "RANK": lambda operands: [np.asarray(len(operands.shapes[0]))],
        "REDUCE_MAX": _reduced(np.max),
        "REDUCE_MIN": _reduced(np.min),
        "REDUCE_PROD": _reduced(np.prod),
        "RESHAPE": _recorded,
        "SELECT_V2": _numpy(_selected),
        "SHAPE": lambda operands: [np.asarray(operands.shapes[0])],
        "SLICE": _slice,
        "SQUEEZE": _recorded,
        "STRIDED_SLICE": _strided_slice,
        "SUB": _integers(np.subtract),
        "SUM": _reduced(np.sum),
        "TILE": _numpy(_tiled),
        "TRANSPOSE": _numpy(_transposed),
        "UNPACK": _unpacked,
        "ZEROS_LIKE": _numpy(np.zeros_like),
    }
)
"""Operator -> its outputs; operands are constants and shapes have been checked."""
