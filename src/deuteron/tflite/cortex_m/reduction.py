"""MEAN, SUM, REDUCE_MAX and REDUCE_MIN."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from deuteron.npu.neutron.kernels.params import BINARY_RANK, Dims5, ReduceExtremumParams
from deuteron.operators.added import ADDED
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, ReduceSumParams
from deuteron.tflite.cortex_m.arithmetic import five
from deuteron.tflite.cortex_m.call import CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import Factor, factor
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.regions import contiguous, copies, merged_pair, whole
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
    dims, steps, _ = merged_pair([shape[a] for a in axes], [strides[a] for a in axes], [strides[a] for a in axes])
    if len(dims) > BINARY_RANK:
        raise site.unsupported(
            f"it {kind} {len(dims)} dimensions that do not lie side by side; at most {BINARY_RANK} are allowed",
            "put a RESHAPE before it that joins dimensions",
        )
    missing = BINARY_RANK - len(dims)
    return five((1,) * missing + dims), five((0,) * missing + steps)


def _total(mean: bool) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        x, out, axes = site.input(), site.output(), reduced_axes(site)
        multiplier, shift = factor(float(site.scale(x)) / float(site.scale(out)))
        if mean:
            multiplier, shift = _divided((multiplier, shift), math.prod(x.shape[a] for a in axes))
        kept = tuple(axis for axis in range(len(x.shape)) if axis not in axes)
        params = ReduceSumParams(
            *_walk(site, kept, "keeps"), *_walk(site, axes, "reduces"),
            site.zero_point(x), multiplier, shift, site.zero_point(out),
        )  # fmt: skip
        return (CpuCall(BY_TFLITE_OPERATOR["reduce_sum"], (site.ref(),), (site.out(),), params),)

    return lower


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
        shape, calls, source = list(x.shape), list[CpuCall](), site.ref()
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
        "MEAN": Lowering(_total(mean=True), ("INT8", "INT16")),
        "SUM": Lowering(_total(mean=False), ("INT8", "INT16")),
        "REDUCE_MAX": Lowering(_extremum(1), ("INT8", "INT16")),
        "REDUCE_MIN": Lowering(_extremum(0), ("INT8", "INT16")),
    }
)
