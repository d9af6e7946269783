"""QUANTIZE and DEQUANTIZE, also between quantized types."""

import math
from collections.abc import Mapping
from types import MappingProxyType

from deuteron.operators.tflite import (
    BY_TFLITE_OPERATOR,
    DEQUANTIZE,
    CastParams,
    DequantizeParams,
    QuantizeParams,
    RequantizeParams,
)
from deuteron.tflite.cortex_m.call import CpuCall
from deuteron.tflite.cortex_m.fixed_point import bits_of, factor, product
from deuteron.tflite.cortex_m.lookup import STORED, table_call
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import LIMITS, NUMPY, Site

_CAST = tuple(dtype for dtype in NUMPY if dtype != "UINT64")


def quantize(site: Site) -> tuple[CpuCall, ...]:
    """Lower QUANTIZE: of float32, or to another scale or type."""
    x, out = site.input(), site.output()
    elements = math.prod(out.shape)
    if x.dtype == "FLOAT32":
        site.require(out, "INT8", "UINT8", "INT16")
        params = QuantizeParams(elements, bits_of(float(site.scale(out))), site.zero_point(out, symmetric=False))
        return (CpuCall(BY_TFLITE_OPERATOR["quantize"], (site.ref(),), (site.out(),), params),)
    site.require(out, "INT8", "UINT8", "INT16", "INT32")
    multiplier, shift = factor(float(site.scale(x)) / float(site.scale(out)))
    if (x.dtype, out.dtype) == ("INT8", "INT8"):
        values = product(STORED - site.zero_point(x), (multiplier, shift)) + site.zero_point(out)
        return table_call(site, values)
    symmetric = (x.dtype, out.dtype) == ("INT16", "INT16")
    zero_points = [site.zero_point(tensor, symmetric=symmetric) for tensor in (x, out)]
    requantized = RequantizeParams(elements, zero_points[0], multiplier, shift, zero_points[1], *LIMITS[out.dtype])
    return (CpuCall(BY_TFLITE_OPERATOR["requantize"], (site.ref(),), (site.out(),), requantized),)


def dequantize(site: Site) -> tuple[CpuCall, ...]:
    """Lower DEQUANTIZE."""
    x = site.input()
    site.require(site.output(), "FLOAT32")
    params = DequantizeParams(bits_of(float(site.scale(x))), site.zero_point(x, symmetric=False))
    return (CpuCall(DEQUANTIZE, (site.ref(),), (site.out(),), params),)


def cast(site: Site) -> tuple[CpuCall, ...]:
    """Lower CAST."""
    site.require(site.output(), *_CAST)
    params = CastParams(math.prod(site.output().shape))
    return (CpuCall(BY_TFLITE_OPERATOR["cast"], (site.ref(),), (site.out(),), params),)


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "QUANTIZE": Lowering(quantize, ("FLOAT32", "INT8", "UINT8", "INT16", "INT32")),
        "CAST": Lowering(cast, _CAST),
        "DEQUANTIZE": Lowering(dequantize, ("INT8", "UINT8", "INT16")),
    }
)
