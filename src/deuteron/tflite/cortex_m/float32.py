"""Operators of float32 that quantised files have at their ends, in the order of the reference kernels."""

import math

from deuteron.operators.cortex_m import CpuOperator
from deuteron.operators.portable import BY_ATEN_OPERATOR, AddParams, BinaryParams, ClampParams
from deuteron.tflite.cortex_m.call import CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.site import Site


def _clamped(site: Site, call: CpuCall) -> tuple[CpuCall, ...]:
    """A call whose output is the site's, and the fused activation function behind it."""
    low, high = site.activation()
    if low is None and high is None:
        return (call,)
    between = Temporary(site.output().shape, "float32")
    first = CpuCall(call.operator, call.inputs, (between,), call.params)
    return first, clamp(between, site.out(), low, high)


def clamp(source: Operand, target: FileTensor, low: float | None, high: float | None) -> CpuCall:
    """Return a clamp of float32 numbers."""
    params = ClampParams(bits_of(-math.inf if low is None else low), bits_of(math.inf if high is None else high))
    return CpuCall(BY_ATEN_OPERATOR["clamp"], (source,), (target,), params)


def add(site: Site) -> tuple[CpuCall, ...]:
    """Lower ADD."""
    return _sum(site, 1.0)


def subtract(site: Site) -> tuple[CpuCall, ...]:
    """Lower SUB: a product with -1 is exact."""
    return _sum(site, -1.0)


def _sum(site: Site, alpha: float) -> tuple[CpuCall, ...]:
    from deuteron.tflite.cortex_m.arithmetic import broadcast_dims

    dims, (a, b) = broadcast_dims(site, site.input(0).shape, site.input(1).shape)
    params = AddParams(dims, a, b, bits_of(alpha))
    return _clamped(site, CpuCall(BY_ATEN_OPERATOR["add"], (site.ref(0), site.ref(1)), (site.out(),), params))


def multiply(site: Site) -> tuple[CpuCall, ...]:
    """Lower MUL."""
    return _product(site, BY_ATEN_OPERATOR["mul"])


def divide(site: Site) -> tuple[CpuCall, ...]:
    """Lower DIV."""
    return _product(site, BY_ATEN_OPERATOR["div"])


def _product(site: Site, operator: CpuOperator) -> tuple[CpuCall, ...]:
    from deuteron.tflite.cortex_m.arithmetic import broadcast_dims

    dims, (a, b) = broadcast_dims(site, site.input(0).shape, site.input(1).shape)
    return _clamped(site, CpuCall(operator, (site.ref(0), site.ref(1)), (site.out(),), BinaryParams(dims, a, b)))
