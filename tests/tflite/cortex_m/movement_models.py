"""Random models of the operators that only move values: `MODELS[name](rng)`."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from tests.tflite.cortex_m.models import QUANTIZED, Make, Rng, constant, model, quant, resize, shape, tensor

from deuteron.tflite.flat_model import FlatModel, FlatTensor
from deuteron.tflite.quantization import Quant


def _quant(rng: Rng, dtype: str) -> Quant | None:
    return quant(rng, dtype) if dtype in QUANTIZED else None


def reshape(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5))), _quant(rng, dtype)
        out = dims[::-1] if rng.integers(2) else (math.prod(dims), 1)
        return model("RESHAPE", [tensor("x", dims, dtype, q), constant("s", out)], [tensor("y", out, dtype, q)])

    return make


def transpose(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 6)), 5), _quant(rng, dtype)
        order = rng.permutation(len(dims))
        out = [dims[axis] for axis in order]
        operands = [tensor("x", dims, dtype, q), constant("perm", order)]
        return model("TRANSPOSE", operands, [tensor("y", out, dtype, q)], "TransposeOptions")

    return make


def concatenation(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = list(shape(rng, int(rng.integers(1, 5)))), _quant(rng, dtype)
        axis, count = int(rng.integers(len(dims))), int(rng.integers(1, 5))
        parts: list[FlatTensor] = []
        for i in range(count):
            part = [*dims]
            part[axis] = int(rng.integers(1, 5))
            parts.append(
                tensor(f"x{i}", part, dtype, _quant(rng, dtype) if dtype == "UINT8" and rng.integers(2) else q)
            )
        out = [*dims]
        out[axis] = sum(part.shape[axis] for part in parts)
        options = {"Axis": axis - len(dims) if rng.integers(2) else axis, "FusedActivationFunction": 0}
        return model("CONCATENATION", parts, [tensor("y", out, dtype, q)], "ConcatenationOptions", options)

    return make


def pack(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 4))), _quant(rng, dtype)
        count, axis = int(rng.integers(1, 5)), int(rng.integers(len(dims) + 1))
        parts = [tensor(f"x{i}", dims, dtype, q) for i in range(count)]
        out = (*dims[:axis], count, *dims[axis:])
        options = {"ValuesCount": count, "Axis": axis}
        return model("PACK", parts, [tensor("y", out, dtype, q)], "PackOptions", options)

    return make


def unpack(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5))), _quant(rng, dtype)
        axis = int(rng.integers(len(dims)))
        parts = [tensor(f"y{i}", dims[:axis] + dims[axis + 1 :], dtype, q) for i in range(dims[axis])]
        options = {"Num": dims[axis], "Axis": axis}
        return model("UNPACK", [tensor("x", dims, dtype, q)], parts, "UnpackOptions", options)

    return make


def split(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = list(shape(rng, int(rng.integers(1, 5)))), _quant(rng, dtype)
        axis, count = int(rng.integers(len(dims))), int(rng.integers(1, 5))
        part = [*dims]
        dims[axis] *= count
        parts = [tensor(f"y{i}", part, dtype, q) for i in range(count)]
        operands = [constant("axis", axis), tensor("x", dims, dtype, q)]
        return model("SPLIT", operands, parts, "SplitOptions", {"NumSplits": count})

    return make


def split_v(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = list(shape(rng, int(rng.integers(1, 5)))), _quant(rng, dtype)
        axis = int(rng.integers(len(dims)))
        sizes = [int(v) for v in rng.integers(1, 5, int(rng.integers(1, 4)))]
        parts: list[FlatTensor] = []
        for i, size in enumerate(sizes):
            part = [*dims]
            part[axis] = size
            parts.append(tensor(f"y{i}", part, dtype, q))
        dims[axis] = sum(sizes)
        operands = [tensor("x", dims, dtype, q), constant("sizes", sizes), constant("axis", axis)]
        return model("SPLIT_V", operands, parts, "SplitVOptions", {"NumSplits": len(sizes)})

    return make


def slice_(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5)), 8), _quant(rng, dtype)
        begin = [int(rng.integers(d)) for d in dims]
        size = [int(rng.integers(1, d - b + 1)) for b, d in zip(begin, dims, strict=True)]
        asked = [-1 if b + s == d and rng.integers(2) else s for b, s, d in zip(begin, size, dims, strict=True)]
        operands = [tensor("x", dims, dtype, q), constant("begin", begin), constant("size", asked)]
        return model("SLICE", operands, [tensor("y", size, dtype, q)], "SliceOptions")

    return make


def strided_slice(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5)), 8), _quant(rng, dtype)
        masks = {"BeginMask": 0, "EndMask": 0, "EllipsisMask": 0, "NewAxisMask": 0, "ShrinkAxisMask": 0}
        begin, end, steps, out = list[int](), list[int](), list[int](), list[int]()
        count = int(rng.integers(1, len(dims) + 1))
        for i in range(count):
            first, last = sorted(int(v) for v in rng.choice(dims[i] + 1, 2, replace=False))
            step = int(rng.integers(1, 4))
            backwards = bool(rng.integers(4) == 0)
            start, stop = (first, last) if not backwards else (last - 1, first - 1)
            if rng.integers(4) == 0 and not backwards:
                masks["BeginMask"] |= 1 << i
                start = 0
            if rng.integers(4) == 0 or stop < 0:
                masks["EndMask"] |= 1 << i
                stop = -1 if backwards else dims[i]
            if rng.integers(5) == 0 and not backwards:
                masks["ShrinkAxisMask"] |= 1 << i
                masks["BeginMask"] &= ~(1 << i)
                masks["EndMask"] &= ~(1 << i)
                stop, step, start = first + 1, 1, first
            else:
                out.append(len(range(start, stop, -step if backwards else step)))
            begin.append(start - dims[i] if rng.integers(2) else start)
            end.append(stop)
            steps.append(-step if backwards else step)
        out += dims[count:]
        named = zip(("begin", "end", "strides"), (begin, end, steps), strict=True)
        operands = [tensor("x", dims, dtype, q), *(constant(n, v) for n, v in named)]
        options = {**masks, "Offset": 0}
        return model("STRIDED_SLICE", operands, [tensor("y", out, dtype, q)], "StridedSliceOptions", options)

    return make


def tile(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 4)), 4), _quant(rng, dtype)
        times = [int(v) for v in rng.integers(1, 4, len(dims))]
        out = [d * t for d, t in zip(dims, times, strict=True)]
        operands = [tensor("x", dims, dtype, q), constant("times", times)]
        return model("TILE", operands, [tensor("y", out, dtype, q)], "TileOptions")

    return make


def broadcast_to(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        out, q = shape(rng, int(rng.integers(1, 5))), _quant(rng, dtype)
        dims = tuple(d if rng.integers(2) else 1 for d in out)
        operands = [tensor("x", dims, dtype, q), constant("shape", out)]
        return model("BROADCAST_TO", operands, [tensor("y", out, dtype, q)], "BroadcastToOptions")

    return make


def reverse(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5))), _quant(rng, dtype)
        operands = [tensor("x", dims, dtype, q), constant("axis", [int(rng.integers(len(dims)))])]
        return model("REVERSE_V2", operands, [tensor("y", dims, dtype, q)], "ReverseV2Options")

    return make


def blocks(name: str, dtype: str) -> Make:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE."""

    def make(rng: Rng) -> FlatModel:
        (n, h, w, c), block, q = shape(rng, 4, 4), int(rng.integers(1, 4)), _quant(rng, dtype)
        large, small = (n, h * block, w * block, c), (n, h, w, c * block * block)
        x, y = (large, small) if name == "SPACE_TO_DEPTH" else (small, large)
        kind = "SpaceToDepthOptions" if name == "SPACE_TO_DEPTH" else "DepthToSpaceOptions"
        return model(name, [tensor("x", x, dtype, q)], [tensor("y", y, dtype, q)], kind, {"BlockSize": block})

    return make


def batches(name: str, dtype: str) -> Make:
    """SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND."""

    def make(rng: Rng) -> FlatModel:
        n, c, q = int(rng.integers(1, 3)), int(rng.integers(1, 5)), _quant(rng, dtype)
        block = [int(v) for v in rng.integers(1, 4, 2)]
        inner = [int(v) for v in rng.integers(2, 5, 2)]
        cut = [[int(rng.integers(0, b * 1 + 1)), int(rng.integers(0, b * 1))] for b in block]
        space = [i * b - sum(p) for i, b, p in zip(inner, block, cut, strict=True)]
        while min(space) < 1:
            cut = [[0, 0], [0, 0]]
            space = [i * b for i, b in zip(inner, block, strict=True)]
        large, small = (n, *space, c), (n * math.prod(block), *inner, c)
        x, y = (large, small) if name == "SPACE_TO_BATCH_ND" else (small, large)
        operands = [tensor("x", x, dtype, q), constant("block", block), constant("cut", cut)]
        return model(name, operands, [tensor("y", y, dtype, q)])

    return make


def gather(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5))), _quant(rng, dtype)
        axis = int(rng.integers(len(dims)))
        batches = int(rng.integers(axis + 1)) if rng.integers(2) else 0
        rest = shape(rng, int(rng.integers(1, 3)))
        indices = rng.integers(0, dims[axis], (*dims[:batches], *rest))
        out = (*dims[:axis], *rest, *dims[axis + 1 :])
        operands = [tensor("x", dims, dtype, q), constant("i", indices, str(rng.choice(["INT32", "INT64"])))]
        options = {"Axis": axis, "BatchDims": batches}
        return model("GATHER", operands, [tensor("y", out, dtype, q)], "GatherOptions", options)

    return make


def gather_nd(dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5))), _quant(rng, dtype)
        depth, count = int(rng.integers(1, len(dims) + 1)), shape(rng, int(rng.integers(1, 3)))
        indices = np.stack([rng.integers(0, size, count) for size in dims[:depth]], -1)
        out = (*count, *dims[depth:])
        operands = [tensor("x", dims, dtype, q), constant("i", indices, str(rng.choice(["INT32", "INT64"])))]
        return model("GATHER_ND", operands, [tensor("y", out, dtype, q)], "GatherNdOptions", {})

    return make


def embedding_lookup(dtype: str) -> Make:
    """Rows; of int8 half the time the numbers that they stand for, with a scale for the table or for each row."""

    def make(rng: Rng) -> FlatModel:
        rows, count, dims = int(rng.integers(1, 20)), int(rng.integers(1, 9)), shape(rng, int(rng.integers(1, 4)))
        q, result = _quant(rng, dtype), dtype
        if dtype == "INT8" and rng.integers(2):
            scales = tuple(float(np.float32(v)) for v in rng.uniform(1e-3, 1, rows if rng.integers(2) else 1))
            q, result = Quant(scales, (0,) * len(scales), 0 if len(scales) > 1 else None), "FLOAT32"
        operands = [constant("i", rng.integers(0, rows, count)), tensor("table", (rows, *dims), dtype, q)]
        y = tensor("y", (count, *dims), result, q if result == dtype else None)
        return model("EMBEDDING_LOOKUP", operands, [y])

    return make


def update_slice(dtype: str) -> Make:
    """DYNAMIC_UPDATE_SLICE with starts that are constant or, nearly all of them too far out, computed."""

    def make(rng: Rng) -> FlatModel:
        dims, q, index = shape(rng, int(rng.integers(1, 6))), _quant(rng, dtype), str(rng.choice(["INT32", "INT64"]))
        part = [int(rng.integers(1, size + 1)) for size in dims]
        starts = constant("s", rng.integers(-2, 7, len(dims)), index)
        if rng.integers(3) == 0:
            starts = tensor("s", (len(dims),), index)
        operands = [tensor("x", dims, dtype, q), tensor("u", part, dtype, q), starts]
        return model("DYNAMIC_UPDATE_SLICE", operands, [tensor("y", dims, dtype, q)], "DynamicUpdateSliceOptions")

    return make


def pad(name: str, dtype: str) -> Make:
    def make(rng: Rng) -> FlatModel:
        dims, q = shape(rng, int(rng.integers(1, 5))), _quant(rng, dtype)
        most = 4
        pads = [[int(v) for v in rng.integers(0, most, 2)] for _ in dims]
        if name == "MIRROR_PAD":
            mode = int(rng.integers(2))
            pads = [[min(v, d - 1 + mode) for v in p] for p, d in zip(pads, dims, strict=True)]
        out = [d + sum(p) for d, p in zip(dims, pads, strict=True)]
        operands = [tensor("x", dims, dtype, q), constant("pads", pads)]
        if name == "PADV2":
            operands.append(constant("value", [int(rng.integers(0, 100))], dtype, q))
        kind, options = {"PAD": "PadOptions", "PADV2": "PadV2Options", "MIRROR_PAD": "MirrorPadOptions"}[name], {}
        if name == "MIRROR_PAD":
            options = {"Mode": mode}
        return model(name, operands, [tensor("y", out, dtype, q)], kind, options)

    return make


_MOVERS: Mapping[str, tuple[Callable[[str], Make], tuple[str, ...]]] = {
    "reshape": (reshape, ("INT8", "FLOAT32")),
    "transpose": (transpose, ("INT8", "INT16", "INT32", "FLOAT32")),
    "concatenation": (concatenation, ("UINT8", "INT8", "INT16", "INT32", "FLOAT32")),
    "pack": (pack, ("INT8", "INT16", "INT32", "FLOAT32")),
    "unpack": (unpack, ("INT8", "INT16", "INT32", "FLOAT32")),
    "split": (split, ("INT8", "INT16", "INT32", "FLOAT32")),
    "split_v": (split_v, ("INT8", "INT16", "INT32", "FLOAT32")),
    "slice": (slice_, ("INT8", "INT16", "INT32", "FLOAT32", "BOOL")),
    "strided_slice": (strided_slice, ("INT8", "INT16", "INT32", "FLOAT32")),
    "tile": (tile, ("INT8", "INT32", "FLOAT32", "BOOL")),
    "broadcast_to": (broadcast_to, ("INT8", "INT32", "FLOAT32", "BOOL")),
    "reverse_v2": (reverse, ("INT16", "INT32", "FLOAT32", "BOOL")),
    "space_to_depth": (lambda t: blocks("SPACE_TO_DEPTH", t), ("INT8", "FLOAT32")),
    "depth_to_space": (lambda t: blocks("DEPTH_TO_SPACE", t), ("INT8", "FLOAT32")),
    "space_to_batch_nd": (lambda t: batches("SPACE_TO_BATCH_ND", t), ("INT8", "INT32", "FLOAT32")),
    "batch_to_space_nd": (lambda t: batches("BATCH_TO_SPACE_ND", t), ("INT8", "INT32", "FLOAT32")),
    "gather": (gather, ("INT8", "INT16", "INT32", "FLOAT32", "BOOL")),
    "gather_nd": (gather_nd, ("INT8", "INT16", "INT32", "FLOAT32", "BOOL")),
    "embedding_lookup": (embedding_lookup, ("INT8", "FLOAT32")),
    "dynamic_update_slice": (update_slice, ("UINT8", "INT8", "INT16", "INT32", "INT64", "FLOAT32", "BOOL")),
    "pad": (lambda t: pad("PAD", t), ("UINT8", "INT8", "INT16", "INT32", "FLOAT32")),
    "padv2": (lambda t: pad("PADV2", t), ("INT8", "INT16", "INT32", "FLOAT32")),
    "mirror_pad": (lambda t: pad("MIRROR_PAD", t), ("INT8", "INT32", "FLOAT32")),
    "resize_nearest_neighbor": (lambda t: resize("RESIZE_NEAREST_NEIGHBOR", t), ("INT8", "INT16")),
}
MODELS: Mapping[str, Make] = {
    f"{name}-{dtype}": make(dtype) for name, (make, dtypes) in _MOVERS.items() for dtype in dtypes
}
"""A generator per operator and type."""
