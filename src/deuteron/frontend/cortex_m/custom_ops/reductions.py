"""Reductions over dimensions (sum, mean, extrema, their indices) and cumulative sums."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
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
    clipped,
    stored,
    value_of,
)
from deuteron.numerics import I64, MULTIPLIER_BITS, mean_requant, requant, rne_divide, rne_shift
from deuteron.operators.custom_ops import ArgmaxArgminParams, CumsumParams
from deuteron.operators.int16 import SUM_BITS, ReduceSumS16Params
from deuteron.operators.kernel_params import ReduceExtremumParams, ReduceSumParams

aten = torch.ops.aten

_MOST_REDUCTION_BITS = 23
"""Bits of the number of elements in one sum."""

Runs = tuple[int, int, int]
"""The numbers of elements before, in and after the reduced dimensions."""


def runs(shape: Sequence[int], dims: Sequence[int]) -> Runs | None:
    """Merge dimensions into three; None if other dimensions larger than 1 are between the reduced ones."""
    reduced = {dim % len(shape) for dim in dims} if shape else set[int]()
    marked = [(size, i in reduced) for i, size in enumerate(shape) if size != 1]
    inside = [i for i, (_, is_reduced) in enumerate(marked) if is_reduced]
    first, last = (inside[0], inside[-1] + 1) if inside else (len(marked), len(marked))
    if len(inside) != last - first:
        return None
    sizes = [size for size, _ in marked]
    return math.prod(sizes[:first]), math.prod(sizes[first:last]), math.prod(sizes[last:])


def reduced_dims(node: fx.Node) -> tuple[int, ...]:
    """The dimensions that a node reduces; all if it names none."""
    rank = value_of(node.all_input_nodes[0]).dim()
    dims: object = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if isinstance(dims, int):
        dims = (dims,)
    listed = tuple(cast("Sequence[int]", dims or ()))
    return tuple(dim % rank for dim in listed) if listed else tuple(range(rank))


def takes(node: fx.Node) -> bool:
    """True if dimensions can be merged into three and the result is float32."""
    shape = value_of(node.all_input_nodes[0]).shape
    return runs(shape, reduced_dims(node)) is not None and node.kwargs.get("dtype") in (None, torch.float32)


def _runs_of(site: Site) -> Runs:
    return cast(Runs, runs(site.shape, reduced_dims(site.node)))


def _reduction(site: Site, *, is_mean: bool, most: int = MULTIPLIER_BITS + _MOST_REDUCTION_BITS) -> ReduceSumParams:
    """The record of a sum or mean; the sum times the multiplier is below 2^most."""
    outer, reduced, inner = _runs_of(site)
    (x,), y, divisor = site.operands, site.result, reduced if is_mean else 1
    bits = min(MULTIPLIER_BITS, most - (reduced - 1).bit_length())
    factor = mean_requant(Fraction(x.scale) / Fraction(y.scale), divisor, bits)
    return ReduceSumParams(outer, reduced, inner, divisor, x.zero_point, factor.multiplier, factor.shift, y.zero_point)


def _sum_or_mean(site: Site, *, is_mean: bool) -> LoweredCall:
    if site.dtype == torch.int16:
        params = _reduction(site, is_mean=is_mean, most=SUM_BITS)
        return LoweredCall("reduce_sum_s16", ReduceSumS16Params.from_words(params.words()))
    return LoweredCall("reduce_sum", _reduction(site, is_mean=is_mean))


def _extremum(site: Site, *, maximum: int) -> LoweredCall:
    operator = "reduce_extremum_s16" if site.dtype == torch.int16 else "reduce_extremum"
    return LoweredCall(operator, ReduceExtremumParams(*_runs_of(site), maximum))


def _argument(site: Site, *, maximum: int) -> LoweredCall:
    return LoweredCall("argmax_argmin", ArgmaxArgminParams(*_runs_of(site), maximum))


def _running(site: Site) -> LoweredCall:
    (x,), y = site.operands, site.result
    factor = requant(Fraction(x.scale) / Fraction(y.scale))
    params = CumsumParams(*_runs_of(site), x.zero_point, factor.multiplier, factor.shift, y.zero_point)
    return LoweredCall("cumsum", params)


def _steps(p: ReduceSumParams, x: Array) -> I64:
    """Sums or means in steps of the result, before saturation."""
    values = x.reshape(p.outer, p.reduced, p.inner).astype(np.int64) - p.in_zp
    divisor = np.array(p.divisor << p.shift, np.int64)
    return rne_divide(values.sum(axis=1) * p.mult, divisor) + p.out_zp


def _compute_sum(p: ReduceSumParams, x: Array) -> Array:
    return stored(_steps(p, x))


def _compute_int16_sum(p: ReduceSumS16Params, x: Array) -> Array:
    return clipped(_steps(p, x))


def _compute_extremum(p: ReduceExtremumParams, x: Array) -> Array:
    """The definition of `reduce_extremum`, for any dtype."""
    values = x.reshape(p.outer, p.reduced, p.inner)
    return values.max(axis=1) if p.maximum else values.min(axis=1)


def _compute_argument(p: ArgmaxArgminParams, x: Array) -> Array:
    values = x.reshape(p.outer, p.reduced, p.inner)
    return (values.argmax(axis=1) if p.maximum else values.argmin(axis=1)).astype(np.int64)


def _compute_total(p: CumsumParams, x: Array) -> Array:
    values = x.reshape(p.outer, p.depth, p.inner).astype(np.int64) - p.in_zp
    return stored(rne_shift(values.cumsum(axis=1) * p.mult, p.shift) + p.out_zp)


_MEAN, _SUM = (LoweringPattern(partial(_sum_or_mean, is_mean=is_mean), takes=takes) for is_mean in (True, False))

_BOTH: Mapping[object, LoweringPattern] = {
    aten.mean.default: _MEAN,
    aten.mean.dim: _MEAN,
    aten.sum.default: _SUM,
    aten.sum.dim_IntList: _SUM,
    aten.amax.default: LoweringPattern(partial(_extremum, maximum=1), Result.SHARED, takes),
    aten.amin.default: LoweringPattern(partial(_extremum, maximum=0), Result.SHARED, takes),
}

PATTERNS: Patterns = {
    torch.int8: {
        **_BOTH,
        aten.argmax.default: LoweringPattern(partial(_argument, maximum=1), Result.INTEGER, takes),
        aten.argmin.default: LoweringPattern(partial(_argument, maximum=0), Result.INTEGER, takes),
        aten.cumsum.default: LoweringPattern(_running, takes=takes),
    },
    torch.int16: _BOTH,
}

DEFINITIONS: Mapping[str, Definition] = {
    "reduce_sum": Definition(_compute_sum, rounds=True),
    "reduce_extremum": Definition(_compute_extremum, rounds=False),
    "argmax_argmin": Definition(_compute_argument, rounds=False, dtype=torch.int64),
    "reduce_sum_s16": Definition(_compute_int16_sum, rounds=True, dtype=torch.int16),
    "reduce_extremum_s16": Definition(_compute_extremum, rounds=False, dtype=torch.int16),
    "cumsum": Definition(_compute_total, rounds=True),
}
