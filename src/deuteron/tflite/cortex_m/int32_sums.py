"""ADD_N and CUMSUM of int8: sums in int32, in steps of 2^-19 of the input's scale."""

import math

from deuteron.operators.tflite import BY_TFLITE_OPERATOR, RequantizeParams
from deuteron.tflite.cortex_m.call import CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import factor
from deuteron.tflite.cortex_m.operator_view import LIMITS, Site

_BITS = 19
_BY = (1 << 30, _BITS + 1)
"""The factor 2^19."""

_REQUANTIZE = BY_TFLITE_OPERATOR["requantize"]


def widened(site: Site, position: int) -> CpuCall:
    """Return the call that makes int32 numbers of an int8 operand: (x - zero point) * 2^19."""
    x = site.input(position)
    params = RequantizeParams(math.prod(x.shape), site.zero_point(x), *_BY, 0, *LIMITS["INT32"])
    return CpuCall(_REQUANTIZE, (site.ref(position),), (Temporary(x.shape, "int32"),), params)


def narrowed(site: Site, total: Operand, target: FileTensor) -> CpuCall:
    """Return the call that brings sums to the output's scale.

    The reference kernels begin a sum at minus the zero point, instead of 0; the result is off by it.
    """
    x, out = site.input(), site.output()
    site.require(out, "INT8")
    real = 2 * float(site.scale(x)) / ((1 << (_BITS + 1)) * float(site.scale(out)))
    if real >= 1:
        raise site.unsupported(
            f"the scale {site.scale(out):g} of `{out.name}` is too small for operands with the scale {site.scale(x):g}",
            "check the calibration data: the output's range does not fit its operands",
        )
    first = site.zero_point(x) << _BITS
    params = RequantizeParams(math.prod(out.shape), first, *factor(real), site.zero_point(out), *LIMITS["INT8"])
    return CpuCall(_REQUANTIZE, (total,), (target,), params)
