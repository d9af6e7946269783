"""BATCH_MATMUL of int8, int16 and float32."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, QuantizedBatchMatmulParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, MatmulParams
from deuteron.operators.tflite_unquantized import BY_UNQUANTIZED, BatchMatmulF32Params
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.convolution import MOST_PRODUCTS
from deuteron.tflite.cortex_m.fixed_point import factor
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.regions import Region, Shape, broadcast_strides, copies, whole

_HINT_SCALES = "quantize the second operand with one scale, or write the product as FULLY_CONNECTED"


def batch_matmul(site: Site) -> tuple[CpuCall, ...]:
    """Lower BATCH_MATMUL: the C operators take the second operand transposed, and as many batches of both."""
    a, b, out = site.input(0), site.input(1), site.output()
    site.require(b, *(("INT8", "INT16") if a.dtype == "INT16" else (a.dtype,)))
    site.require(out, a.dtype)
    rows, columns = out.shape[-2:]
    depth = a.shape[-2 if site.option("AdjX") else -1]
    batches = out.shape[:-2]
    if _is_one(b.shape[:-2]) and not site.option("AdjX"):
        # One matrix for all batches: they are rows.
        rows, batches = rows * math.prod(batches), ()
    first, before = _arranged(site, 0, (*batches, rows, depth), turned=bool(site.option("AdjX")))
    second, behind = _arranged(site, 1, (*batches, columns, depth), turned=not site.option("AdjY"))
    sizes = (math.prod(batches), rows, depth, columns)
    if a.dtype == "FLOAT32":
        real = BatchMatmulF32Params(*sizes)
        return (*before, *behind, CpuCall(BY_UNQUANTIZED["batch_matmul_f32"], (first, second), (site.out(),), real))
    if b.quant is not None and len(b.quant.scales) != 1:
        scales = f"tensor `{b.name}` has {len(b.quant.scales)} scales"
        raise site.unsupported(f"{scales}; LiteRT reads one here, and computes with a factor of 0", _HINT_SCALES)
    multiplier, shift = factor(float(site.scale(a) * site.scale(b)) / float(site.scale(out)))
    zero_points = [site.zero_point(tensor) for tensor in (a, b, out)]
    if a.dtype == "INT16":
        wide = MatmulParams(*sizes, multiplier, shift)
        call = CpuCall(BY_TFLITE_OPERATOR["batch_matmul_s16"], (first, second), (site.out(),), wide)
        return (*before, *behind, call)
    if depth > MOST_PRODUCTS:
        raise site.unsupported(f"each output is a sum of {depth} products; at most {MOST_PRODUCTS} are allowed")
    params = QuantizedBatchMatmulParams(*sizes, -zero_points[0], -zero_points[1], zero_points[2], multiplier, shift)
    call = CpuCall(BY_OPERATOR["quantized_batch_matmul"], (first, second), (site.out(),), params)
    return (*before, *behind, call)


def _is_one(batches: Shape) -> bool:
    return math.prod(batches) == 1


def _arranged(site: Site, position: int, wanted: Shape, *, turned: bool) -> tuple[Operand, tuple[CpuCall, ...]]:
    """An operand as [batches, rows, depth], itself or a copy."""
    tensor = site.input(position)
    if not turned and math.prod(tensor.shape) == math.prod(wanted):
        return site.ref(position), ()
    shape = tensor.shape if math.prod(tensor.shape[:-2]) != 1 else tensor.shape[-2:]
    if tensor.data is not None:
        array = site.constant(position).reshape(shape)
        array = array.swapaxes(-1, -2) if turned else array
        return Constant(np.ascontiguousarray(np.broadcast_to(array, wanted))), ()
    seen = (*wanted[:-2], wanted[-1], wanted[-2]) if turned else wanted
    strides = broadcast_strides(shape, seen)
    if turned:
        strides = (*strides[:-2], strides[-1], strides[-2])
    target = Temporary(wanted, site.dtype(tensor))
    moved = copies(site.dtype(tensor), site.ref(position), target, wanted, Region(0, strides), whole(wanted))
    return target, moved


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {"BATCH_MATMUL": Lowering(batch_matmul, ("INT8", "INT16", "FLOAT32"))}
)
