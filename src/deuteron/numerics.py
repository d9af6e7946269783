"""Fixed-point arithmetic of the NPU kernels: requantization factors and rounding.

`spec/rounding.md` has the formulas; `firmware/src/kernels/requant.h` has the same in C. Scales are exact rationals (the
float32 values of the flatbuffer), so the only rounding of a factor is that of its 31-bit multiplier.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from deuteron.errors import UnsupportedError

I8 = npt.NDArray[np.int8]
I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

MULTIPLIER_BITS = 31
MAX_SHIFT = 62
FACTOR_LIMIT = 1 << (MULTIPLIER_BITS - 1)
"""Upper bound of every factor from input to output steps."""

HINT_SCALES = "check the scales of this operator's tensors; the calibration data may be degenerate"

SOFTMAX_MAX_SHIFT = 16
SOFTMAX_ONE = 1 << 30
"""Fixed-point 1.0 of the softmax exponential table."""


@dataclass(frozen=True, slots=True)
class Requant:
    """The factor multiplier / 2^shift, multiplier 0..2^31-1, shift 1..62."""

    multiplier: int
    shift: int


def requants(factors: Sequence[Fraction], bits: int = MULTIPLIER_BITS) -> tuple[tuple[int, ...], int]:
    """Return multipliers with a common shift for `factors`: the largest uses all bits, all round half to even.

    Raises:
        UnsupportedError: the largest factor is out of range, which no reasonable quantization reaches.
    """
    largest = max(factors)
    if min(factors) < 0 or largest >= 1 << (bits - 1):
        raise UnsupportedError(f"requantization factor {float(largest):g} is outside 0..2^{bits - 1}", hint=HINT_SCALES)
    # The highest shift at which the largest multiplier fits; the bound from bit lengths is at most 2 too high.
    bound = bits + 1 - largest.numerator.bit_length() + largest.denominator.bit_length()
    shift = min(MAX_SHIFT, bound) if largest else MAX_SHIFT
    while shift > 1 and round(largest * (1 << shift)) >= 1 << bits:
        shift -= 1
    return tuple(round(f * (1 << shift)) for f in factors), shift


def requant(factor: Fraction) -> Requant:
    """Return the fixed-point form of one factor."""
    (multiplier,), shift = requants((factor,))
    return Requant(multiplier, shift)


def rne_shift(values: I64, shift: int | I64) -> I64:
    """values / 2^shift, rounded to nearest, ties to even; |values| < 2^62, shift 1..62."""
    one = np.int64(1)
    shift = np.asarray(shift, np.int64)
    odd = (values >> shift) & one
    return (values + (one << (shift - one)) - one + odd) >> shift


def rne_divide(numerators: I64, denominators: I64) -> I64:
    """numerators / denominators, rounded to nearest, ties to even; |numerators| < 2^62, 0 < denominators <= 2^62."""
    quotient = numerators // denominators
    rest = numerators - quotient * denominators
    over = rest - (denominators - rest)  # 2 * rest - denominator, without an overflow of the double
    return quotient + ((over > 0) | ((over == 0) & ((quotient & 1) == 1)))


def mean_requant(factor: Fraction, count: int, bits: int = MULTIPLIER_BITS) -> Requant:
    """Return the fixed-point form of a factor whose product is divided by up to `count`: count * 2^shift <= 2^61.

    The count is not part of the factor, so that ties are exact for every count.
    """
    (multiplier,), shift = requants((factor,), bits)
    limit = MAX_SHIFT - 1 - (count - 1).bit_length()
    return Requant(multiplier, shift) if shift <= limit else Requant(round(factor * (1 << limit)), limit)


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


def check_accumulators(weights: npt.NDArray[np.generic], bias: npt.NDArray[np.generic]) -> None:
    """Check that no input can overflow the 32-bit accumulator of a row of `weights`, one per output channel.

    Raises:
        UnsupportedError: when 255 * sum|w| + |bias| of a channel reaches 2^31.
    """
    reach = 255 * np.abs(weights.astype(np.int64)).sum(axis=1) + np.abs(bias.astype(np.int64))
    worst = int(reach.argmax())
    if reach[worst] >= 1 << 31:
        raise UnsupportedError(
            f"the accumulator of output channel {worst} can reach {reach[worst]}; the NPU's is below 2^31",
            hint="split the layer, or recalibrate: an outsized bias comes from a tiny input or weight scale",
        )


RealFunction = Callable[[F64], F64]


def _logistic(x: F64) -> F64:
    return 1.0 / (1.0 + np.exp(-x))


REAL_FUNCTIONS: Mapping[str, RealFunction] = MappingProxyType(
    {
        "abs": np.abs,
        "exp": np.exp,
        "hard_swish": lambda x: x * np.clip(x + 3.0, 0.0, 6.0) / 6.0,
        "log": np.log,
        "logistic": _logistic,
        "relu": lambda x: np.maximum(x, 0.0),
        "relu6": lambda x: np.clip(x, 0.0, 6.0),
        "relu_0_to_1": lambda x: np.clip(x, 0.0, 1.0),
        "relu_n1_to_1": lambda x: np.clip(x, -1.0, 1.0),
        "rsqrt": lambda x: 1.0 / np.sqrt(x),
        "tanh": np.tanh,
    }
)
"""The real function behind each unary operator, by the value of `ir.ops.Function`."""


def leaky_relu(alpha: float) -> RealFunction:
    """x where it is above 0, else alpha * x."""
    return lambda x: np.where(x > 0.0, x, alpha * x)


class Affine(Protocol):
    """Interface of a per-tensor quantization for `unary_table`."""

    @property
    def scale(self) -> float:
        """Real value of one quantization step."""
        ...

    @property
    def zero_point(self) -> int:
        """Stored value of real 0."""
        ...


def unary_table(function: RealFunction | None, source: Affine, target: Affine) -> I8:
    """Return table[x + 128], the int8 result for stored input x: a real function, or None to requantize; rounded once.

    float64 gives the correctly rounded result for piecewise linear functions; see `spec/rounding.md`. Infinities
    saturate. NaN, such as the logarithm of a negative number, gives stored 0, as PyTorch's quantization does.
    """
    real = (np.arange(-128, 128, dtype=np.float64) - source.zero_point) * source.scale
    with np.errstate(all="ignore"):
        if function is not None:
            real = function(real)
        stored = np.clip(np.rint(real / target.scale) + target.zero_point, -128, 127)
    return np.where(np.isnan(stored), 0, stored).astype(np.int8)
