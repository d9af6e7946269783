"""Lowers quantize and dequantize of ExecuTorch's runtime and of its Cortex-M backend."""

import math
import struct
from collections.abc import Sequence

from deuteron.board.operators.layout import need_same_layout
from deuteron.board.operators.lowering import Argument, OperatorCall, RefusedError, Tensor, refuse_arguments

_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1)}
"""Ranges of quantized types."""


def quantize(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, scale, zero point, minimum, maximum, dtype, output twice."""
    match args:
        case [Tensor() as x, float(scale), int(zero), int(low), int(high), int(), Tensor() as y, _]:
            _need_float(x, "reads")
            least, most = _need_quantized(y, zero, "writes")
            if not least <= low <= high <= most:
                raise RefusedError(f"clamps to {low}..{high}, which is not within {y.spec.dtype}'s {least}..{most}")
            need_same_layout(x, y)
            words = (float_bits(scale), _word(zero), _word(low), _word(high))
            return OperatorCall("dtn_op_quantize_per_tensor", (x,), (y,), words)
        case _:
            raise refuse_arguments()


def dequantize(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, scale, zero point, minimum, maximum, dtype, optional dtype of the output, output twice."""
    match args:
        case [Tensor() as x, float(scale), int(zero), int(), int(), int(), *_, Tensor() as y, _] if len(args) in (8, 9):
            _need_quantized(x, zero, "reads")
            _need_float(y, "writes")
            need_same_layout(x, y)
            return OperatorCall("dtn_op_dequantize_per_tensor", (x,), (y,), (float_bits(scale), _word(zero)))
        case _:
            raise refuse_arguments()


def float_bits(scale: float) -> int:
    """Return the bits of the float32 nearest to a scale."""
    try:
        nearest, bits = struct.unpack("<f", struct.pack("<f", scale))[0], struct.pack("<f", scale)
    except OverflowError:
        nearest, bits = math.inf, b""
    if not 0 < nearest < math.inf:
        raise RefusedError(f"has the scale {scale}, which is not a positive float32 number")
    return int.from_bytes(bits, "little")


def _need_float(tensor: Tensor, does: str) -> None:
    if tensor.spec.dtype != "float32":
        raise RefusedError(f"{does} {tensor.spec.dtype} , firmware supports float32 only")


def _need_quantized(tensor: Tensor, zero_point: int, does: str) -> tuple[int, int]:
    """Return the range of the tensor's type."""
    if tensor.spec.dtype not in _RANGES:
        raise RefusedError(f"{does} {tensor.spec.dtype} , firmware supports {', '.join(_RANGES)} only")
    least, most = _RANGES[tensor.spec.dtype]
    if not least <= zero_point <= most:
        raise RefusedError(f"has the zero point {zero_point}, outside {tensor.spec.dtype}'s {least}..{most}")
    return least, most


def _word(number: int) -> int:
    """Return a signed number as a word."""
    return number & 0xFFFFFFFF
