"""Operators that only move values, of any type, as strided copies."""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from deuteron.operators.cortex_m import BY_OPERATOR
from deuteron.operators.kernel_params import LutParams
from deuteron.tflite.cortex_m.call import Constant, CpuCall, FileTensor, Operand, Temporary
from deuteron.tflite.cortex_m.fixed_point import rounded
from deuteron.tflite.cortex_m.lowering import Lowering
from deuteron.tflite.cortex_m.operator_view import Site
from deuteron.tflite.cortex_m.padding import ANY
from deuteron.tflite.cortex_m.regions import Region, Shape, broadcast_strides, contiguous, copies, whole
from deuteron.tflite.flat_model import HINT_MALFORMED, FlatTensor


def _moved(
    site: Site,
    dims: Sequence[int],
    read: Region,
    written: Region,
    source: Operand | None = None,
    target: FileTensor | None = None,
) -> tuple[CpuCall, ...]:
    return copies(site.dtype(site.output()), source or site.ref(), target or site.out(), dims, read, written)


def same_order(site: Site) -> tuple[CpuCall, ...]:
    """Lower RESHAPE, SQUEEZE and EXPAND_DIMS: all bytes as they are. A planner may give both tensors one place."""
    shape = (math.prod(site.output().shape),)
    return _moved(site, shape, whole(shape), whole(shape))


def transpose(site: Site) -> tuple[CpuCall, ...]:
    """Lower TRANSPOSE."""
    site.same_quant(site.input(), site.output())
    order, steps, out = site.integers(1), contiguous(site.input().shape), site.output().shape
    return _moved(site, out, Region(0, tuple(steps[axis] for axis in order)), whole(out))


def concatenate(site: Site) -> tuple[CpuCall, ...]:
    """Lower CONCATENATION."""
    out = site.output()
    axis, steps, at = site.option("Axis") % len(out.shape), contiguous(out.shape), 0
    low, high = site.activation()
    if low is not None or high is not None:
        raise site.unsupported(
            "it has a fused activation function; NONE is allowed", "write the activation as an operator of its own"
        )
    calls: list[CpuCall] = []
    for position in range(len(site.op.inputs)):
        tensor = site.input(position)
        source: Operand = site.ref(position)
        written = Region(at * steps[axis], steps)
        if site.op.is_unsigned and _quant_of(tensor) != _quant_of(out):
            source = Temporary(tensor.shape, "int8")
            calls.append(_rescaled(site, position, source))
        else:
            site.same_quant(tensor, out)
        calls += _moved(site, tensor.shape, whole(tensor.shape), written, source)
        at += tensor.shape[axis]
    return tuple(calls)


def _quant_of(tensor: FlatTensor) -> object:
    return tensor.quant and (tensor.quant.scales, tensor.quant.zero_points)


def _rescaled(site: Site, position: int, target: Temporary) -> CpuCall:
    """A part of a concatenation of uint8 with the output's scale, in float32 as the reference kernel does it."""
    tensor, out = site.input(position), site.output()
    scale = site.scale(tensor) * (np.float32(1) / site.scale(out))
    stored = np.arange(256).astype(np.float32)
    steps = rounded(stored * scale + np.float32(-(site.zero_point(tensor) + 128)) * scale)
    table = np.clip(steps.astype(np.int64) + site.zero_point(out), -128, 127).astype(np.int8)
    params = LutParams(math.prod(tensor.shape))
    return CpuCall(BY_OPERATOR["quantized_activation"], (site.ref(position), Constant(table)), (target,), params)


def pack(site: Site) -> tuple[CpuCall, ...]:
    """Lower PACK."""
    out = site.output().shape
    axis, steps = site.option("Axis") % len(out), contiguous(out)
    calls: list[CpuCall] = []
    for position in range(len(site.op.inputs)):
        tensor = site.input(position)
        site.same_quant(tensor, site.output())
        written = Region(position * steps[axis], steps[:axis] + steps[axis + 1 :])
        calls += _moved(site, tensor.shape, whole(tensor.shape), written, site.ref(position))
    return tuple(calls)


def unpack(site: Site) -> tuple[CpuCall, ...]:
    """Lower UNPACK."""
    shape = site.input().shape
    axis, steps = site.option("Axis") % len(shape), contiguous(shape)
    calls: list[CpuCall] = []
    for position in range(len(site.op.outputs)):
        out = site.output(position)
        site.same_quant(site.input(), out)
        read = Region(position * steps[axis], steps[:axis] + steps[axis + 1 :])
        calls += _moved(site, out.shape, read, whole(out.shape), target=site.out(position))
    return tuple(calls)


def _split(value: int, axis_input: int) -> Callable[[Site], tuple[CpuCall, ...]]:
    """The parts of a split lie behind each other along the axis."""

    def lower(site: Site) -> tuple[CpuCall, ...]:
        x = site.input(value)
        axis, steps, at = site.integers(axis_input)[0] % len(x.shape), contiguous(x.shape), 0
        calls: list[CpuCall] = []
        for position in range(len(site.op.outputs)):
            out = site.output(position)
            site.same_quant(x, out)
            read = Region(at * steps[axis], steps)
            calls += _moved(site, out.shape, read, whole(out.shape), site.ref(value), site.out(position))
            at += out.shape[axis]
        return tuple(calls)

    return lower


def slice_of(site: Site) -> tuple[CpuCall, ...]:
    """Lower SLICE."""
    site.same_quant(site.input(), site.output())
    steps, out = contiguous(site.input().shape), site.output().shape
    start = sum(begin * step for begin, step in zip(site.integers(1), steps, strict=True))
    return _moved(site, out, Region(start, steps), whole(out))


def strided_slice(site: Site) -> tuple[CpuCall, ...]:
    """Lower STRIDED_SLICE with all of its masks."""
    site.same_quant(site.input(), site.output())
    start, strides, dims = _slices(site)
    return _moved(site, dims, Region(start, strides), whole(dims))


def _slices(site: Site) -> tuple[int, Shape, Shape]:
    """Where the slice starts, its strides, in elements, and its dimensions, those that the masks drop among them."""
    shape = site.input().shape
    begin, end, step = (list(site.integers(i)) for i in (1, 2, 3))
    masks = {name: site.option(f"{name}Mask") for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")}
    steps, start, axis = contiguous(shape), 0, 0
    dims, strides = list[int](), list[int]()
    new_axes = sum(masks["NewAxis"] >> i & 1 for i in range(len(begin)))
    for i in range(len(begin)):
        bit = 1 << i
        if masks["Ellipsis"] & bit:
            for _ in range(len(shape) - (len(begin) - 1 - new_axes)):
                dims.append(shape[axis])
                strides.append(steps[axis])
                axis += 1
            continue
        if masks["NewAxis"] & bit:
            dims.append(1)
            strides.append(0)
            continue
        first, count = _span(
            shape[axis],
            None if masks["Begin"] & bit else begin[i],
            None if masks["End"] & bit else end[i] + (begin[i] if site.option("Offset") else 0),
            step[i],
            shrinks=bool(masks["ShrinkAxis"] & bit),
        )
        start += first * steps[axis]
        dims.append(count)
        strides.append(step[i] * steps[axis])
        axis += 1
    for rest in range(axis, len(shape)):
        dims.append(shape[rest])
        strides.append(steps[rest])
    return start, tuple(strides), tuple(dims)


def _span(size: int, begin: int | None, end: int | None, step: int, *, shrinks: bool) -> tuple[int, int]:
    """The first index of a dimension's slice, and how many there are."""
    if shrinks:
        first = begin or 0
        return first + size if first < 0 else first, 1
    indices = range(size)[slice(begin, end, step)]
    return (indices[0] if indices else 0), len(indices)


def tile(site: Site) -> tuple[CpuCall, ...]:
    """Lower TILE."""
    site.same_quant(site.input(), site.output())
    dims, reads = list[int](), list[int]()
    shape = site.input().shape
    for size, step, times in zip(shape, contiguous(shape), site.integers(1), strict=True):
        dims += [times, size]
        reads += [0, step]
    return _moved(site, dims, Region(0, tuple(reads)), whole(dims))


def broadcast(site: Site) -> tuple[CpuCall, ...]:
    """Lower BROADCAST_TO."""
    site.same_quant(site.input(), site.output())
    out = site.output().shape
    return _moved(site, out, Region(0, broadcast_strides(site.input().shape, out)), whole(out))


def reverse(site: Site) -> tuple[CpuCall, ...]:
    """Lower REVERSE_V2."""
    site.same_quant(site.input(), site.output())
    shape = site.input().shape
    strides, start = list(contiguous(shape)), 0
    for axis in site.integers(1):
        at = axis % len(shape)
        start += (shape[at] - 1) * strides[at]
        strides[at] = -strides[at]
    return _moved(site, shape, Region(start, tuple(strides)), whole(shape))


def space_to_depth(site: Site) -> tuple[CpuCall, ...]:
    """Lower SPACE_TO_DEPTH."""
    site.same_quant(site.input(), site.output())
    return _blocks(site, site.input().shape, inwards=True)


def depth_to_space(site: Site) -> tuple[CpuCall, ...]:
    """Lower DEPTH_TO_SPACE."""
    site.same_quant(site.input(), site.output())
    return _blocks(site, site.output().shape, inwards=False)


def _blocks(site: Site, large: Shape, *, inwards: bool) -> tuple[CpuCall, ...]:
    """Blocks of pixels of the larger map are the channels of the other one."""
    n, height, width, channels = large
    block = site.option("BlockSize", 1)
    dims = (n, height // block, width // block, block, block, channels)
    a, b, c, _ = contiguous(large)
    spread = Region(0, (a, b * block, c * block, b, c, 1))
    return _moved(site, dims, spread, whole(dims)) if inwards else _moved(site, dims, whole(dims), spread)


def batch_to_space(site: Site) -> tuple[CpuCall, ...]:
    """Lower BATCH_TO_SPACE_ND: batches are the places in a block, and crops leave out borders of the result."""
    site.same_quant(site.input(), site.output())
    out = site.output().shape
    return _batches(site, site.input().shape, out, [first for first, _ in _pairs(site)], writes_space=True)


def space_to_batch(site: Site) -> tuple[CpuCall, ...]:
    """Lower SPACE_TO_BATCH_ND: as BATCH_TO_SPACE_ND the other way round, with padding in the place of crops."""
    from deuteron.tflite.cortex_m.padding import fill

    x, out = site.input(), site.output()
    site.same_quant(x, out)
    pads = _pairs(site)
    moved = _batches(site, out.shape, x.shape, [first for first, _ in pads], writes_space=False)
    if all(pad == (0, 0) for pad in pads):
        return moved
    value = site.zero_point(out) if out.dtype in ("INT8", "UINT8") else 0
    return (fill(site.out(), value, site.dtype(out)), *moved)


def _pairs(site: Site) -> list[tuple[int, int]]:
    values = site.integers(2)
    return list(zip(values[::2], values[1::2], strict=True))


def _batches(
    site: Site, batched: Shape, space: Shape, skipped: list[int], *, writes_space: bool
) -> tuple[CpuCall, ...]:
    """Copies between batches of small maps and one of large ones: one per place in a block."""
    block = site.integers(1)
    spatial = len(block)
    if min(block, default=0) < 1 or batched[0] != space[0] * math.prod(block):
        message = f"blocks of {block} do not make shape {list(batched)} of shape {list(space)}"
        raise site.unsupported(message, HINT_MALFORMED)
    steps, small = contiguous(space), contiguous(batched)
    calls: list[CpuCall] = []
    for place in np.ndindex(*block):
        index = int(np.ravel_multi_index(place, block))
        dims, first_space, first_small = [space[0]], list[int](), list[int]()
        for axis in range(spatial):
            # Pixels y with block * k + place - skipped inside the large map.
            least = max(0, -((place[axis] - skipped[axis]) // block[axis]))
            most = (space[1 + axis] - 1 - place[axis] + skipped[axis]) // block[axis]
            dims.append(max(0, min(most, batched[1 + axis] - 1) - least + 1))
            first_small.append(least)
            first_space.append(least * block[axis] + place[axis] - skipped[axis])
        dims += space[1 + spatial :]
        large = Region(
            sum(f * s for f, s in zip(first_space, steps[1:], strict=False)),
            (steps[0], *(s * b for s, b in zip(steps[1:], block, strict=False)), *steps[1 + spatial :]),
        )
        part = Region(
            index * space[0] * small[0] + sum(f * s for f, s in zip(first_small, small[1:], strict=False)), small
        )
        calls += _moved(site, dims, part, large) if writes_space else _moved(site, dims, large, part)
    return tuple(calls)


OPERATORS: Mapping[str, Lowering] = MappingProxyType(
    {
        "RESHAPE": Lowering(same_order, ANY),
        "SQUEEZE": Lowering(same_order, ANY),
        "EXPAND_DIMS": Lowering(same_order, ANY),
        "TRANSPOSE": Lowering(transpose, ANY),
        "CONCATENATION": Lowering(concatenate, ANY, note="one scale and zero point for all operands"),
        "PACK": Lowering(pack, ANY),
        "UNPACK": Lowering(unpack, ANY),
        "SPLIT": Lowering(_split(1, 0), ANY, operand=1),
        "SPLIT_V": Lowering(_split(0, 2), ANY),
        "SLICE": Lowering(slice_of, ANY, note="constant begin and size"),
        "STRIDED_SLICE": Lowering(strided_slice, ANY, note="constant begin, end and strides"),
        "TILE": Lowering(tile, ANY, note="constant multiples"),
        "BROADCAST_TO": Lowering(broadcast, ANY),
        "REVERSE_V2": Lowering(reverse, ANY, note="constant axes"),
        "SPACE_TO_DEPTH": Lowering(space_to_depth, ANY),
        "DEPTH_TO_SPACE": Lowering(depth_to_space, ANY),
        "SPACE_TO_BATCH_ND": Lowering(space_to_batch, ANY, note="constant blocks and paddings"),
        "BATCH_TO_SPACE_ND": Lowering(batch_to_space, ANY, note="constant blocks and crops"),
    }
)
