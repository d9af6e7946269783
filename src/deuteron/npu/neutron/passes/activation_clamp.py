"""Activations as clamps of stored values."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Clamp, Function, Maximum, Minimum, Op, Unary
from deuteron.tflite.quantization import Quant

_LIMITS: Mapping[Function, tuple[int, int | None]] = {
    Function.RELU: (0, None),
    Function.RELU6: (0, 6),
    Function.RELU_0_TO_1: (0, 1),
    Function.RELU_N1_TO_1: (-1, 1),
}
"""Real limits of the functions that only clamp."""


def stored_clamp(graph: Graph, op: Op) -> Clamp | None:
    """Return the clamp of an op on stored values, or None if it does more than clamp.

    Input and output have the same quantization, so such an op only changes values beyond its limits.
    """
    quant = graph.type(op.outputs[0]).q
    if any(graph.type(name).quant != quant for name in op.inputs):
        return None
    match op:
        case Unary() if op.function in _LIMITS:
            low, high = _LIMITS[op.function]
            return Clamp(lo=_stored(low, quant), hi=127 if high is None else _stored(high, quant))
        case Maximum():
            bound = _constant_bound(graph, op)
            return None if bound is None else Clamp(lo=bound)
        case Minimum():
            bound = _constant_bound(graph, op)
            return None if bound is None else Clamp(hi=bound)
        case _:
            return None


def _constant_bound(graph: Graph, op: Op) -> int | None:
    """Return the single stored value of a constant second operand."""
    bound = graph.tensor(op.inputs[1])
    values = np.unique(bound.array()) if bound.is_const else ()
    return int(values[0]) if len(values) == 1 else None


def _stored(real: int, quant: Quant) -> int:
    return max(-128, min(127, quant.zero_point + round(real / Fraction(quant.scale))))


def limit(first: Clamp, second: Clamp) -> Clamp:
    """Return the composition of two clamps."""

    def clamped(value: int) -> int:
        return max(second.lo, min(second.hi, value))

    return Clamp(lo=clamped(first.lo), hi=clamped(first.hi))
