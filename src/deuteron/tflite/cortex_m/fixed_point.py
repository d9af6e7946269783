"""The arithmetic of TFLite's reference kernels: factors, their products, and what constants are made of them.

All functions are exact: integers, or float32 and float64 operations that round as the reference kernels' do.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deuteron.errors import UnsupportedError

I64 = npt.NDArray[np.int64]
F32 = npt.NDArray[np.float32]
Reals = npt.NDArray[Any]
"""An array of float32 or float64."""

Factor = tuple[int, int]
"""(multiplier, shift): multiplier * 2^(shift - 31)."""

_ONE = 1 << 31
_MOST_SHIFT, _MOST_EXPONENT = 30, 52
_HINT_SMALL = "quantize the model again with samples for which the result is not always zero"


def factor(real: float) -> Factor:
    """Return the factor for a number of 0 or more, as `QuantizeMultiplier` does.

    Raises:
        UnsupportedError: the number is 2^30 or more, for which LiteRT's result depends on its compiler.
    """
    mantissa, shift = math.frexp(real)
    multiplier = math.floor(mantissa * _ONE + 0.5)
    if multiplier == _ONE:
        multiplier, shift = multiplier // 2, shift + 1
    _check(real, shift, _MOST_SHIFT)
    return (multiplier, shift) if shift >= -31 and multiplier else (0, 0)


def _check(real: float, shift: int, most: int) -> None:
    if shift > most:
        message = f"the scale of its operands is {real:g} times that of its result; at most {1 << most:,} is allowed"
        raise UnsupportedError(message, hint=_HINT_SMALL)


def single_rounding_words(real: float) -> tuple[int, int, int]:
    """Return a float64 number as the words high, low and shift: (high * 2^32 + low) / 2^shift.

    Raises:
        UnsupportedError: the number is 2^52 or more, which has no shift to the right.
    """
    mantissa, exponent = math.frexp(real)
    _check(real, exponent, _MOST_EXPONENT)
    whole, shift = int(mantissa * (1 << 53)), 53 - exponent
    while shift > 127:  # of numbers that give 0 for every sum
        whole, shift = whole // 2, shift - 1
    return whole >> 32, _signed(whole & 0xFFFFFFFF), shift


def product(values: npt.ArrayLike, by: Factor) -> I64:
    """Return `MultiplyByQuantizedMultiplier` of int32 numbers."""
    multiplier, shift = by
    left, right = max(shift, 0), max(-shift, 0)
    numbers = wrapped(np.asarray(values, np.int64) << left)
    return divided_by_power((numbers * multiplier + (1 << 30)) >> 31, right)


def times(a: npt.ArrayLike, b: npt.ArrayLike, bits: int = 32) -> I64:
    """Return the rounded upper half of products of fixed-point numbers, within their range."""
    products = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    limit = 1 << (bits - 1)
    # Ties go up in 32 bits, and away from zero in 16: both nudge, and truncate.
    nudged = products + np.where(products >= 0, limit // 2, 1 - limit // 2)
    return np.minimum(_truncated_divide(nudged, limit), limit - 1)


def divided_by_power(values: npt.ArrayLike, power: int) -> I64:
    """Return numbers / 2^power, rounded to nearest, ties away from zero."""
    numbers = np.asarray(values, np.int64)
    mask = (1 << power) - 1
    rest, threshold = numbers & mask, (mask >> 1) + (numbers < 0)
    return (numbers >> power) + (rest > threshold)


def wrapped(values: I64) -> I64:
    """Return the low 32 bits of numbers as signed ones."""
    return values.astype(np.uint64).astype(np.uint32).astype(np.int32).astype(np.int64)


def rounded(values: Reals) -> Reals:
    """Return numbers rounded to whole ones, ties away from zero."""
    whole = np.trunc(values)
    return whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0).astype(values.dtype)


def exponential_on_negative(values: npt.ArrayLike, whole_bits: int, bits: int = 32) -> I64:
    """Return exp of fixed-point numbers of 0 or less with so many whole bits, in steps of 2^(1 - bits)."""
    x = np.asarray(values, np.int64)
    fraction = bits - 1 - whole_bits
    quarter = 1 << (fraction - 2)
    rest = (x & (quarter - 1)) - quarter
    result = _exponential_of_quarter(_saturated(rest << whole_bits, bits), bits)
    remainder = rest - x
    steps = ((-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242))
    for exponent, multiplier in steps:
        if whole_bits > exponent:
            has_step = (remainder & (1 << (fraction + exponent))) != 0
            result = np.where(has_step, times(result, _narrowed(multiplier, bits), bits), result)
    result = np.where(x < -(1 << (fraction + 5)), 0, result)
    return np.where(x == 0, (1 << (bits - 1)) - 1, result)


def one_over_one_plus(x: npt.ArrayLike, bits: int = 32) -> I64:
    """Return 1 / (1 + x) of numbers from 0 to below 1, all in steps of 2^(1 - bits)."""
    return _saturated(_two_over_one_plus(x, bits) << 1, bits)


def one_minus_over_one_plus(x: npt.ArrayLike, bits: int = 32) -> I64:
    """Return (1 - x) / (1 + x) of numbers from 0 to below 1, all in steps of 2^(1 - bits)."""
    return _saturated((_two_over_one_plus(x, bits) - (1 << (bits - 3))) << 2, bits)


def inverse_square_root(value: int) -> Factor:
    """Return the factor 1 / sqrt(value) of a whole number of 0 or more; 0 counts as 1."""
    if value <= 1:
        return _ONE - 1, 0
    shift = 11
    while value >= 1 << 29:
        value, shift = value // 4, shift + 1
    pairs = (32 - value.bit_length() - 1) // 2 - 1
    shift, value = shift - pairs, value << (2 * pairs)
    whole = np.int64(value >> 1)
    half, x = divided_by_power(whole, 1), np.int64(1 << 28)
    for _ in range(5):
        cube = _saturated(times(times(x, x), x) << 6)
        x = _saturated((times(3 << 27, x) - times(half, cube)) << 3)
    multiplier = int(times(x, 1518500250))
    return (multiplier << -shift, 0) if shift < 0 else (multiplier, -shift)


def bits_of(value: float | np.float32) -> int:
    """Return the bits of a number as float32, as a signed word."""
    return int(np.float32(value).view(np.int32))


def as_words(values: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return int32 constants."""
    return np.array(values, np.int32)


def _exponential_of_quarter(a: I64, bits: int) -> I64:
    """exp(a) for -1/4 <= a < 0 in steps of 2^(1 - bits): a polynomial about -1/8."""
    x = a + (1 << (bits - 4))
    x2 = times(x, x, bits)
    x3, x4 = times(x2, x, bits), times(x2, x2, bits)
    inner = times(divided_by_power(x4, 2) + x3, _narrowed(715827883, bits), bits) + x2
    middle = _narrowed(1895147668, bits)
    return middle + times(middle, x + divided_by_power(inner, 1), bits)


def _two_over_one_plus(x: npt.ArrayLike, bits: int) -> I64:
    """2 / (1 + x) with two whole bits, of numbers in steps of 2^(1 - bits): three steps of Newton's method."""
    half = (np.asarray(x, np.int64) + (1 << (bits - 1))) // 2
    y = _narrowed(1515870810, bits) + times(half, _narrowed(-1010580540, bits), bits)
    for _ in range(3):
        y = y + _saturated(times(y, (1 << (bits - 3)) - times(half, y, bits), bits) << 2, bits)
    return y


def _narrowed(constant: int, bits: int) -> int:
    """A constant in steps of 2^-31, in those of 2^(1 - bits)."""
    return (constant + (1 << (31 - bits))) >> (32 - bits) if bits < 32 else constant


def _saturated(values: npt.ArrayLike, bits: int = 32) -> I64:
    limit = 1 << (bits - 1)
    return np.clip(np.asarray(values, np.int64), -limit, limit - 1)


def _truncated_divide(values: I64, by: int) -> I64:
    return np.sign(values) * (np.abs(values) // by)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >= _ONE else word
