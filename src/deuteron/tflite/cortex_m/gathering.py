"""GATHER and GATHER_ND: rows of a tensor of any type, by index."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, GatherParams
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Temporary
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import HINT_CONSTANT, Array, Site
from deuteron.tflite.cortex_m.padding import ANY
from deuteron.tflite.cortex_m.regions import Region, copies, whole

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
    if depth != 1 or indices.dtype == "INT16":
        raise site.unsupported(
            f"its indices are computed at run time, {depth} of {indices.dtype} for a place; 1 of INT32 or INT64 is "
            "allowed",
            HINT_CONSTANT,
        )
    params = GatherParams(1, x.shape[0], row * np.dtype(site.dtype(x)).itemsize, math.prod(indices.shape))
    return (CpuCall(BY_OPERATOR["gather"], (site.ref(0), site.ref(1)), (site.out(),), params),)


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
        "GATHER_ND": Lowering(gather_nd, ANY, note="constant indices, or one index for a place"),
    }
)
