"""Operators of float32 that quantized files have at their ends, in the order of the reference kernels."""

import math

from deuteron.operators.portable import BY_ATEN_OPERATOR, ClampParams, ConvolutionParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, FunctionF32Params
from deuteron.tflite.cortex_m.call import CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.operator_view import Site

LOGISTIC, TANH, EXP, SQRT, RSQRT, ABS, NEG, SQUARE, FLOOR, CEIL, ROUND, SIN, COS, LOG = range(14)
ELU, HARD_SWISH, GELU, GELU_BY_TANH, SIGN = range(14, 19)
"""Kinds of functions of one tensor."""


def function(site: Site, kind: int) -> tuple[CpuCall, ...]:
    """Lower a unary float32 function; `kind` says which one."""
    params = FunctionF32Params(math.prod(site.output().shape), kind)
    return (CpuCall(BY_TFLITE_OPERATOR["function_f32"], (site.ref(),), (site.out(),), params),)


def _clamped(site: Site, call: CpuCall) -> tuple[CpuCall, ...]:
    """A call whose output is the site's, and the fused activation function behind it."""
    low, high = site.activation()
    if low is None and high is None:
        return (call,)
    between = Temporary(site.output().shape, "float32")
    first = CpuCall(call.operator, call.inputs, (between,), call.params)
    return first, clamp(between, site.out(), low, high)


def clamp(source: Operand, target: FileTensor | Temporary, low: float | None, high: float | None) -> CpuCall:
    """Return a clamp of float32 numbers."""
    params = ClampParams(bits_of(-math.inf if low is None else low), bits_of(math.inf if high is None else high))
    return CpuCall(BY_ATEN_OPERATOR["clamp"], (source,), (target,), params)


def fully_connected(site: Site) -> tuple[CpuCall, ...]:
    """Lower FULLY_CONNECTED as a convolution of images of one pixel, whose sums have the same order."""
    weights = site.input(1)
    site.require(weights, "FLOAT32")
    out_features, depth = weights.shape
    rows = math.prod(site.input().shape) // depth
    has_bias = int(site.has_input(2))
    params = ConvolutionParams(
        input=(rows, depth, 1, 1), output=(rows, out_features, 1, 1), input_strides=(depth, 1, 1, 1),
        weight_strides=(depth, 1, 1, 1), output_strides=(out_features, 1, 1, 1), groups=1,
        kernel_h=1, kernel_w=1, stride_h=1, stride_w=1, pad_h=0, pad_w=0, dilation_h=1, dilation_w=1,
        transposed=0, has_bias=has_bias,
    )  # fmt: skip
    addend = (site.ref(2),) if has_bias else ()
    inputs = (site.ref(0), site.ref(1), *addend)
    return _clamped(site, CpuCall(BY_ATEN_OPERATOR["convolution"], inputs, (site.out(),), params))
