"""MEAN, SUM, REDUCE_MAX and REDUCE_MIN."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.added import ADDED
from deuteron.operators.params import BINARY_RANK, Dims5, ReduceExtremumParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, ReduceSumParams
from deuteron.tflite.cortex_m.broadcasting import five
from deuteron.tflite.cortex_m.call import CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import Factor, bits_of, factor
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.regions import contiguous, copies, merged, whole
from deuteron.tflite.cortex_m.site import NUMPY, Site

_EXTREMA = {operator.name: operator for operator in ADDED if operator.name.startswith("reduce_extremum")}


def reduced_axes(site: Site) -> tuple[int, ...]:
    """Return the dimensions that the operator reduces, in ascending order."""
    rank = len(site.input().shape)
    axes = sorted({axis % rank for axis in site.integers(1)}) if rank else []
    return tuple(axes)


def _walk(site: Site, axes: tuple[int, ...], kind: str) -> tuple[Dims5, Dims5]:
    """Dimensions and strides along some axes of the input."""
    shape, strides = site.input().shape, contiguous(site.input().shape)
    runs = merged([(shape[axis], strides[axis]) for axis in axes])
    if len(runs) > BINARY_RANK:
        raise site.unsupported(
            f"it {kind} {len(runs)} dimensions that do not lie side by side; at most {BINARY_RANK} are allowed",
            "put a RESHAPE before it that joins dimensions",
        )
    runs = [(1, 0)] * (BINARY_RANK - len(runs)) + runs
    return five([count for count, _ in runs]), five([stride for _, stride in runs])


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
        *_walk(site, kept, "keeps"), *_walk(site, axes, "reduces"), real, in_zp, *numbers,
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


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "MEAN": Lowering(mean, ("INT8", "INT16")),
        "SUM": Lowering(total, ("INT8", "INT16")),
        "REDUCE_MAX": Lowering(_extremum(1), ("INT8", "INT16")),
        "REDUCE_MIN": Lowering(_extremum(0), ("INT8", "INT16")),
    }
)
