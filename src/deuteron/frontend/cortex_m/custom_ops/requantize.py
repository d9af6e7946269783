"""Changes of the dtype and scale of stored values."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import (
    Affine,
    Array,
    Definition,
    LoweredCall,
    Patterns,
    clipped,
    stored,
)
from deuteron.numerics import requant, rne_shift
from deuteron.operators.int16 import RequantizeParams


def requantization(result: Tensor, x: Affine, y: Affine) -> LoweredCall:
    """The call that brings values to another dtype and scale: those of a result."""
    factor = requant(Fraction(x.scale) / Fraction(y.scale))
    numbers = (x.zero_point, factor.multiplier, factor.shift, y.zero_point)
    name = "requantize_s8" if result.dtype == torch.int8 else "requantize_s16"
    return LoweredCall(name, RequantizeParams(result.numel(), *numbers))


def _compute_int16(p: RequantizeParams, x: Array) -> Array:
    return clipped(rne_shift((x.astype(np.int64) - p.in_zp) * p.mult, p.shift) + p.out_zp)


def _compute_int8(p: RequantizeParams, x: Array) -> Array:
    steps = rne_shift((x.astype(np.int64) - p.in_zp) * p.mult, p.shift) + p.out_zp
    return stored(steps)


PATTERNS: Patterns = {}

DEFINITIONS: Mapping[str, Definition] = {
    "requantize_s16": Definition(_compute_int16, rounds=True, dtype=torch.int16),
    "requantize_s8": Definition(_compute_int8, rounds=True),
}
