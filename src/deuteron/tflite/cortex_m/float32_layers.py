"""Convolutions and pools of float32, whose sums have the reference kernels' order."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.tflite import BY_TFLITE_OPERATOR
from deuteron.operators.tflite_unquantized import ConvolutionF32Params, PoolF32Params
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Operand
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.same_padding import padding_before
from deuteron.tflite.cortex_m.unquantized import real_limits

MEAN, LARGEST, ROOT_OF_MEAN_SQUARE = range(3)
"""Kinds of pools."""


def convolution(site: Site) -> tuple[CpuCall, ...]:
    """Lower CONV_2D."""
    seen = site.input(1).shape[3]
    return _layer(site, site.ref(1), site.input(1).shape[1:3], site.input().shape[3] // seen)


def depthwise(site: Site) -> tuple[CpuCall, ...]:
    """Lower DEPTHWISE_CONV_2D: each input channel is a group."""
    weights = np.ascontiguousarray(site.constant(1)[0].transpose(2, 0, 1)[..., np.newaxis])
    return _layer(site, Constant(weights), site.input(1).shape[1:3], site.input().shape[3])


def transposed(site: Site) -> tuple[CpuCall, ...]:
    """Lower TRANSPOSE_CONV, whose inputs are the output's shape, weights, the map and a bias."""
    return _layer(site, site.ref(1), site.input(1).shape[1:3], 1)


def _layer(site: Site, weights: Operand, kernel: tuple[int, ...], groups: int) -> tuple[CpuCall, ...]:
    is_transposed = site.op.name == "TRANSPOSE_CONV"
    source, addend = (2, 3) if is_transposed else (0, 2)
    site.require(site.input(1), "FLOAT32")
    batches, in_h, in_w, in_c = site.input(source).shape
    _, out_h, out_w, out_c = site.output().shape
    strides = [site.option(f"Stride{letter}", 1) for letter in "HW"]
    dilations = [1, 1] if is_transposed else [site.option(f"Dilation{letter}Factor", 1) for letter in "HW"]
    # A transposed convolution has the padding of the one that goes from its output to its input.
    small, large = ((in_h, in_w), (out_h, out_w)) if is_transposed else ((out_h, out_w), (in_h, in_w))
    padding = site.option("Padding")
    pads = [padding_before(large[i], small[i], kernel[i], strides[i], dilations[i], padding) for i in range(2)]
    has_bias = site.has_input(addend)
    params = ConvolutionF32Params(
        batches, in_h, in_w, in_c, out_h, out_w, out_c, groups, kernel[0], kernel[1], strides[0], strides[1],
        pads[0], pads[1], dilations[0], dilations[1], int(is_transposed), *real_limits(site), int(has_bias),
    )  # fmt: skip
    inputs = (site.ref(source), weights, *((site.ref(addend),) if has_bias else ()))
    return (CpuCall(BY_TFLITE_OPERATOR["convolution_f32"], inputs, (site.out(),), params),)


def pool(kind: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    """Return the lowering of a pool."""

    def lower(site: Site) -> tuple[CpuCall, ...]:
        batches, in_h, in_w, channels = site.input().shape
        _, out_h, out_w, _ = site.output().shape
        kernel = site.option("FilterHeight", 1), site.option("FilterWidth", 1)
        stride = site.option("StrideH", 1), site.option("StrideW", 1)
        padding = site.option("Padding")
        pads = (
            padding_before(in_h, out_h, kernel[0], stride[0], 1, padding),
            padding_before(in_w, out_w, kernel[1], stride[1], 1, padding),
        )
        params = PoolF32Params(
            batches, in_h, in_w, channels, out_h, out_w, *kernel, *stride, *pads, kind, *real_limits(site)
        )
        return (CpuCall(BY_TFLITE_OPERATOR["pool_f32"], (site.ref(),), (site.out(),), params),)

    return lower


OPERATORS: Mapping[str, Lowering] = MappingProxyType({"L2_POOL_2D": Lowering(pool(ROOT_OF_MEAN_SQUARE), ("FLOAT32",))})
