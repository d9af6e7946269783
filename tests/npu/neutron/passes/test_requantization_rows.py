"""Requantization rows over all channels at once equal those of exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from deuteron.npu.neutron.passes.lowering.requantization_rows import channel_rows
from deuteron.numerics import requant

SMALLEST, LARGEST = float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)


def _exact(in_scale: float, scales: list[float], out_scale: float) -> np.ndarray:
    pairs = [requant(Fraction(in_scale) * Fraction(scale) / Fraction(out_scale)) for scale in scales]
    return np.array([(pair.multiplier, pair.shift) for pair in pairs])


def test_random_scales_of_any_size() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        spread = rng.choice([1, 8, 40])
        scales = np.exp2(rng.uniform(-spread, spread / 4, 20)).astype(np.float32).astype(float).tolist()
        in_scale, out_scale = (float(np.float32(2.0 ** rng.uniform(-spread / 2, 2))) for _ in range(2))
        np.testing.assert_array_equal(channel_rows(in_scale, scales, out_scale), _exact(in_scale, scales, out_scale))


@pytest.mark.parametrize(
    ("in_scale", "scale", "out_scale"),
    [
        (1.0, 1.0, 1.0),
        (1.0, 2.0**-31, 1.0),
        (1.0, 2.0**-62, 1.0),
        (1.0, 2.0**-63, 1.0),  # half of the last place: to even, 0
        (1.0, float(np.float32(1.5 * 2.0**-62)), 1.0),  # a tie: to even, 2
        (1.0, 2.0**-64, 1.0),
        (SMALLEST, SMALLEST, 1.0),
        (SMALLEST, SMALLEST, LARGEST),
        (SMALLEST, 1.0, SMALLEST),
        (1.0, 2.0**29, 1.0),
        (LARGEST, 1.0, LARGEST),
        (1.0, float(np.nextafter(np.float32(1), np.float32(0))), 1.0),  # 2^31 after rounding, were the shift 31
        (float(np.float32(0.1)), float(np.float32(0.3)), float(np.float32(0.7))),
    ],
)
def test_ends_and_ties(in_scale: float, scale: float, out_scale: float) -> None:
    np.testing.assert_array_equal(channel_rows(in_scale, [scale], out_scale), _exact(in_scale, [scale], out_scale))
