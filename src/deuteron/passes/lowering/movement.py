"""Operators that move bytes: all become strided copies, with a fill before them for padding."""

from collections.abc import Sequence

from deuteron.ir.ops import Concat, Op, Pad, Reshape, Slice, Transpose
from deuteron.kernels import params as p
from deuteron.kernels.catalogue import COPY, FILL
from deuteron.kernels.program import Ref
from deuteron.kernels.rules import reach
from deuteron.passes.lowering.builder import Builder
from deuteron.passes.lowering.strides import Ints, collapse, contiguous_strides, fill_rank


def reshape(build: Builder, op: Reshape) -> None:
    """A reshape shares its input's storage; only between two buffers of the caller it takes a copy."""
    (source,), (output,) = op.inputs, op.outputs
    if build.graph.tensor(source).is_const or not build.alias(output, source):
        copy_whole(build, op, source, build.tensor(output))


def copy_whole(build: Builder, op: Op, source: str, target: Ref) -> None:
    """Copies all bytes of tensor `source` to `target`."""
    move_box(build, op, (target.nbytes,), (build.tensor(source), 0, (1,)), (target, 0, (1,)))


def transpose(build: Builder, op: Transpose) -> None:
    """A copy that reads the input's dimensions in the order of the output."""
    _, strides = _layout(build, op.inputs[0])
    walk = tuple(strides[axis] for axis in op.perm)
    dims, out = _layout(build, op.outputs[0])
    move_box(build, op, dims, (build.tensor(op.inputs[0]), 0, walk), (build.tensor(op.outputs[0]), 0, out))


def slice_(build: Builder, op: Slice) -> None:
    """A copy of a box of the input."""
    _, strides = _layout(build, op.inputs[0])
    dims, out = _layout(build, op.outputs[0])
    source = (build.tensor(op.inputs[0]), _offset(op.begin, strides), strides)
    move_box(build, op, dims, source, (build.tensor(op.outputs[0]), 0, out))


def pad(build: Builder, op: Pad) -> None:
    """A fill of the whole output, then a copy of the input into its middle."""
    target = build.tensor(op.outputs[0])
    build.call(op, FILL, (target,), p.FillParams(target.nbytes, op.value))
    dims, strides = _layout(build, op.inputs[0])
    _, out = _layout(build, op.outputs[0])
    offset = _offset([before for before, _ in op.paddings], out)
    move_box(build, op, dims, (build.tensor(op.inputs[0]), 0, strides), (target, offset, out))


def concat(build: Builder, op: Concat) -> None:
    """One copy per input."""
    _, out = _layout(build, op.outputs[0])
    target = build.tensor(op.outputs[0])
    at = 0
    for name in op.inputs:
        dims, strides = _layout(build, name)
        move_box(build, op, dims, (build.tensor(name), 0, strides), (target, at * out[op.axis], out))
        at += dims[op.axis]


Side = tuple[Ref, int, Ints]
"""A tensor, the byte at which a box starts in it, and the bytes from one index to the next."""


def move_box(build: Builder, op: Op, shape: Ints, source: Side, target: Side) -> None:
    """One copy call that moves a box of bytes."""
    dims, (read, write) = collapse(shape, (source[2], target[2]))
    if len(dims) > p.RANK:
        raise build.unsupported(op, f"the copy takes {len(dims)} dimensions to describe, at most {p.RANK} are allowed")
    params = p.CopyParams(_dims6(dims, 1), _dims6(read, 0), _dims6(write, 0))
    operands = (
        Ref(source[0].buffer, source[0].offset + source[1], reach(dims, read)),
        Ref(target[0].buffer, target[0].offset + target[1], reach(dims, write)),
    )
    build.call(op, COPY, operands, params)


def _layout(build: Builder, name: str) -> tuple[Ints, Ints]:
    """The shape and the strides of a tensor, whose elements are bytes."""
    shape = build.type(name).shape
    return shape, contiguous_strides(shape)


def _offset(index: Sequence[int], strides: Ints) -> int:
    """Bytes before the element at `index`."""
    return sum(at * stride for at, stride in zip(index, strides, strict=True))


def _dims6(values: Ints, filler: int) -> p.Dims6:
    d0, d1, d2, d3, d4, d5 = fill_rank(values, p.RANK, filler)
    return d0, d1, d2, d3, d4, d5
