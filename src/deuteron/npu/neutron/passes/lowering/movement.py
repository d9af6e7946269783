"""Operators that move bytes: all become strided copies, with a fill before them for padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from deuteron.npu.neutron.ir.ops import Concat, MirrorPad, Op, Pad, Pair, Reshape, Slice, Transpose
from deuteron.npu.neutron.kernels.catalogue import COPY, FILL
from deuteron.npu.neutron.passes.lowering.builder import Builder
from deuteron.npu.neutron.passes.lowering.strides import Ints, collapse, contiguous_strides, fill_rank
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Ref
from deuteron.operators.rules import reach, reach_back


def reshape(build: Builder, op: Reshape) -> None:
    """A reshape shares its input's storage, except between two buffers of the caller, which is a copy."""
    (source,), (output,) = op.inputs, op.outputs
    if build.graph.tensor(source).is_const or not build.alias(output, source):
        target = build.tensor(output)
        move_box(build, op, (target.nbytes,), (build.tensor(source), 0, (1,)), (target, 0, (1,)))


def transpose(build: Builder, op: Transpose) -> None:
    """A copy that reads the input's dimensions in the order of the output."""
    _, strides = _layout(build, op.inputs[0])
    walk = tuple(strides[axis] for axis in op.perm)
    dims, out = _layout(build, op.outputs[0])
    move_box(build, op, dims, (build.tensor(op.inputs[0]), 0, walk), (build.tensor(op.outputs[0]), 0, out))


def slice_(build: Builder, op: Slice) -> None:
    """A contiguous slice shares its input's storage; other slices, and those between two aliases, are copies."""
    shape, strides = _layout(build, op.inputs[0])
    dims, out = _layout(build, op.outputs[0])
    at = _offset(op.begin, strides)
    in_place = _is_contiguous(shape, dims) and not build.graph.tensor(op.inputs[0]).is_const
    if in_place and build.alias(op.outputs[0], op.inputs[0], at):
        return
    source = (build.tensor(op.inputs[0]), at, strides)
    move_box(build, op, dims, source, (build.tensor(op.outputs[0]), 0, out))


def pad(build: Builder, op: Pad) -> None:
    """A fill of the whole output, then a copy of the input into its middle."""
    target = build.tensor(op.outputs[0])
    build.call(op, FILL, (target,), p.FillParams(target.nbytes, op.value))
    dims, strides = _layout(build, op.inputs[0])
    _, out = _layout(build, op.outputs[0])
    offset = _offset([before for before, _ in op.paddings], out)
    move_box(build, op, dims, (build.tensor(op.inputs[0]), 0, strides), (target, offset, out))


def mirror_pad(build: Builder, op: MirrorPad) -> None:
    """One copy for each side, edge and corner; the strips next to the map are read backwards."""
    shape, read = _layout(build, op.inputs[0])
    _, write = _layout(build, op.outputs[0])
    for strips in product(*(_strips(dim, pads) for dim, pads in zip(shape, op.paddings, strict=True))):
        walk = tuple(strip.step * stride for strip, stride in zip(strips, read, strict=True))
        source = (build.tensor(op.inputs[0]), _offset([strip.source for strip in strips], read), walk)
        target = (build.tensor(op.outputs[0]), _offset([strip.target for strip in strips], write), write)
        move_box(build, op, tuple(strip.size for strip in strips), source, target)


@dataclass(frozen=True, slots=True)
class _Strip:
    """Elements of one axis: `size` output elements from `target` are input elements from `source`, `step` apart."""

    source: int
    target: int
    size: int
    step: int


def _strips(dim: int, pads: Pair) -> tuple[_Strip, ...]:
    """Return the strips before, in and after the map along one axis of a mirroring pad."""
    before, after = pads
    strips = (_Strip(before, 0, before, -1), _Strip(0, before, dim, 1), _Strip(dim - 2, before + dim, after, -1))
    return tuple(strip for strip in strips if strip.size > 0)


def concat(build: Builder, op: Concat) -> None:
    """One copy per input that is not computed in place."""
    _, out = _layout(build, op.outputs[0])
    target = build.tensor(op.outputs[0])
    at = 0
    for name in op.inputs:
        dims, strides = _layout(build, name)
        source, offset = build.tensor(name), at * out[op.axis]
        if source != Ref(target.buffer, target.offset + offset, source.nbytes):
            move_box(build, op, dims, (source, 0, strides), (target, offset, out))
        at += dims[op.axis]


Side = tuple[Ref, int, Ints]
"""A tensor, the start of a box in bytes, and its strides in bytes; those of a source may be negative.
"""


def move_box(build: Builder, op: Op, shape: Ints, source: Side, target: Side) -> None:
    """Append one copy call that moves a box of bytes."""
    dims, (read, write) = collapse(shape, (source[2], target[2]))
    if len(dims) > p.RANK:
        raise build.unsupported(op, f"the copy takes {len(dims)} dimensions to describe, at most {p.RANK} are allowed")
    back = reach_back(dims, read)
    params = p.CopyParams(back, _dims6(dims, 1), _dims6(read, 0), _dims6(write, 0))
    operands = (
        Ref(source[0].buffer, source[0].offset + source[1] - back, back + reach(dims, read)),
        Ref(target[0].buffer, target[0].offset + target[1], reach(dims, write)),
    )
    build.call(op, COPY, operands, params)


def _layout(build: Builder, name: str) -> tuple[Ints, Ints]:
    """Return the shape and the strides of a tensor in bytes."""
    shape = build.type(name).shape
    return shape, contiguous_strides(shape)


def _is_contiguous(shape: Ints, box: Ints) -> bool:
    """Return True if a box of a row-major array is contiguous: full in all dimensions after one, and 1 before it."""
    cut = [axis for axis, (dim, size) in enumerate(zip(shape, box, strict=True)) if size != dim]
    return not cut or max(box[: cut[-1]], default=1) == 1


def _offset(index: Sequence[int], strides: Ints) -> int:
    """Return the bytes before the element at `index`."""
    return sum(at * stride for at, stride in zip(index, strides, strict=True))


def _dims6(values: Ints, filler: int) -> p.Dims6:
    d0, d1, d2, d3, d4, d5 = fill_rank(values, p.RANK, filler)
    return d0, d1, d2, d3, d4, d5
