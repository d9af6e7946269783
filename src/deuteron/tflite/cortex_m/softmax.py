"""SOFTMAX."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.tflite import BY_TFLITE_OPERATOR, SoftmaxParams
from deuteron.tflite.cortex_m.call import Constant, CpuCall
from deuteron.tflite.cortex_m.fixed_point import exponential_on_negative, factor, product
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.site import Site

_WHOLE_BITS = 5
"""Of the fixed-point differences."""

_MOST_ELEMENTS = 4095


def scaled_differences(site: Site, beta: float) -> tuple[tuple[int, int], int]:
    """Return the factor of differences to fixed point with five whole bits, and the largest difference that fits."""
    real = min(beta * float(site.scale(site.input())) * (1 << (31 - _WHOLE_BITS)), (1 << 31) - 1.0)
    multiplier, shift = factor(real)
    if shift < 0 or not multiplier:
        raise site.unsupported(
            f"the scale of `{site.input().name}` times beta is {float(site.scale(site.input())) * beta:g}; "
            "at least 2^-26 is allowed",
            "check the calibration data: the input's range is degenerate",
        )
    radius = ((1 << _WHOLE_BITS) - 1) * (1 << (31 - _WHOLE_BITS)) >> shift
    return (multiplier, shift), radius


def softmax(site: Site) -> tuple[CpuCall, ...]:
    """Lower SOFTMAX of int8."""
    x, out = site.input(), site.output()
    site.require(out, "INT8", "INT16")
    depth = x.shape[-1] if x.shape else 1
    if depth > _MOST_ELEMENTS:
        raise site.unsupported(f"a row has {depth} elements; at most {_MOST_ELEMENTS} are allowed", "split the rows")
    by, radius = scaled_differences(site, float(np.float32(site.op.options.get("Beta", 1.0))))
    entries = min(255, radius) + 1
    table = exponential_on_negative(product(-np.arange(entries), by), _WHOLE_BITS)
    nonzero = np.flatnonzero(table)
    table = table[: int(nonzero[-1]) + 1].astype(np.int32)
    params = SoftmaxParams(math.prod(x.shape) // depth, depth, len(table))
    inputs = (site.ref(), Constant(table))
    return (CpuCall(BY_TFLITE_OPERATOR["softmax"], inputs, (site.out(),), params),)


OPERATORS: Mapping[str, Lowering] = MappingProxyType({"SOFTMAX": Lowering(softmax, ("INT8",))})
