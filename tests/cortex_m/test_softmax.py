"""The softmax is the correctly rounded one; the wheel's float32 differs only where the exact value is near a tie."""

from dataclasses import replace

import numpy as np
import pytest
from tests.cortex_m.executorch_definitions import wheel
from tests.cortex_m.operator_library import Array, OperatorLibrary, RefusedError

from deuteron.operators.cortex_m import QuantizedSoftmaxParams

SCALES = (1e-9, 1e-4, 0.004, 0.02, 0.1, 0.3, 1.0, 7.5, 31.9, 1e6)


def factor(scale: float) -> tuple[int, int]:
    """Multiplier and shift as ExecuTorch's lowering makes them."""
    from executorch.backends.cortex_m.passes.aten_to_cortex_m_pass import (
        _compute_softmax_params,  # pyright: ignore[reportPrivateUsage]
    )

    multiplier, shift, _ = _compute_softmax_params(scale)
    return multiplier, shift


def exact(x: Array, multiplier: int, shift: int) -> np.ndarray:
    """256 times the softmax over the middle of three dimensions, in float64."""
    scale = multiplier * 2.0 ** (shift - 57)
    powers = np.exp((x.astype(np.float64) - x.max(axis=1, keepdims=True)) * scale)
    return 256 * powers / powers.sum(axis=1, keepdims=True)


def check(c_operators: OperatorLibrary, x: Array, scale: float) -> None:
    """Compares one call with both."""
    multiplier, shift = factor(scale)
    outer, depth, inner = x.shape
    p = QuantizedSoftmaxParams(outer, depth, inner, multiplier, shift)
    found = c_operators.run("softmax", (x,), p, np.empty(x.shape, np.int8)).astype(np.int32)
    value = exact(x, multiplier, shift)
    nearest = np.clip(np.rint(value) - 128, -128, 127)
    from_tie = np.abs(value - np.floor(value) - 0.5)
    np.testing.assert_array_equal(found[from_tie > 2.0**-17], nearest[from_tie > 2.0**-17], str(scale))
    reference = wheel("softmax", x, 1, 3, -128, multiplier, shift, -1).astype(np.int32)
    apart = np.abs(found - reference)
    assert apart.max() <= 1
    assert (from_tie[apart > 0] < 1e-3).all(), "the wheel differs away from a tie"


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 10, 1), (2, 7, 5), (1, 1000, 1), (4, 2, 3)], ids=str)
def test_softmax(c_operators: OperatorLibrary, shape: tuple[int, int, int], scale: float) -> None:
    generator = np.random.default_rng([7, *shape])
    x = generator.integers(-128, 128, shape).astype(np.int8)
    x.flat[0] = -128
    x.flat[-1] = 127
    check(c_operators, x, scale)


@pytest.mark.parametrize("value", [-128, 0, 127])
@pytest.mark.parametrize("depth", [1, 2, 3, 256, 512, 513, 5000])
def test_equal_elements(c_operators: OperatorLibrary, value: int, depth: int) -> None:
    check(c_operators, np.full((1, depth, 1), value, np.int8), 0.1)


def test_every_difference(c_operators: OperatorLibrary) -> None:
    for scale in SCALES:
        pairs = np.stack([np.full(256, 127, np.int8), np.arange(-128, 128).astype(np.int8)], axis=1)
        check(c_operators, pairs[:, :, None], scale)


@pytest.mark.parametrize(
    "change",
    [
        {"outer": 0}, {"depth": 3}, {"inner": 2}, {"depth": 65537}, {"in_multiplier": -1}, {"in_shift": 32},
        {"in_shift": -63}, {"outer": 65536, "depth": 65536},
    ],
    ids=str,
)  # fmt: skip
def test_softmax_refuses(c_operators: OperatorLibrary, change: dict[str, int]) -> None:
    p = QuantizedSoftmaxParams(2, 4, 1, 1 << 30, 20)
    x = np.zeros(8, np.int8)
    c_operators.run("softmax", (x,), p, x)
    with pytest.raises(RefusedError, match="72"):
        c_operators.run("softmax", (x,), replace(p, **change), x)
