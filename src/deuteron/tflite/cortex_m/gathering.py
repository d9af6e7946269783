"""GATHER and GATHER_ND: rows of a tensor of any type, by index."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, GatherParams
from deuteron.operators.kernel_params import BINARY_RANK
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, CastParams
from deuteron.operators.tflite_unquantized import ArithmeticParams, ReduceParams
from deuteron.tflite.cortex_m.broadcasting import five
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import LIMITS, Array, Site
from deuteron.tflite.cortex_m.padding import ANY
from deuteron.tflite.cortex_m.regions import Region, contiguous, copies, merged, whole
from deuteron.tflite.cortex_m.unquantized import MUL, SUM

_HINT_BATCHES = "make the indices a constant of the file, or gather each batch by an operator of its own"
_MOST_BATCHES = 64


def gather(site: Site) -> tuple[CpuCall, ...]:
    """Lower GATHER."""
    x, indices = site.input(0), site.input(1)
    site.same_quant(x, site.output())
    site.require(indices, "INT32", "INT64")
    axis, batches = site.option("Axis") % len(x.shape), site.option("BatchDims")
    batches += len(indices.shape) if batches < 0 else 0
    item = np.dtype(site.dtype(x)).itemsize
    outer, rows, row = math.prod(x.shape[batches:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    count, repeats = math.prod(indices.shape[batches:]), math.prod(x.shape[:batches])
    if repeats == 1:
        params = GatherParams(outer, rows, row * item, count)
        return (CpuCall(BY_OPERATOR["gather"], (site.ref(0), site.ref(1)), (site.out(),), params),)
    if site.is_constant(1):
        places = site.constant(1).reshape(repeats, 1, count).astype(np.int64)
        _check(site, places, rows)
        return _by_place(site, places + rows * np.arange(repeats * outer).reshape(repeats, outer, 1), row)
    if repeats > _MOST_BATCHES:
        raise site.unsupported(
            f"its indices are computed at run time for {repeats} batches; {_MOST_BATCHES} are allowed", _HINT_BATCHES
        )
    calls: list[CpuCall] = []
    dtype, index_type = site.dtype(x), site.dtype(indices)
    params = GatherParams(outer, rows, row * item, count)
    for batch in range(repeats):
        table, chosen = Temporary((outer * rows * row,), dtype), Temporary((count,), index_type)
        found = Temporary((outer * count * row,), dtype)
        calls += copies(dtype, site.ref(0), table, table.shape, Region(batch * outer * rows * row, (1,)), whole((1,)))
        calls += copies(index_type, site.ref(1), chosen, chosen.shape, Region(batch * count, (1,)), whole((1,)))
        calls.append(CpuCall(BY_OPERATOR["gather"], (table, chosen), (found,), params))
        calls += copies(dtype, found, site.out(), found.shape, whole((1,)), Region(batch * outer * count * row, (1,)))
    return tuple(calls)


def gather_nd(site: Site) -> tuple[CpuCall, ...]:
    """Lower GATHER_ND."""
    x, indices = site.input(0), site.input(1)
    site.same_quant(x, site.output())
    site.require(indices, "INT16", "INT32", "INT64")
    depth = indices.shape[-1]
    row = math.prod(x.shape[depth:])
    if site.is_constant(1):
        places = np.zeros(indices.shape[:-1], np.int64)
        for dim, size in enumerate(x.shape[:depth]):
            along = site.constant(1)[..., dim].astype(np.int64)
            _check(site, along, size)
            places = places * size + along
        return _by_place(site, places, row)
    places, calls = _places(site, x.shape[:depth])
    params = GatherParams(
        1, math.prod(x.shape[:depth]), row * np.dtype(site.dtype(x)).itemsize, math.prod(indices.shape[:-1])
    )
    return (*calls, CpuCall(BY_OPERATOR["gather"], (site.ref(0), places), (site.out(),), params))


def _places(site: Site, sizes: tuple[int, ...]) -> tuple[Operand, tuple[CpuCall, ...]]:
    """Numbers of rows for indices that are computed, and the calls that compute them; `sizes` are the dimensions'."""
    indices, calls = site.input(1), list[CpuCall]()
    count, depth = math.prod(indices.shape[:-1]), len(sizes)
    places: Operand = site.ref(1)
    dtype = "int64" if indices.dtype == "INT64" else "int32"
    if indices.dtype == "INT16":
        wide = Temporary((count, depth), dtype)
        calls.append(CpuCall(BY_TFLITE_OPERATOR["cast"], (places,), (wide,), CastParams(count * depth)))
        places = wide
    if depth > 1:
        scaled, total = Temporary((count, depth), dtype), Temporary((count,), dtype)
        axes = [(1, 0, 0)] * BINARY_RANK + merged([(count, depth, 0), (depth, 1, 1)])
        dims, a, b = (five(column) for column in zip(*axes[-BINARY_RANK:], strict=True))
        product = ArithmeticParams(dims, a, b, MUL, *LIMITS["INT32"])
        rows = Constant(np.array(contiguous(sizes), dtype))
        calls.append(CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (places, rows), (scaled,), product))
        axes = [(1, 0)] * BINARY_RANK + merged([(count, depth)])
        kept, steps = (five(column) for column in zip(*axes[-BINARY_RANK:], strict=True))
        none = (1,) * (BINARY_RANK - 1), (0,) * (BINARY_RANK - 1)
        summed = ReduceParams(kept, steps, five((*none[0], depth)), five((*none[1], 1)), SUM)
        calls.append(CpuCall(BY_TFLITE_OPERATOR["reduce"], (scaled,), (total,), summed))
        places = total
    return places, tuple(calls)


def _check(site: Site, places: Array, size: int) -> None:
    if places.size and (places.min() < 0 or places.max() >= size):
        raise site.unsupported(
            f"it has the index {places.min() if places.min() < 0 else places.max()} of {size} elements",
            "make the file again; its exporter has a defect",
        )


def _by_place(site: Site, places: Array, row: int) -> tuple[CpuCall, ...]:
    """Rows by constant numbers, of the tensor as a table."""
    x = site.input(0)
    params = GatherParams(1, math.prod(x.shape) // row, row * np.dtype(site.dtype(x)).itemsize, places.size)
    return (
        CpuCall(BY_OPERATOR["gather"], (site.ref(0), Constant(places.ravel().astype(np.int32))), (site.out(),), params),
    )


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "GATHER": Lowering(gather, ANY, note=f"indices computed at run time: {_MOST_BATCHES} batches"),
        "GATHER_ND": Lowering(gather_nd, ANY),
    }
)
