"""Requantization rows: multiplier and shift per channel."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from deuteron.numerics import I64, MAX_SHIFT, MULTIPLIER_BITS, rne_divide

_MANTISSA_BITS = 24
"""Bits of a float32 significand."""

_DENOMINATOR_SHIFT = 38
"""Largest shift of a 24-bit denominator that stays below 2^62."""


def channel_rows(in_scale: float, channel_scales: Sequence[float], out_scale: float) -> npt.NDArray[np.int32]:
    """Return one (multiplier, shift) row per channel for in_scale * channel_scale / out_scale: `requant`, vectorized.

    The constraints have checked that the factors are below their limit.
    A MobileNetV2 has 17,000 channels, and fractions take ten microseconds each. Scales are float32, so each factor is
    product / out_mantissa * 2^exponent with a product of two 24-bit integers: 64-bit integers hold all of it.
    """
    in_mantissa, in_exponent = _split(np.array([in_scale]))
    mantissas, exponents = _split(np.array(channel_scales))
    out_mantissa, out_exponent = _split(np.array([out_scale]))
    product = in_mantissa * mantissas
    exponent = in_exponent + exponents - out_exponent
    # The quotient is in 2^22..2^25, so this shift makes it a multiplier of 31 to 33 bits; 32 or 33 are too long.
    shift = np.clip(MULTIPLIER_BITS - _MANTISSA_BITS + 1 - exponent, 1, MAX_SHIFT)
    scaled = _scaled(product, out_mantissa, exponent + shift)
    while np.any(too_long := (scaled >= 1 << MULTIPLIER_BITS) & (shift > 1)):
        shift = shift - too_long
        scaled = _scaled(product, out_mantissa, exponent + shift)
    return np.stack([scaled, shift], axis=1).astype("<i4")


def _split(scales: npt.NDArray[np.float64]) -> tuple[I64, I64]:
    """Return integer mantissas of 24 bits and exponents with scale = mantissa * 2^exponent."""
    fraction, exponent = np.frexp(scales)
    return (fraction * (1 << _MANTISSA_BITS)).astype(np.int64), exponent.astype(np.int64) - _MANTISSA_BITS


def _scaled(product: I64, denominator: I64, exponent: I64) -> I64:
    """Return product * 2^exponent / denominator, rounded half to even, saturated to 2^31."""
    up = np.clip(exponent, 0, 62 - 2 * _MANTISSA_BITS)
    down = np.clip(-exponent, 0, _DENOMINATOR_SHIFT)
    quotient = rne_divide(product << up, denominator << down)
    # A quotient that underflows the largest denominator is below one half, so it rounds to zero.
    return np.where(exponent > up, 1 << MULTIPLIER_BITS, np.where(-exponent > down, 0, quotient))
