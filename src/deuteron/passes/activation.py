"""Activations as limits of stored values."""

from fractions import Fraction

from deuteron.ir.ops import Clamp, Function
from deuteron.ir.types import Quant


def stored_clamp(function: Function, quant: Quant) -> Clamp:
    """The limits that an activation sets on values of its own quantisation.

    Input and output share `quant`, so the activation moves only values beyond its bounds: to the rounded bound.
    """
    match function:
        case Function.RELU:
            return Clamp(lo=quant.zero_point)
        case Function.RELU6:
            high = quant.zero_point + round(6 / Fraction(quant.scale))
            return Clamp(lo=quant.zero_point, hi=min(127, high))


def limit(first: Clamp, second: Clamp) -> Clamp:
    """One clamp that does what `first` and then `second` do."""

    def clamped(value: int) -> int:
        return max(second.lo, min(second.hi, value))

    return Clamp(lo=clamped(first.lo), hi=clamped(first.hi))
