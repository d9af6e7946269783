"""Convolutions of int16 inputs are exact up to the edge of sums of 32 bits, and beyond it."""

import numpy as np
import pytest
from tests.cortex_m.operator_library import OperatorLibrary

from deuteron.frontend.cortex_m.custom_ops.catalogue import DEFINITIONS
from deuteron.operators.int16 import ConvolutionS16Params

LARGEST = 1 << 16
"""Weights whose absolute values add up to this make sums of 2^31."""


@pytest.mark.parametrize(("kernel_h", "in_c"), [(1, 511), (1, 512), (2, 256), (3, 170), (3, 172), (5, 128), (3, 250)])
@pytest.mark.parametrize("beyond", [-1, 0, None], ids=["below", "at", "largest"])
@pytest.mark.parametrize("x", [-32768, 32767])
def test_sums_up_to_32_bits_and_beyond(
    c_operators: OperatorLibrary, kernel_h: int, in_c: int, beyond: int | None, x: int
) -> None:
    """Weights add up to just below the edge, to the edge, or are all the least."""
    patch, out_c, out_h = kernel_h * in_c, 5, 6
    weights = np.full((out_c, patch), -128, np.int8)
    if beyond is not None and 128 * patch > LARGEST + beyond:
        weights[:] = -((LARGEST + beyond) // patch)
        weights[:, : (LARGEST + beyond) % patch] -= 1
    p = ConvolutionS16Params(
        1, out_h + kernel_h - 1, 1, in_c, out_h, 1, out_c, 1, kernel_h, 1, 1, 1, 0, 0, 1, 1, -32768, 32767
    )
    factors = np.array([(1 << 22) - 1, 1 << 21, 3, 0, 1 << 21], np.int32), np.array([38, 40, 24, 24, 39], np.int32)
    inputs = (
        np.full((1, p.in_h, 1, in_c), x, np.int16), weights.reshape(out_c, kernel_h, 1, in_c), *factors,
        np.array([0, 511, -512, 5, (1 << 31) - 1], np.int32),
    )  # fmt: skip
    output = np.empty((1, out_h, 1, out_c), np.int16)
    found = c_operators.run("dtn_cm_convolution_s16", inputs, p, output)
    np.testing.assert_array_equal(found, np.reshape(DEFINITIONS["convolution_s16"].compute(p, *inputs), found.shape))
