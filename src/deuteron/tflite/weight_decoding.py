"""Decodes the weights that TFLite Micro's TFLM_DECODE stores: look-up tables, Huffman codes, and pruned values.

The operator takes pairs of constants: codes, as a stream of bits from the highest of the first byte on, and a
description with a header of 16 bytes and a table behind it. So its outputs are constants.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, UnsupportedError
from deuteron.tflite.constants import DTYPES
from deuteron.tflite.flat_model import HINT_MALFORMED, FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.tensor_checks import check_tensor

DECODE = "TFLM_DECODE"
"""The code of the custom operator."""

_HEADER = 16
_VERSION = 1
_LUT, _HUFFMAN, _PRUNED = range(3)
_TYPES = ("BOOL", "FLOAT32", "INT8", "INT16", "INT32", "INT64")
_WIDE_TABLE = 1

Array = npt.NDArray[Any]


def with_decoded_weights(model: FlatModel) -> FlatModel:
    """Return the model with constants in the place of TFLM_DECODE.

    Raises:
        FormatError: the codes or their description are damaged.
        UnsupportedError: the form of the codes is unknown, or they are computed.
    """
    if all(op.title != DECODE for op in model.operators):
        return model
    tensors = [*model.tensors]
    for index, op in enumerate(model.operators):
        if op.title == DECODE:
            where = f"operator {op.number(index)} ({DECODE})"
            for output, tensor in _decoded(op, tensors, where):
                tensors[output] = tensor
    operators = tuple(op for op in model.operators if op.title != DECODE)
    return replace(model, tensors=tuple(tensors), operators=operators, is_file=False)


def _decoded(op: FlatOperator, tensors: list[FlatTensor], where: str) -> list[tuple[int, FlatTensor]]:
    if len(op.inputs) != 2 * len(op.outputs) or min((*op.inputs, *op.outputs), default=0) < 0:
        message = f"it has {len(op.inputs)} inputs for {len(op.outputs)} outputs; two for each are allowed"
        raise FormatError(message, where=where, hint=HINT_MALFORMED)
    results: list[tuple[int, FlatTensor]] = []
    for codes, description, output in zip(op.inputs[::2], op.inputs[1::2], op.outputs, strict=True):
        given = [tensors[codes], tensors[description]]
        for tensor in given:
            if tensor.data is None:
                raise UnsupportedError(
                    f"tensor `{tensor.name}` is computed at run time; codes and their description must be constants",
                    where=where,
                    hint="store the weights in the file",
                )
        result = tensors[output]
        if result.dtype not in _TYPES or min(result.shape, default=1) < 1:
            raise UnsupportedError(
                f"tensor `{result.name}` is {result.dtype} {list(result.shape)}; {', '.join(_TYPES)} with elements are "
                "allowed",
                where=where,
                hint="store the weights without compression",
            )
        check_tensor(result)
        try:
            values = _values(_Codes(given[0].data or b"", given[1].data or b"", result))
        except _DamagedError as error:
            raise FormatError(
                f"tensor `{given[0].name}` cannot be decoded: {error}", where=where, hint=HINT_MALFORMED
            ) from error
        results.append((output, replace(result, data=np.ascontiguousarray(values).tobytes())))
    return results


class _DamagedError(Exception):
    """Damage of codes, in words."""


@dataclass(frozen=True, slots=True)
class _Codes:
    """A stream of codes, its description, and the tensor that they become."""

    stream: bytes
    description: bytes
    result: FlatTensor

    @property
    def count(self) -> int:
        """Elements of the result."""
        return math.prod(self.result.shape)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Type of the result."""
        return DTYPES[self.result.dtype]

    @property
    def channels(self) -> Array:
        """The channel of each element: one for all, or one for each scale along the first or last axis."""
        quant = self.result.quant
        each = np.arange(self.count)
        count = len(quant.scales) if quant else 1
        if count == 1 or quant is None:
            return np.zeros_like(each)
        if quant.axis not in (0, len(self.result.shape) - 1):
            raise _DamagedError(f"its scales are along axis {quant.axis}; the first and the last are allowed")
        return each % count if quant.axis else each // (self.count // count)

    def table(self, dtype: npt.DTypeLike) -> Array:
        """The values behind the header."""
        kind = np.dtype(dtype)
        usable = (len(self.description) - _HEADER) // kind.itemsize * kind.itemsize
        return np.frombuffer(self.description, kind, usable // kind.itemsize, _HEADER)

    def bits(self, width: int) -> Array:
        """The stream as rows of `width` bits, one row for each element."""
        bits = np.unpackbits(np.frombuffer(self.stream, np.uint8))
        if len(bits) < self.count * width:
            raise _DamagedError(f"it has {len(bits)} bits for {self.count} codes of {width}")
        return bits[: self.count * width].reshape(self.count, width)


def _values(codes: _Codes) -> Array:
    header = codes.description[:_HEADER]
    if len(header) < _HEADER or header[1] != _VERSION or header[4] != _VERSION:
        raise _DamagedError(f"its description has no header of version {_VERSION}")
    form = _FORMS.get(header[0])
    if form is None:
        raise _DamagedError(f"it has the form {header[0]}; {min(_FORMS)} to {max(_FORMS)} are known")
    return form(codes)


def _looked_up(codes: _Codes) -> Array:
    """Entries of a table by their number, of 1 to 7 bits; each channel has other entries."""
    width, stride = codes.description[5] & 7, codes.description[6]
    if not width:
        raise _DamagedError("its codes have 0 bits; 1 to 7 are allowed")
    numbers = codes.bits(width) @ (1 << np.arange(width)[::-1])
    return _at(codes.table(codes.dtype), codes.channels * stride + numbers)


def _pruned(codes: _Codes) -> Array:
    """A bit for each element: the next value of the table, or the zero point."""
    quant = codes.result.quant
    points = quant.zero_points if quant else (0,)
    if any(points) and codes.result.dtype != "INT8":
        raise _DamagedError(f"it is pruned {codes.result.dtype} with zero points; INT8 may have them")
    present = codes.bits(1).ravel().astype(bool)
    values = np.array(points)[codes.channels].astype(codes.dtype)
    values[present] = _at(codes.table(codes.dtype), np.arange(int(present.sum())))
    return values


def _huffman(codes: _Codes) -> Array:
    """Symbols of a Huffman code by tables: each entry has a symbol, or the place of the next table and its bits."""
    wide = bool(codes.description[5] & _WIDE_TABLE)
    if codes.result.dtype not in (("INT8", "INT16") if wide else ("INT8",)):
        raise _DamagedError(f"its symbols are {codes.result.dtype}")
    table = codes.table(np.uint32 if wide else np.uint16).tolist()
    found, count_shift, most = (1 << 31, 27, (1 << 27) - 1) if wide else (1 << 15, 11, (1 << 11) - 1)
    first_bits, total = (codes.description[5] >> 4) + 1, 8 * len(codes.stream)
    if codes.count > total:
        raise _DamagedError(f"it has {total} bits for {codes.count} symbols of at least one")
    place = 0
    symbols: list[int] = []
    for _ in range(codes.count):
        bits, entry, at = first_bits, 0, 0
        while True:
            at += _taken(codes.stream, place, bits)
            place += bits
            if at >= len(table) or place > total + first_bits:
                raise _DamagedError(f"its symbol {len(symbols)} is in no table")
            entry = table[at]
            used = (entry >> count_shift) & 15
            if entry & found:
                break
            at, bits = at + (entry & most), used + 1
        place -= max(bits - used, 0)
        if place > total:
            raise _DamagedError(f"it ends at symbol {len(symbols)} of {codes.count}")
        symbols.append(entry & most)
    return np.array(symbols, np.int64).astype(codes.dtype)


def _taken(stream: bytes, place: int, bits: int) -> int:
    """The number of `bits` bits from a place of a stream on; 0 bits follow its end."""
    part = stream[place // 8 : (place + bits + 7) // 8].ljust((place % 8 + bits + 7) // 8, b"\0")
    return int.from_bytes(part, "big") >> (-(place + bits) % 8) & ((1 << bits) - 1)


def _at(table: Array, places: Array) -> Array:
    if places.size and int(places.max()) >= len(table):
        raise _DamagedError(f"it needs entry {int(places.max())} of a table of {len(table)}")
    return table[places]


_FORMS: Mapping[int, Callable[[_Codes], Array]] = MappingProxyType(
    {_LUT: _looked_up, _HUFFMAN: _huffman, _PRUNED: _pruned}
)
