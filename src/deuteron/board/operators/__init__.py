"""The CPU operators that firmware has: which arguments each takes, and the words that its C function gets.

`firmware/include/deuteron/operators.h` says what each computes.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from deuteron.runtime.program import TensorValue, Value

TRANSPOSE = "dtn_op_transpose"
"""From [batches, rows, columns], its parameters, to [batches, columns, rows]."""

_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1)}
"""Quantised types."""


class RefusedError(Exception):
    """Why a call cannot run in firmware: the second half of a sentence that starts with the operator."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """A call of a C function: indices of its arguments that are tensors, inputs and outputs, and its parameters."""

    function: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: tuple[int, ...]


def lower(operator: str, args: Sequence[Value]) -> OperatorCall:
    """The C call for an operator of a program.

    Raises:
        RefusedError: when firmware does not have it, or not for these arguments.
    """
    if operator not in _LOWERINGS:
        raise RefusedError("is not one that firmware has")
    return _LOWERINGS[operator](args)


def supported() -> tuple[str, ...]:
    """The operators of programs that firmware has, as PyTorch spells them."""
    return tuple(name.removesuffix(".out") for name in _LOWERINGS)


def _quantize(args: Sequence[Value]) -> OperatorCall:
    """Arguments: input, scale, zero point, lowest, highest, dtype, output twice."""
    match args:
        case [TensorValue() as x, float(scale), int(zero), int(low), int(high), int(), TensorValue() as y, _]:
            _need_float(x, "reads")
            least, most = _need_quantised(y, zero, "writes")
            if not least <= low <= high <= most:
                raise RefusedError(f"clamps to {low}..{high}, not to a part of {y.spec.dtype}'s {least}..{most}")
            _need_same_layout(x, y)
            return OperatorCall(
                "dtn_op_quantize_per_tensor", (0,), (6,), (_float_bits(scale), _word(zero), _word(low), _word(high))
            )
        case _:
            raise RefusedError(_ARGUMENTS)


def _dequantize(args: Sequence[Value]) -> OperatorCall:
    """Arguments: input, scale, zero point, lowest, highest, dtype, dtype of the output, output twice."""
    match args:
        case [TensorValue() as x, float(scale), int(zero), int(), int(), int(), _, TensorValue() as y, _]:
            _need_quantised(x, zero, "reads")
            _need_float(y, "writes")
            _need_same_layout(x, y)
            return OperatorCall("dtn_op_dequantize_per_tensor", (0,), (7,), (_float_bits(scale), _word(zero)))
        case _:
            raise RefusedError(_ARGUMENTS)


_ARGUMENTS = "has arguments that this version of Deuteron does not know"

_LOWERINGS: Mapping[str, Callable[[Sequence[Value]], OperatorCall]] = {
    "quantized_decomposed::quantize_per_tensor.out": _quantize,
    "quantized_decomposed::dequantize_per_tensor.out": _dequantize,
}


def _need_float(tensor: TensorValue, does: str) -> None:
    if tensor.spec.dtype != "float32":
        raise RefusedError(f"{does} {tensor.spec.dtype} where firmware takes float32 only")


def _need_quantised(tensor: TensorValue, zero_point: int, does: str) -> tuple[int, int]:
    """The range of the tensor's type."""
    if tensor.spec.dtype not in _RANGES:
        raise RefusedError(f"{does} {tensor.spec.dtype} where firmware takes {', '.join(_RANGES)} only")
    least, most = _RANGES[tensor.spec.dtype]
    if not least <= zero_point <= most:
        raise RefusedError(f"has the zero point {zero_point}, outside {tensor.spec.dtype}'s {least}..{most}")
    return least, most


def _need_same_layout(x: TensorValue, y: TensorValue) -> None:
    if (x.spec.shape, x.spec.dim_order) != (y.spec.shape, y.spec.dim_order):
        raise RefusedError(
            f"reads a tensor of shape {x.spec.shape} in order {x.spec.dim_order} and writes one of shape "
            f"{y.spec.shape} in order {y.spec.dim_order}, which must be the same"
        )


def _float_bits(scale: float) -> int:
    """The bits of the float32 nearest to a scale."""
    try:
        nearest, bits = struct.unpack("<f", struct.pack("<f", scale))[0], struct.pack("<f", scale)
    except OverflowError:
        nearest, bits = math.inf, b""
    if not 0 < nearest < math.inf:
        raise RefusedError(f"has the scale {scale}, which is no positive float32 number")
    return int.from_bytes(bits, "little")


def _word(number: int) -> int:
    """A signed number as a word."""
    return number & 0xFFFFFFFF
