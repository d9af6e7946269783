"""Bilinear interpolation of images."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import cast

import numpy as np
import torch
from torch import fx

from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import (
    Array,
    Definition,
    LoweredCall,
    LoweringPattern,
    Patterns,
    Result,
    Site,
    stored,
    value_of,
)
from deuteron.numerics import rne_divide
from deuteron.operators.kernel_params import ResizeBilinearParams
from deuteron.operators.limits import MAX_RESIZE_UNIT

aten = torch.ops.aten

Positions = tuple[int, int, int]
"""Start, step and unit: output i is at (start + i * step) / unit of the input, before clamping to the image."""


def positions(size: int, output: int, factor: float | None, *, align_corners: bool) -> Positions:
    """The sampling positions of PyTorch along an axis: by the given factor, else by the sizes."""
    if align_corners:
        start, step = Fraction(0), Fraction(size - 1, output - 1) if output > 1 else Fraction(0)
    else:
        step = Fraction(size, output) if not factor else 1 / Fraction(factor).limit_denominator(MAX_RESIZE_UNIT // 2)
        start = (step - 1) / 2
    unit = math.lcm(start.denominator, step.denominator)
    return int(start * unit), int(step * unit), unit


def _axes(node: fx.Node) -> tuple[Positions, Positions]:
    x, (_, aligns, factors) = value_of(node.all_input_nodes[0]), cast("tuple[object, bool, object]", node.args[1:4])
    listed = cast("Sequence[float] | None", factors) or (None, None)
    sizes = zip(x.shape[2:], value_of(node).shape[2:], listed, strict=True)
    high, wide = (positions(*axis, align_corners=aligns) for axis in sizes)
    return high, wide


def _takes(node: fx.Node) -> bool:
    return all(abs(number) <= MAX_RESIZE_UNIT for axis in _axes(node) for number in axis)


def _bilinear(site: Site) -> LoweredCall:
    batches, channels, in_h, in_w = site.shape
    _, _, out_h, out_w = value_of(site.node).shape
    rows, columns = _axes(site.node)
    sizes = batches * channels, in_h, in_w, 1, out_h, out_w
    return LoweredCall("resize_bilinear", ResizeBilinearParams(*sizes, *rows, *columns, site.operands[0].zero_point))


def _compute(p: ResizeBilinearParams, x: Array) -> Array:
    values = x.reshape(p.batches, p.in_h, p.in_w, p.channels).astype(np.int64) - p.zero_point
    rows, columns = (p.start_h, p.step_h, p.unit_h), (p.start_w, p.step_w, p.unit_w)
    for axis, size, output, (start, step, unit) in ((1, p.in_h, p.out_h, rows), (2, p.in_w, p.out_w, columns)):
        at = np.clip(start + np.arange(output) * step, 0, (size - 1) * unit)
        low, share = at // unit, (at % unit).reshape([-1 if i == axis else 1 for i in range(4)])
        high = np.minimum(low + 1, size - 1)
        values = values.take(low, axis) * (unit - share) + values.take(high, axis) * share
    return stored(rne_divide(values, np.asarray(p.unit_h * p.unit_w, np.int64)) + p.zero_point)


PATTERNS: Patterns = {
    torch.int8: {
        aten.upsample_bilinear2d.vec: LoweringPattern(_bilinear, Result.SHARED, _takes, whole=True),
    }
}

DEFINITIONS: Mapping[str, Definition] = {"resize_bilinear": Definition(_compute, rounds=True)}
