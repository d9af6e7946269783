"""The fixed-point arithmetic of the NPU kernels, once: how factors are made and how results are rounded.

`spec/rounding.md` states the formulas; the C twin is `firmware/src/kernels/requant.h`. Scales are exact rationals (the
float32 values that the flatbuffer holds), so a factor carries one rounding only: that of its 31-bit multiplier.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from deuteron.errors import UnsupportedError

I64 = npt.NDArray[np.int64]

MULTIPLIER_BITS = 31
MAX_SHIFT = 62
SOFTMAX_MAX_SHIFT = 16
SOFTMAX_ONE = 1 << 30
"""Fixed-point 1.0 of the softmax exponential table."""


@dataclass(frozen=True, slots=True)
class Requant:
    """The factor multiplier / 2^shift, multiplier 0..2^31-1, shift 1..62."""

    multiplier: int
    shift: int


def requants(factors: Sequence[Fraction]) -> tuple[tuple[int, ...], int]:
    """Multipliers and the one shift that stand for `factors`: the largest uses 31 bits, all round half to even.

    Raises:
        UnsupportedError: when the largest factor is 2^30 or more, which no sane quantisation reaches.
    """
    largest = max(factors)
    if min(factors) < 0 or largest >= 1 << (MULTIPLIER_BITS - 1):
        raise UnsupportedError(
            f"requantisation factor {float(largest):g} is outside 0..2^30",
            hint="check the scales of this operator's tensors; the calibration data may be degenerate",
        )
    # Highest shift at which the largest multiplier still fits; one less when rounding carries it to 2^31.
    shift = MAX_SHIFT
    while shift > 1 and round(largest * (1 << shift)) >= 1 << MULTIPLIER_BITS:
        shift -= 1
    return tuple(round(f * (1 << shift)) for f in factors), shift


def requant(factor: Fraction) -> Requant:
    """The fixed-point form of one factor."""
    (multiplier,), shift = requants((factor,))
    return Requant(multiplier, shift)


def rne_shift(values: I64, shift: int | I64) -> I64:
    """values / 2^shift, rounded to nearest, ties to even; |values| < 2^62, shift 1..62."""
    one = np.int64(1)
    shift = np.asarray(shift, np.int64)
    odd = (values >> shift) & one
    return (values + (one << (shift - one)) - one + odd) >> shift


def rne_divide(numerators: I64, denominators: I64) -> I64:
    """numerators / denominators, rounded to nearest, ties to even; numerators >= 0, 0 < denominators < 2^62."""
    quotient = numerators // denominators
    twice = 2 * (numerators - quotient * denominators)
    up = (twice > denominators) | ((twice == denominators) & ((quotient & 1) == 1))
    return quotient + up


def softmax_multiplier(out_scale: float) -> tuple[int, int]:
    """(mult, shift) with mult / 2^shift = 1 / out_scale; the largest shift up to 16 at which mult fits 31 bits."""
    factor = 1 / Fraction(out_scale)
    shift = SOFTMAX_MAX_SHIFT
    while shift > 0 and round(factor * (1 << shift)) >= 1 << MULTIPLIER_BITS:
        shift -= 1
    mult = round(factor * (1 << shift))
    if not 1 <= mult < 1 << MULTIPLIER_BITS:
        raise UnsupportedError(f"softmax output scale {out_scale:g} is outside 2^-31..2^16")
    return mult, shift


def softmax_table(in_scale: float, beta: float) -> npt.NDArray[np.uint32]:
    """e[k] = round(2^30 * exp(-k * beta * in_scale)), k = 0..255: the weight of an element k below the maximum."""
    steps = np.arange(256, dtype=np.float64)
    return np.rint(SOFTMAX_ONE * np.exp(-steps * beta * in_scale)).astype(np.uint32)
