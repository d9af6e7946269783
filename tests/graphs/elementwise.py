"""Operators that work element by element, and along rows."""

import numpy as np
from tests.graphs.builder import MAX_RANK, Builder

from deuteron import numerics
from deuteron.npu.neutron.ir.ops import (
    Add,
    Function,
    LeakyRelu,
    Maximum,
    Minimum,
    Mul,
    Prelu,
    Quantize,
    Softmax,
    Sub,
    Unary,
)
from deuteron.npu.neutron.ir.types import Tensor
from deuteron.tflite.quantization import Quant

_LARGEST_SCALE = 2.0**10
_FIXED = {
    Function.LOGISTIC: Quant((1 / 256,), (-128,)),
    Function.TANH: Quant((1 / 128,), (0,)),
}
"""The only result that LiteRT's kernels of these functions have."""


def _operands(build: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """`x` and another value of its shape, `x` itself, or a constant that broadcasts, in any order."""
    alike = [v for v in build.values if build.tensor(v).type.shape == x.type.shape]
    if alike and build.chance(0.5):
        other = build.tensor(build.pick(alike))
    else:
        shape = tuple(1 if build.chance(0.4) else dim for dim in x.type.shape)
        longer = len(shape) < MAX_RANK and build.chance(0.1)
        other = build.constant((1, *shape) if longer else shape[build.between(0, len(shape)) :], build.quant())
    return (x, other) if build.chance(0.7) else (other, x)


def add(build: Builder, x: Tensor) -> None:
    """A sum or a difference."""
    a, b = _operands(build, x)
    scale = max(a.type.q.scale, b.type.q.scale) * build.pick((1.0, 0.5, build.factor(0.5, 3)))
    out = build.quant(scale)
    outputs, origin = build.fields()
    kind = build.pick((Add, Sub))
    build.emit(kind(inputs=(a.name, b.name), outputs=outputs, origin=origin, clamp=build.clamp(out)), out)


def mul(build: Builder, x: Tensor) -> None:
    """A product."""
    a, b = _operands(build, x)
    out = build.quant(a.type.q.scale * b.type.q.scale * build.factor(20, 120))
    outputs, origin = build.fields()
    build.emit(Mul(inputs=(a.name, b.name), outputs=outputs, origin=origin, clamp=build.clamp(out)), out)


def extremum(build: Builder, x: Tensor) -> None:
    """A maximum or a minimum, often of equally quantized values, as ExecuTorch's clamps are and TFLite's must be."""
    a, b = _operands(build, x)
    if (build.stock or build.chance(0.6)) and a.type.quant != b.type.quant:
        a, b = (build.constant(v.type.shape, x.type.q) if v is not x else x for v in (a, b))
    keeps = build.stock or build.chance(0.7)
    out = a.type.q if keeps else build.quant(max(a.type.q.scale, b.type.q.scale) * build.factor(0.3, 2))
    outputs, origin = build.fields()
    kind = build.pick((Maximum, Minimum))
    build.emit(kind(inputs=(a.name, b.name), outputs=outputs, origin=origin), out)


def prelu(build: Builder, x: Tensor) -> None:
    """A prelu, its slopes per channel more often than not."""
    shape = x.type.shape[-1:] if build.chance(0.7) else tuple(d if build.chance(0.5) else 1 for d in x.type.shape)
    alpha = build.constant(shape, build.quant())
    out = build.quant(x.type.q.scale * build.factor(0.3, 3))
    outputs, origin = build.fields()
    build.emit(Prelu(inputs=(x.name, alpha.name), outputs=outputs, origin=origin), out)


def neutral(build: Builder, x: Tensor) -> None:
    """A sum with zero or a product with one, which passes should see through."""
    zero = build.between(-128, 126)
    kind = build.pick((Add, Sub, Mul))
    quant = Quant((1.0,), (zero,)) if kind is Mul else build.quant()
    value = quant.zero_point + 1 if kind is Mul else quant.zero_point
    other = build.constant((1,) * len(x.type.shape), quant, np.array(value))
    outputs, origin = build.fields()
    build.emit(kind(inputs=(x.name, other.name), outputs=outputs, origin=origin), x.type.q)


def softmax(build: Builder, x: Tensor) -> None:
    """A softmax, mostly with the result that LiteRT's kernel has."""
    outputs, origin = build.fields()
    quant = Quant((1 / 256,), (-128,)) if build.chance(0.7) else build.quant(build.factor(0.001, 0.01))
    beta = build.pick((1.0, 1.0, 0.5))
    build.emit(Softmax(inputs=(x.name,), outputs=outputs, origin=origin, beta=beta), quant)


def quantize(build: Builder, x: Tensor) -> None:
    """The same values under another quantization, or the same."""
    outputs, origin = build.fields()
    quant = build.pick((x.type.q, build.quant(x.type.q.scale * build.factor(0.3, 3))))
    build.emit(Quantize(inputs=(x.name,), outputs=outputs, origin=origin), quant)


def activation(build: Builder, x: Tensor) -> None:
    """A function that cuts off, mostly without a change of the quantization."""
    function = build.pick((Function.RELU, Function.RELU, Function.RELU6, Function.RELU_0_TO_1, Function.RELU_N1_TO_1))
    outputs, origin = build.fields()
    quant = x.type.q if build.chance(0.7) else build.quant(x.type.q.scale * build.factor(0.3, 1.5))
    build.emit(Unary(inputs=(x.name,), outputs=outputs, origin=origin, function=function), quant)


def unary(build: Builder, x: Tensor) -> None:
    """Any function, its result quantized to its range."""
    function = build.pick(tuple(Function))
    quant = _FIXED.get(function, _range(build, x.type.q, numerics.REAL_FUNCTIONS[function.value]))
    if build.chance(0.2):
        quant = build.quant(quant.scale * build.factor(0.5, 2))
    outputs, origin = build.fields()
    build.emit(Unary(inputs=(x.name,), outputs=outputs, origin=origin, function=function), quant)


def leaky_relu(build: Builder, x: Tensor) -> None:
    """A leaky relu of any slope."""
    alpha = build.pick((0.01, 0.25, 1.5, -0.5, build.factor(-2, 2)))
    alpha = float(np.float32(alpha))
    quant = build.pick((x.type.q, _range(build, x.type.q, numerics.leaky_relu(alpha))))
    outputs, origin = build.fields()
    build.emit(LeakyRelu(inputs=(x.name,), outputs=outputs, origin=origin, alpha=alpha), quant)


def _range(build: Builder, quant: Quant, function: numerics.RealFunction) -> Quant:
    """A quantization in whose range most of the function's results lie."""
    real = (np.arange(-128, 128, dtype=np.float64) - quant.zero_point) * quant.scale
    with np.errstate(all="ignore"):
        results = np.abs(function(real))
    finite = results[np.isfinite(results) & (results < 127 * _LARGEST_SCALE)]
    largest = float(finite.max(initial=0)) or 127 * _LARGEST_SCALE
    return build.quant(max(largest, 2.0**-10) / 127 * build.factor(0.5, 1.5))
