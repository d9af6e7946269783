"""GATHER, GATHER_ND, EMBEDDING_LOOKUP and DYNAMIC_UPDATE_SLICE: parts of a tensor by indices."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, GatherParams
from deuteron.operators.kernel_params import BINARY_RANK, RANK
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, DEQUANTIZE, CastParams, DequantizeParams
from deuteron.operators.tflite_unquantized import ArithmeticParams, ReduceParams, UpdateSliceParams
from deuteron.tflite.cortex_m.broadcasting import five
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import LIMITS, Array, Site
from deuteron.tflite.cortex_m.padding import ANY
from deuteron.tflite.cortex_m.regions import Region, contiguous, copies, merged, six, whole
from deuteron.tflite.cortex_m.unquantized import MUL, SUM
from deuteron.tflite.flat_model import HINT_MALFORMED

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


def embedding_lookup(site: Site) -> tuple[CpuCall, ...]:
    """Lower EMBEDDING_LOOKUP: rows of a table, or the numbers that the int8 rows stand for."""
    ids, table, out = site.input(0), site.input(1), site.output()
    rows, count = table.shape[0], math.prod(ids.shape)
    row = math.prod(table.shape) // rows
    if site.is_constant(0):
        _check(site, site.constant(0), rows)
    if out.dtype == table.dtype:
        site.same_quant(table, out)
        return (_rows(site, site.ref(1), site.out(), (rows, row * np.dtype(site.dtype(table)).itemsize, count)),)
    site.require(out, "FLOAT32")
    site.require(table, "INT8")
    if table.quant is None or any(table.quant.zero_points):
        raise site.unsupported(
            f"tensor `{table.name}` has no quantization, or a zero point that is not 0; a scale and the zero point 0 "
            "are allowed",
            "quantize the table symmetrically",
        )
    chosen = Temporary((count, row), "int8")
    lookup = _rows(site, site.ref(1), chosen, (rows, row, count))
    scales = np.array(table.quant.scales, np.float32)
    if len(scales) == 1:
        return lookup, CpuCall(DEQUANTIZE, (chosen,), (site.out(),), DequantizeParams(bits_of(scales[0]), 0))
    if (table.quant.axis, len(scales)) != (0, rows):
        raise site.unsupported(
            f"tensor `{table.name}` has {len(scales)} scales; one for all of it, or one for each row is allowed",
            "quantize the table by rows",
        )
    steps, numbers = Temporary((count,), "float32"), Temporary((count, row), "float32")
    dims, a, b = (1, 1, 1, count, row), (0, 0, 0, row, 1), (0, 0, 0, 1, 0)
    product = ArithmeticParams(dims, a, b, MUL, bits_of(-math.inf), bits_of(math.inf))
    return (
        lookup,
        _rows(site, Constant(scales), steps, (rows, scales.itemsize, count)),
        CpuCall(BY_TFLITE_OPERATOR["cast"], (chosen,), (numbers,), CastParams(count * row)),
        CpuCall(BY_TFLITE_OPERATOR["arithmetic"], (numbers, steps), (site.out(),), product),
    )


def _rows(site: Site, table: Operand, target: FileTensor | Temporary, sizes: tuple[int, int, int]) -> CpuCall:
    """Rows of a table by the numbers in the first input; sizes are the rows, the bytes of one, and the lookups."""
    site.require(site.input(0), "INT32", "INT64")
    return CpuCall(BY_OPERATOR["gather"], (table, site.ref(0)), (target,), GatherParams(1, *sizes))


def update_slice(site: Site) -> tuple[CpuCall, ...]:
    """Lower DYNAMIC_UPDATE_SLICE."""
    x, part, starts = site.input(0), site.input(1), site.input(2)
    site.require(part, x.dtype)
    site.require(starts, "INT32", "INT64")
    site.same_quant(x, part, site.output())
    rank = len(x.shape)
    fits = len(part.shape) == rank and all(n <= m for n, m in zip(part.shape, x.shape, strict=True))
    if not fits or starts.shape != (rank,):
        raise site.unsupported(
            f"a slice {list(part.shape)} at {math.prod(starts.shape)} indices does not fit into {list(x.shape)}",
            HINT_MALFORMED,
        )
    if not 1 <= rank <= RANK:
        raise site.unsupported(
            f"it has {rank} dimensions; 1 to {RANK} are allowed", "put a RESHAPE before it that joins dimensions"
        )
    if 0 in part.shape:
        return copies(site.dtype(x), site.ref(0), site.out(), x.shape, whole(x.shape), whole(x.shape))
    ones = (1,) * (RANK - rank)
    params = UpdateSliceParams(rank, six((*ones, *x.shape)), six((*ones, *part.shape)))
    inputs = (site.ref(0), site.ref(1), site.ref(2))
    return (CpuCall(BY_TFLITE_OPERATOR["update_slice"], inputs, (site.out(),), params),)


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
        "EMBEDDING_LOOKUP": Lowering(embedding_lookup, ANY, operand=1, note="float32 of int8 rows: zero point 0"),
        "DYNAMIC_UPDATE_SLICE": Lowering(update_slice, ANY, note=f"{RANK} dimensions"),
    }
)
