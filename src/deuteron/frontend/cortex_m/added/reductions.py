"""Sums, means, extrema and their places over dimensions, and sums up to each element."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import fx

from deuteron.frontend.cortex_m.added.lowering_pattern import (
    Array,
    Call,
    Definition,
    Form,
    Result,
    Site,
    stored,
    value_of,
)
from deuteron.npu.neutron.kernels.params import ReduceExtremumParams, ReduceSumParams
from deuteron.numerics import I64, MULTIPLIER_BITS, mean_requant, requant, rne_divide, rne_shift
from deuteron.operators.added import CumulateParams, ReduceArgumentParams

aten = torch.ops.aten

_MOST_REDUCTION_BITS = 23
"""Of the elements under one sum."""

Runs = tuple[int, int, int]
"""How many elements lie before, among and behind the dimensions that are reduced."""


def runs(shape: Sequence[int], dims: Sequence[int]) -> Runs | None:
    """The dimensions as three; None where others, larger than 1, lie between those that are reduced."""
    reduced = {dim % len(shape) for dim in dims} if shape else set[int]()
    marked = [(size, i in reduced) for i, size in enumerate(shape) if size != 1]
    inside = [i for i, (_, is_reduced) in enumerate(marked) if is_reduced]
    first, last = (inside[0], inside[-1] + 1) if inside else (len(marked), len(marked))
    if len(inside) != last - first:
        return None
    sizes = [size for size, _ in marked]
    return math.prod(sizes[:first]), math.prod(sizes[first:last]), math.prod(sizes[last:])


def reduced_dims(node: fx.Node) -> tuple[int, ...]:
    """The dimensions over which a node reduces: all where it names none."""
    rank = value_of(node.all_input_nodes[0]).dim()
    dims: object = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    if isinstance(dims, int):
        dims = (dims,)
    listed = tuple(cast("Sequence[int]", dims or ()))
    return tuple(dim % rank for dim in listed) if listed else tuple(range(rank))


def takes(node: fx.Node) -> bool:
    """True where the dimensions are as three, and the result is float32."""
    shape = value_of(node.all_input_nodes[0]).shape
    return runs(shape, reduced_dims(node)) is not None and node.kwargs.get("dtype") in (None, torch.float32)


def _runs_of(site: Site) -> Runs:
    return cast(Runs, runs(site.shape, reduced_dims(site.node)))


def total(site: Site, *, is_mean: bool, most: int = MULTIPLIER_BITS + _MOST_REDUCTION_BITS) -> ReduceSumParams:
    """The record of a sum or mean, whose elements under a sum times the multiplier are below 2^most."""
    outer, reduced, inner = _runs_of(site)
    (x,), y, divisor = site.operands, site.result, reduced if is_mean else 1
    bits = min(MULTIPLIER_BITS, most - (reduced - 1).bit_length())
    factor = mean_requant(Fraction(x.scale) / Fraction(y.scale), divisor, bits)
    return ReduceSumParams(outer, reduced, inner, divisor, x.zero_point, factor.multiplier, factor.shift, y.zero_point)


def _total(site: Site, *, is_mean: bool) -> Call:
    return Call("reduce_sum", total(site, is_mean=is_mean))


def extremum(site: Site, *, maximum: int, operator: str = "reduce_extremum") -> Call:
    """The call of a largest or least value."""
    return Call(operator, ReduceExtremumParams(*_runs_of(site), maximum))


def _argument(site: Site, *, maximum: int) -> Call:
    return Call("reduce_argument", ReduceArgumentParams(*_runs_of(site), maximum))


def _running(site: Site) -> Call:
    (x,), y = site.operands, site.result
    factor = requant(Fraction(x.scale) / Fraction(y.scale))
    params = CumulateParams(*_runs_of(site), x.zero_point, factor.multiplier, factor.shift, y.zero_point)
    return Call("cumulate", params)


def steps_of(p: ReduceSumParams, x: Array) -> I64:
    """Sums or means in steps of the result, before they are cut off."""
    values = x.reshape(p.outer, p.reduced, p.inner).astype(np.int64) - p.in_zp
    divisor = np.array(p.divisor << p.shift, np.int64)
    return rne_divide(values.sum(axis=1) * p.mult, divisor) + p.out_zp


def _compute_sum(p: ReduceSumParams, x: Array) -> Array:
    return stored(steps_of(p, x))


def compute_extremum(p: ReduceExtremumParams, x: Array) -> Array:
    """What `reduce_extremum` computes, of any dtype."""
    values = x.reshape(p.outer, p.reduced, p.inner)
    return values.max(axis=1) if p.maximum else values.min(axis=1)


def _compute_argument(p: ReduceArgumentParams, x: Array) -> Array:
    values = x.reshape(p.outer, p.reduced, p.inner)
    return (values.argmax(axis=1) if p.maximum else values.argmin(axis=1)).astype(np.int64)


def _compute_total(p: CumulateParams, x: Array) -> Array:
    values = x.reshape(p.outer, p.depth, p.inner).astype(np.int64) - p.in_zp
    return stored(rne_shift(values.cumsum(axis=1) * p.mult, p.shift) + p.out_zp)


_MEAN = Form(partial(_total, is_mean=True), takes=takes)
_SUM = Form(partial(_total, is_mean=False), takes=takes)

FORMS: Mapping[object, Form] = {
    aten.mean.default: _MEAN,
    aten.mean.dim: _MEAN,
    aten.sum.default: _SUM,
    aten.sum.dim_IntList: _SUM,
    aten.amax.default: Form(partial(extremum, maximum=1), Result.SHARED, takes),
    aten.amin.default: Form(partial(extremum, maximum=0), Result.SHARED, takes),
    aten.argmax.default: Form(partial(_argument, maximum=1), Result.INTEGER, takes),
    aten.argmin.default: Form(partial(_argument, maximum=0), Result.INTEGER, takes),
    aten.cumsum.default: Form(_running, takes=takes),
}

DEFINITIONS: Mapping[str, Definition] = {
    "reduce_sum": Definition(_compute_sum, rounds=True),
    "reduce_extremum": Definition(compute_extremum, rounds=False),
    "reduce_argument": Definition(_compute_argument, rounds=False, dtype=torch.int64),
    "cumulate": Definition(_compute_total, rounds=True),
}
