"""All operators of the firmware by their C functions, and the scratch memory that each call of them needs.

A program names such an operator as `firmware::SYMBOL.out`. The arguments are a list of tensors that it reads, the words
of its record, and a list of tensors that it writes, scratch memory first. ExecuTorch's runtime lacks these names.
"""

import math
from types import MappingProxyType

from deuteron.operators.cortex_m import (
    CPU_OPERATORS,
    DECOMPRESS_BYTES,
    HUFFMAN,
    CpuOperator,
    DecompressParams,
    QuantizedConvolutionParams,
    WinogradConvolutionParams,
    gather_bytes,
    winograd_bytes,
)
from deuteron.operators.custom_ops import ADDED
from deuteron.operators.kernel_params import KernelParams
from deuteron.operators.portable import ATEN_OPERATORS, MaxPoolParams
from deuteron.operators.recurrent import GruParams, LstmParams, RnnParams, scratch_shapes
from deuteron.operators.tflite import DEQUANTIZE, TFLITE_OPERATORS
from deuteron.operators.tflite_unquantized import DetectionParams

WORKSPACE_WORDS = 6
"""That a detection keeps of each box: its corners, its largest score and the class of that."""

NAMESPACE = "firmware"
"""That of the operators in programs."""

OPERATORS = (*CPU_OPERATORS, *ADDED, *ATEN_OPERATORS, *TFLITE_OPERATORS, DEQUANTIZE)

BY_SYMBOL = MappingProxyType({operator.symbol: operator for operator in OPERATORS})
"""The operators by their C function."""

_BY_NAME = MappingProxyType({f"{NAMESPACE}::{operator.symbol}.out": operator for operator in OPERATORS})


def name_of(operator: CpuOperator) -> str:
    """Return the operator's name in programs."""
    return f"{NAMESPACE}::{operator.symbol}.out"


def named(name: str) -> CpuOperator | None:
    """Return the operator with this name in programs; None where the name is another's."""
    return _BY_NAME.get(name)


def scratch(operator: CpuOperator, params: KernelParams) -> tuple[tuple[int, str], ...]:
    """Return number and type of the elements of each scratch tensor that a call writes, in the operator's order."""
    match params:
        case WinogradConvolutionParams():
            return ((winograd_bytes(params), "uint8"),)
        case QuantizedConvolutionParams() if operator.name in ("quantized_conv2d", "quantized_conv2d_s4"):
            return ((gather_bytes(params), "uint8"),)
        case MaxPoolParams() if operator.scratch:
            return ((math.prod(params.output), "int64"),)
        case DecompressParams():
            return ((DECOMPRESS_BYTES if params.form == HUFFMAN else 0, "uint8"),)
        case LstmParams() | GruParams() | RnnParams():
            shapes = scratch_shapes(params)[: len(operator.scratch)]  # TFLite's LSTM has no results besides the output
            return tuple((math.prod(shape), "int16") for shape in shapes)
        case DetectionParams():
            return ((params.boxes * WORKSPACE_WORDS, "float32"),)
        case _:
            return ((0, "uint8"),) * len(operator.scratch)
