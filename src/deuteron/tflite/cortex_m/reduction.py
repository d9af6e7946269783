"""MEAN, SUM, REDUCE_MAX and REDUCE_MIN."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.custom_ops import ADDED
from deuteron.operators.kernel_params import ReduceExtremumParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, ReduceSumParams
from deuteron.tflite.cortex_m import unquantized
from deuteron.tflite.cortex_m.call import CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import Factor, bits_of, factor
from deuteron.tflite.cortex_m.lowering import ACTIVATIONS, Lowering, by_type
from deuteron.tflite.cortex_m.operator_view import NUMPY, Site
from deuteron.tflite.cortex_m.reduction_strides import along, reduced_axes
from deuteron.tflite.cortex_m.regions import copies, whole

_EXTREMA = {operator.name: operator for operator in ADDED if operator.name.startswith("reduce_extremum")}


def mean(site: Site) -> tuple[CpuCall, ...]:
    """Lower MEAN."""
    x, out = site.input(), site.output()
    count = math.prod(x.shape[axis] for axis in reduced_axes(site))
    by = _divided(factor(float(site.scale(x)) / float(site.scale(out))), count)
    return _total(site, real=0, in_zp=site.zero_point(x), numbers=by)


def total(site: Site) -> tuple[CpuCall, ...]:
    """Lower SUM, as LiteRT's own kernel computes it: the reference kernel takes int8 for uint8."""
    x, out = site.input(), site.output()
    count = math.prod(x.shape[axis] for axis in reduced_axes(site))
    scale = site.scale(x) / site.scale(out)
    bias = np.float32(-site.zero_point(x)) * scale * np.float32(count)
    return _total(site, real=1, in_zp=0, numbers=(bits_of(float(scale)), bits_of(float(bias))))


def _total(site: Site, *, real: int, in_zp: int, numbers: tuple[int, int]) -> tuple[CpuCall, ...]:
    axes = reduced_axes(site)
    kept = tuple(axis for axis in range(len(site.input().shape)) if axis not in axes)
    params = ReduceSumParams(
        *along(site, kept, "keeps"), *along(site, axes, "reduces"), real, in_zp, *numbers,
        site.zero_point(site.output()),
    )  # fmt: skip
    return (CpuCall(BY_TFLITE_OPERATOR["reduce_sum"], (site.ref(),), (site.out(),), params),)


def _divided(by: Factor, count: int) -> Factor:
    """A factor divided by a count, as the reference kernel does: with as many bits as the count has, cut off."""
    multiplier, shift = by
    extra = min(count.bit_length() - 1, 32, 31 + shift)
    return (multiplier << extra) // count, shift - extra


def _extremum(maximum: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        x = site.input()
        site.same_quant(x, site.output())
        name = "reduce_extremum_s16" if x.dtype == "INT16" else "reduce_extremum"
        # Axes that lie side by side are reduced at once, from the last on: each result is smaller than the one before.
        shape, calls = list(x.shape), list[CpuCall]()
        runs = _runs(reduced_axes(site))
        source: Operand = site.ref()
        for left, (first, last) in zip(range(len(runs) - 1, -1, -1), reversed(runs), strict=True):
            outer, inner = math.prod(shape[:first]), math.prod(shape[last + 1 :])
            reduced = math.prod(shape[first : last + 1])
            shape[first : last + 1] = []
            target: Operand = Temporary(tuple(shape), NUMPY[x.dtype]) if left else site.out()
            params = ReduceExtremumParams(outer, reduced, inner, maximum)
            calls.append(CpuCall(_EXTREMA[name], (source,), (target,), params))
            source = target
        if not runs:
            return copies(NUMPY[x.dtype], site.ref(), site.out(), x.shape, whole(x.shape), whole(x.shape))
        return tuple(calls)

    return lower


def _runs(axes: tuple[int, ...]) -> list[tuple[int, int]]:
    """Runs of axes that follow each other, as first and last."""
    runs: list[tuple[int, int]] = []
    for axis in axes:
        if runs and runs[-1][1] == axis - 1:
            runs[-1] = (runs[-1][0], axis)
        else:
            runs.append((axis, axis))
    return runs


def _or_unquantized(lower: Callable[[Site], tuple[CpuCall, ...]], kind: int, types: tuple[str, ...]) -> Lowering:
    return by_type({**dict.fromkeys(ACTIVATIONS, lower), **dict.fromkeys(types, unquantized.reduction(kind))})


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "MEAN": _or_unquantized(mean, unquantized.MEAN, ("FLOAT32",)),
        "SUM": _or_unquantized(total, unquantized.SUM, unquantized.TYPES),
        "REDUCE_MAX": _or_unquantized(_extremum(1), unquantized.LARGEST, unquantized.TYPES),
        "REDUCE_MIN": _or_unquantized(_extremum(0), unquantized.LEAST, unquantized.TYPES),
    }
)
