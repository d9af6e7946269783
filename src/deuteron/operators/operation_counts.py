"""Counts the work of a call of a C operator, for estimates of its instructions (`deuteron.arch.cores`)."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from deuteron.arch.cores import Work
from deuteron.operators import tflite
from deuteron.operators.cortex_m import (
    DECOMPRESS_BYTES,
    HUFFMAN,
    PRODUCTS,
    TILE,
    DecompressParams,
    QuantizedConvolutionParams,
    QuantizedLinearParams,
    RegionCopyParams,
    WinogradConvolutionParams,
    winograd_fours,
    winograd_tiles,
)
from deuteron.operators.kernel_params import AveragePoolParams, CopyParams, KernelParams, MaxPoolParams
from deuteron.operators.recurrent import GruParams, LstmParams, LstmS16Params, RnnParams

DEPTHWISE = "dtn_cm_quantized_depthwise_conv2d"
PACKED_DEPTHWISE = "dtn_cm_quantized_depthwise_conv2d_s4"
TRANSPOSED = "dtn_cm_quantized_transpose_conv2d"

INPUTS_PER_KERNEL = 8
"""The inputs whose transform takes as much as that of the 3x3 weights of an input channel and an output channel."""

WORKS: Mapping[str, Work] = MappingProxyType(
    {
        "dtn_cm_copy": Work.MOVE,
        "dtn_cm_quantized_linear": Work.LINEAR,
        "dtn_cm_quantized_avg_pool2d": Work.AVERAGE,
        "dtn_cm_quantized_max_pool2d": Work.LARGEST,
        "dtn_cm_quantized_activation": Work.TABLE,
        "dtn_cm_minimum": Work.SUM,
        "dtn_cm_maximum": Work.SUM,
        "dtn_cm_softmax": Work.SOFTMAX,
        "dtn_cm_pad": Work.MOVE,
        "dtn_cm_resize_bilinear": Work.RESIZE,
        "dtn_cm_quantized_add": Work.SUM,
        "dtn_cm_quantized_mul": Work.PRODUCT,
        "dtn_cm_quantized_div": Work.PRODUCT,
        "dtn_op_quantize_per_tensor": Work.QUANTIZE,
        "dtn_op_dequantize_per_tensor": Work.DEQUANTIZE,
    }
)
"""The kind of work of each operator whose instructions per element are counted."""


def work_of(function: str, record: KernelParams, elements: int) -> tuple[Work, int, int]:
    """Return what a call does, how many elements it writes, and how many terms they have.

    Args:
        function: the operator in C.
        record: its parameters.
        elements: of the output, one byte each.
    """
    match record:
        case WinogradConvolutionParams():
            tiles, inputs = winograd_tiles(record), 4 * winograd_fours(record.in_c)
            passes = -(-record.out_c // record.channels) if record.channels and not record.keeps_tiles else 1
            kernels = inputs * record.out_c if record.channels else 0
            elements = tiles * TILE**2 * (passes * inputs + 2 * record.out_c) + INPUTS_PER_KERNEL * kernels
            return Work.WINOGRAD, elements, tiles * PRODUCTS * inputs * record.out_c
        case QuantizedConvolutionParams():
            taps = record.kernel_h * record.kernel_w
            if function == TRANSPOSED:
                each = taps * record.in_c * record.out_c
                return Work.CONVOLUTION, elements, record.in_h * record.in_w * each
            if function in (DEPTHWISE, PACKED_DEPTHWISE):
                plain = (record.kernel_w, record.stride_w, record.dilation_w) == (3, 1, 1)
                return (Work.DEPTHWISE if plain else Work.APART), elements, elements * taps
            depth = taps * (record.in_c // record.groups)
            points = (taps, record.pad_h, record.pad_w) == (1, 0, 0)
            return (Work.POINTS if points else Work.CONVOLUTION), elements, elements * depth
        case QuantizedLinearParams() | tflite.FullyConnectedParams():
            return Work.LINEAR, elements, elements * record.in_features
        case LstmParams() | GruParams() | RnnParams():
            gates = 3 if isinstance(record, GruParams) else 1 if isinstance(record, RnnParams) else 4
            work = Work.INT16_LAYER if isinstance(record, LstmS16Params) else Work.LINEAR
            return work, gates * elements, gates * elements * (record.in_features + record.units)
        case tflite.ConvolutionParams():
            depth = record.kernel_h * record.kernel_w * (record.in_c // record.groups)
            return Work.INT16_LAYER, elements, elements * depth
        case DecompressParams():
            is_code = record.form == HUFFMAN
            return Work.DECODE, elements if is_code else elements // 3, DECOMPRESS_BYTES * is_code
        case AveragePoolParams() | MaxPoolParams():
            return WORKS.get(function, Work.UNKNOWN), elements, elements * record.kernel_h * record.kernel_w
        case CopyParams() | RegionCopyParams():
            return Work.MOVE, math.prod(record.dims), 0
        case _:
            return WORKS.get(function, Work.UNKNOWN), elements, 0
