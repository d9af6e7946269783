"""RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR."""

import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR, GatherParams
from deuteron.operators.tflite import BY_TFLITE_OPERATOR, ResizeBilinearParams
from deuteron.operators.tflite_unquantized import BY_UNQUANTIZED, ResizeBilinearF32Params
from deuteron.tflite.cortex_m.call import Constant, CpuCall, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import bits_of
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.padding import ANY
from deuteron.tflite.cortex_m.regions import Region, contiguous, copies, whole

_ONE = 1 << 10


def _scale(site: Site, size: int, out: int) -> np.float32:
    """Lines of the input for each of the output."""
    one = np.float32
    return one(size - 1) / one(out - 1) if site.option("AlignCorners") and out > 1 else one(size) / one(out)


def _places(site: Site, size: int, out: int) -> list[int]:
    """The input row or column of each output one, in float32 arithmetic."""
    corners, centres = site.option("AlignCorners"), site.option("HalfPixelCenters")
    one, scale = np.float32, _scale(site, size, out)
    places: list[int] = []
    for i in range(out):
        x = float((one(i) + one(0.5 if centres else 0)) * scale)
        place = math.floor(x + 0.5) if corners else math.floor(x)
        places.append(max(0, min(place, size - 1)))
    return places


def nearest(site: Site) -> tuple[CpuCall, ...]:
    """Lower RESIZE_NEAREST_NEIGHBOR: whole multiples as copies, others as lines by index."""
    x, out = site.input(), site.output()
    dtype, item = site.dtype(x), np.dtype(site.dtype(x)).itemsize
    batches, in_h, in_w, channels = x.shape
    out_h, out_w = out.shape[1:3]
    rows, columns = _places(site, in_h, out_h), _places(site, in_w, out_w)
    if _repeats(rows, in_h) and _repeats(columns, in_w):
        dims = (batches, in_h, out_h // in_h, in_w, out_w // in_w, channels)
        steps = contiguous(x.shape)
        read = Region(0, (steps[0], steps[1], 0, steps[2], 0, 1))
        return copies(dtype, site.ref(), site.out(), dims, read, whole(dims))
    source: Operand = site.ref()
    calls: list[CpuCall] = []
    if rows != list(range(in_h)):
        target: Operand = (
            site.out() if columns == list(range(in_w)) else Temporary((batches, out_h, in_w, channels), dtype)
        )
        calls.append(_lines(source, target, batches, rows, in_h, in_w * channels * item))
        source = target
    if columns != list(range(in_w)):
        calls.append(_lines(source, site.out(), batches * out_h, columns, in_w, channels * item))
    return tuple(calls)


def _repeats(places: list[int], size: int) -> bool:
    return len(places) % size == 0 and places == [i // (len(places) // size) for i in range(len(places))]


def _lines(source: Operand, target: Operand, outer: int, places: list[int], size: int, row_bytes: int) -> CpuCall:
    params = GatherParams(outer, size, row_bytes, len(places))
    inputs = (source, Constant(np.array(places, np.int32)))
    return CpuCall(BY_OPERATOR["gather"], inputs, (target,), params)


def _axis(site: Site, size: int, out: int) -> tuple[int, int]:
    """Start and step of positions with ten bits behind the point."""
    step = (_ONE * size + out // 2) // out
    if site.option("AlignCorners") and out > 1:
        step = (_ONE * (size - 1) + (out - 1) // 2) // (out - 1)
    return (step // 2 - _ONE // 2 if site.option("HalfPixelCenters") else 0), step


def bilinear(site: Site) -> tuple[CpuCall, ...]:
    """Lower RESIZE_BILINEAR."""
    if site.op.is_unsigned or site.input().dtype == "FLOAT32":
        return _in_float(site)
    x, out = site.input(), site.output()
    batches, in_h, in_w, channels = x.shape
    out_h, out_w = out.shape[1:3]
    params = ResizeBilinearParams(
        batches, in_h, in_w, channels, out_h, out_w, *_axis(site, in_h, out_h), *_axis(site, in_w, out_w)
    )
    return (CpuCall(BY_TFLITE_OPERATOR["resize_bilinear"], (site.ref(),), (site.out(),), params),)


def _in_float(site: Site) -> tuple[CpuCall, ...]:
    """RESIZE_BILINEAR of float32, and of uint8, which the reference kernel interpolates in float32."""
    x, out = site.input(), site.output()
    batches, in_h, in_w, channels = x.shape
    out_h, out_w = out.shape[1:3]
    scale_h, scale_w = bits_of(_scale(site, in_h, out_h)), bits_of(_scale(site, in_w, out_w))
    params = ResizeBilinearF32Params(
        batches, in_h, in_w, channels, out_h, out_w, scale_h, scale_w, site.option("HalfPixelCenters")
    )
    return (CpuCall(BY_UNQUANTIZED["resize_bilinear_f32"], (site.ref(),), (site.out(),), params),)


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "RESIZE_NEAREST_NEIGHBOR": Lowering(nearest, ANY),
        "RESIZE_BILINEAR": Lowering(bilinear, ("INT8", "INT16", "FLOAT32")),
    }
)
