"""Converts between arrays and the bytes of a bundle's inputs and outputs."""

import math

import numpy as np
import numpy.typing as npt

from deuteron.board.bundle import ElementType, Value
from deuteron.errors import InputError

Array = npt.NDArray[np.generic]

DTYPES = {
    ElementType.U8: np.dtype("uint8"),
    ElementType.S8: np.dtype("int8"),
    ElementType.S16: np.dtype("<i2"),
    ElementType.S32: np.dtype("<i4"),
    ElementType.S64: np.dtype("<i8"),
    ElementType.F32: np.dtype("<f4"),
    ElementType.F64: np.dtype("<f8"),
    ElementType.BOOL: np.dtype("bool"),
    ElementType.U32: np.dtype("<u4"),
    ElementType.U64: np.dtype("<u8"),
}
"""Element types of values, little-endian as on devices."""


def dtype_name(value: Value) -> str:
    """Return numpy's name for the type of a value's elements."""
    return DTYPES[value.type].name


def to_bytes(value: Value, array: Array) -> bytes:
    """Return an array's bytes in the memory order of the value; InputError if it does not fit."""
    dtype = DTYPES[value.type]
    if array.shape != value.shape or array.dtype != dtype:
        message = f"{value.note} is {dtype.name} {value.shape}, an array {array.dtype.name} {array.shape} was given"
        raise InputError(message, hint="give an array of that type and shape")
    return array.transpose(value.dim_order).tobytes()


def from_bytes(value: Value, data: bytes) -> Array:
    """Return the bytes of a value as an array in its logical shape; InputError for a wrong size."""
    if len(data) != math.prod(value.shape) * DTYPES[value.type].itemsize:
        raise InputError(f"{value.note} has {value.bytes} bytes, {len(data)} were given", hint="give all of its bytes")
    stored = np.frombuffer(data, DTYPES[value.type]).reshape([value.shape[d] for d in value.dim_order])
    return stored.transpose(np.argsort(np.array(value.dim_order, int))).copy()
