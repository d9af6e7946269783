"""Comparisons, logical operators, SELECT and SELECT_V2, BROADCAST_ARGS, ARG_MAX and ARG_MIN."""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.tflite import (
    BY_TFLITE_OPERATOR,
    ArgExtremumParams,
    CompareParams,
    SelectParams,
)
from deuteron.operators.tflite_unquantized import LogicalParams
from deuteron.tflite.cortex_m.broadcasting import broadcast_dims
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Temporary
from deuteron.tflite.cortex_m.fixed_point import Factor, factor
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.padding import ANY
from deuteron.tflite.cortex_m.regions import Region, contiguous, copies, whole
from deuteron.tflite.flat_model import FlatTensor

_LESS, _LESS_OR_EQUAL, _EQUAL, _DIFFERENT = range(4)
_AND, _OR, _NOT = range(3)


def _compared(kind: int, *, swapped: bool = False) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        first, second = (1, 0) if swapped else (0, 1)
        return (comparison(site, kind, (first, second), site.out()),)

    return lower


def comparison(site: Site, kind: int, order: tuple[int, int], target: FileTensor | Temporary) -> CpuCall:
    """Return a comparison of both inputs, in this order."""
    a, b = (site.input(position) for position in order)
    dims, (a_strides, b_strides) = broadcast_dims(site, a.shape, b.shape)
    scaled = int(a.dtype in ("INT8", "INT16") and a.quant is not None and b.quant is not None)
    numbers = (*_scaled(site, a), *_scaled(site, b)) if scaled else (0, 0, 0, 0, 0, 0)
    params = CompareParams(dims, a_strides, b_strides, kind, scaled, *numbers)
    inputs = (site.ref(order[0]), site.ref(order[1]))
    return CpuCall(BY_TFLITE_OPERATOR["compare"], inputs, (target,), params)


def _scaled(site: Site, tensor: FlatTensor) -> tuple[int, int, int]:
    """Zero point and factor of an operand, whose scale is its factor."""
    scale = float(site.scale(tensor))
    by: Factor = factor(scale)
    if by[1] > 0:
        raise site.unsupported(
            f"tensor `{tensor.name}` has the scale {scale:g}; scales below 1 are allowed in comparisons"
        )
    return site.zero_point(tensor), *by


def chosen_extremum(site: Site, maximum: int) -> tuple[CpuCall, ...]:
    """Lower MAXIMUM and MINIMUM of whole numbers and float32: a comparison, and a choice."""
    a, b, out = site.input(0), site.input(1), site.output()
    first = Temporary(out.shape, "bool")
    order = (1, 0) if maximum else (0, 1)
    dims, (c_strides, a_strides, b_strides) = broadcast_dims(site, out.shape, a.shape, b.shape)
    choice = CpuCall(
        BY_TFLITE_OPERATOR["select"],
        (first, site.ref(0), site.ref(1)),
        (site.out(),),
        SelectParams(dims, c_strides, a_strides, b_strides),
    )
    return comparison(site, _LESS, order, first), choice


def _logical(kind: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        second = 0 if kind == _NOT else 1
        dims, (a_strides, b_strides) = broadcast_dims(site, site.input(0).shape, site.input(second).shape)
        params = LogicalParams(dims, a_strides, b_strides, kind)
        return (CpuCall(BY_TFLITE_OPERATOR["logical"], (site.ref(0), site.ref(second)), (site.out(),), params),)

    return lower


def select(site: Site) -> tuple[CpuCall, ...]:
    """Lower SELECT and SELECT_V2."""
    condition, a, b, out = site.input(0), site.input(1), site.input(2), site.output()
    site.same_quant(a, b, out)
    site.require(a, *ANY)
    shape = condition.shape
    if site.op.name == "SELECT" and len(shape) == 1 and len(out.shape) > 1:
        shape = (*shape, *(1 for _ in out.shape[1:]))  # one condition per row
    dims, (c_strides, a_strides, b_strides) = broadcast_dims(site, shape, a.shape, b.shape)
    inputs = (site.ref(0), site.ref(1), site.ref(2))
    return (
        CpuCall(
            BY_TFLITE_OPERATOR["select"], inputs, (site.out(),), SelectParams(dims, c_strides, a_strides, b_strides)
        ),
    )


def broadcast_shape(site: Site) -> tuple[CpuCall, ...]:
    """Lower BROADCAST_ARGS of shapes that are computed: a size of 1 becomes that of the other shape."""
    first, second = site.input(0), site.input(1)
    dtype = site.dtype(first)
    site.require(second, first.dtype)
    (least, _), (most, longer) = sorted((math.prod(site.input(position).shape), position) for position in range(2))
    head, common = most - least, (1, 1, 1, 1, least)
    calls = copies(dtype, site.ref(longer), site.out(), (head,), whole((head,)), whole((head,)))
    sizes = [Temporary((least,), dtype) for _ in range(2)]
    for position, size in enumerate(sizes):
        read = Region(head if position == longer else 0, (1,))
        calls += copies(dtype, site.ref(position), size, (least,), read, whole((least,)))
    is_one, result = Temporary((least,), "bool"), Temporary((least,), dtype)
    one, steps = Constant(np.ones(1, dtype)), (0, 0, 0, 0, 1)
    compared = CompareParams(common, steps, (0, 0, 0, 0, 0), _EQUAL, 0, 0, 0, 0, 0, 0, 0)
    chosen = SelectParams(common, steps, steps, steps)
    return (
        *calls,
        CpuCall(BY_TFLITE_OPERATOR["compare"], (sizes[0], one), (is_one,), compared),
        CpuCall(BY_TFLITE_OPERATOR["select"], (is_one, sizes[1], sizes[0]), (result,), chosen),
        *copies(dtype, result, site.out(), (least,), whole((least,)), Region(head, (1,))),
    )


def _place(maximum: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    def lower(site: Site) -> tuple[CpuCall, ...]:
        shape = site.input().shape
        axis = site.integers(1)[0] % len(shape)
        inner = contiguous(shape)[axis]
        params = ArgExtremumParams(math.prod(shape[:axis]), shape[axis], inner, maximum)
        return (CpuCall(BY_TFLITE_OPERATOR["arg_extremum"], (site.ref(),), (site.out(),), params),)

    return lower


_ORDERED = ("INT8", "INT16", "INT32", "INT64", "FLOAT32")
_EQUATED = (*_ORDERED, "BOOL")
_BOOL = ("BOOL",)
_PLACED = ("INT8", "UINT8", "INT16", "INT32", "FLOAT32")

OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "LESS": Lowering(_compared(_LESS), _ORDERED),
        "LESS_EQUAL": Lowering(_compared(_LESS_OR_EQUAL), _ORDERED),
        "GREATER": Lowering(_compared(_LESS, swapped=True), _ORDERED),
        "GREATER_EQUAL": Lowering(_compared(_LESS_OR_EQUAL, swapped=True), _ORDERED),
        "EQUAL": Lowering(_compared(_EQUAL), _EQUATED),
        "NOT_EQUAL": Lowering(_compared(_DIFFERENT), _EQUATED),
        "LOGICAL_AND": Lowering(_logical(_AND), _BOOL),
        "LOGICAL_OR": Lowering(_logical(_OR), _BOOL),
        "LOGICAL_NOT": Lowering(_logical(_NOT), _BOOL),
        "BROADCAST_ARGS": Lowering(broadcast_shape, ("INT32", "INT64")),
        "SELECT": Lowering(select, _BOOL),
        "SELECT_V2": Lowering(select, _BOOL),
        "ARG_MAX": Lowering(_place(1), _PLACED, note="constant axis"),
        "ARG_MIN": Lowering(_place(0), _PLACED, note="constant axis"),
    }
)
