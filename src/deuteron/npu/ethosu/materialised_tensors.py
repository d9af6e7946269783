"""Finds the tensors of a TOSA graph that are whole in memory after an operation, and their layout.

An operation of Vela's schedule computes several TOSA operators, and writes the result of the last. If that is written
whole to one place, it can be compared with the TOSA reference of the operator. Parts that overwrite each other, as in a
cascade, and values inside the NPU cannot.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from deuteron.npu.dataflow import Dataflow
from deuteron.npu.ethosu.origins import FREE
from deuteron.npu.ethosu.stream import FeatureMap, Span, Stream
from deuteron.npu.ethosu.tosa import CONSTANTS, Graph
from deuteron.npu.provenance import KernelOrigin

Array = npt.NDArray[np.generic]
_BRICK = 16
"""Channels of a brick."""
_NOWHERE = ("chain", "accumulators")
"""Prefix of names that are no memory."""


@dataclass(frozen=True, slots=True)
class MaterialisedTensor:
    """A tensor that is whole in memory after an operation.

    Attributes:
        name: name in the graph.
        op: the operator that computes it.
        after: index of the last operation of the stream that writes it, with copies.
        place: its bytes in memory.
        dtype: numpy name of the element type.
        shape: shape in the graph.
        bricks: rows, bricks per row and pixels per brick in NHCWB16 layout; else None.
    """

    name: str
    op: int
    after: int
    place: Span
    dtype: str
    shape: tuple[int, ...]
    bricks: tuple[int, int, int] | None

    def values(self, data: bytes) -> Array:
        """Return its elements in the order of the graph, from the bytes at its place."""
        flat = np.frombuffer(data, self.dtype)
        if self.bricks is not None:
            rows, bricks, pixels = self.bricks
            channels = self.shape[-1]
            turned = flat.reshape(rows, bricks, pixels, _BRICK).transpose(0, 2, 1, 3)
            flat = turned.reshape(rows, pixels, -1)[:, :, :channels]
        return flat.reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Seen:
    """Tensors of a partition that can be compared during a run.

    Attributes:
        kept: the tensors that are whole in memory, in order of time.
        computed: operators that compute something on the NPU.
        parted: those whose result is in memory, but never whole, or in an unsupported layout.
    """

    kept: tuple[MaterialisedTensor, ...] = ()
    computed: tuple[int, ...] = ()
    parted: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    """The part of a tensor from `start` on that an operation writes."""

    number: int
    written: FeatureMap
    start: int
    is_turned: bool


def seen(stream: Stream, graph: Graph, kernels: Sequence[KernelOrigin], values: Dataflow) -> Seen:
    """Return the tensors that can be compared; `values` name the tensor that each operation writes."""
    sources = {name: index for index, operator in enumerate(graph.operators) for name in operator.outputs}
    writes: dict[str, list[_Piece]] = {}
    numbers = [number for number, operation in enumerate(stream.operations) if operation.output is not None]
    for number, uses in zip(numbers, values.uses(), strict=True):
        operation = stream.operations[number]
        use, output = uses[-1], operation.output
        if output is not None and use.buffer in sources and not output.memory.startswith(_NOWHERE):
            piece = _Piece(number, output, output.offset - use.offset, is_turned=bool(operation.turn))
            writes.setdefault(use.buffer, []).append(piece)
    kept: list[MaterialisedTensor] = []
    parted: set[int] = set()
    for name, pieces in writes.items():
        op = _behind(graph, sources, name)
        place = _place(pieces, graph.shapes[name], graph.dtypes.get(name))
        if place is None:
            parted.add(op)
        else:
            span, bricks = place
            dtype, shape = graph.dtypes[name], graph.shapes[name]
            kept.append(MaterialisedTensor(name, op, pieces[-1].number, span, dtype, shape, bricks))
    known = {tensor.op for tensor in kept}
    nothing = CONSTANTS | FREE
    computed = {op for kernel in kernels for op in kernel.ops if graph.operators[op].name not in nothing} | known
    return Seen(
        tuple(sorted(kept, key=lambda tensor: tensor.after)), tuple(sorted(computed)), tuple(sorted(parted - known))
    )


def _behind(graph: Graph, sources: Mapping[str, int], name: str) -> int:
    """Return the operator that computes a tensor, not one that only reshapes it."""
    index = sources[name]
    while graph.operators[index].name in FREE and graph.operators[index].inputs[0] in sources:
        index = sources[graph.operators[index].inputs[0]]
    return index


def _place(
    pieces: Sequence[_Piece], shape: tuple[int, ...], dtype: str | None
) -> tuple[Span, tuple[int, int, int] | None] | None:
    """Return the place of a tensor that is written in pieces, and its bricks, if any; None if it is not whole."""
    maps = [piece.written for piece in pieces]
    first, start = maps[0], pieces[0].start
    layouts = {(one.memory, one.dtype, one.in_bricks, one.strides if one.in_bricks else None) for one in maps}
    size = np.dtype(first.dtype).itemsize
    if dtype is None or len(layouts) != 1 or size != np.dtype(dtype).itemsize:
        return None
    if sum(prod(one.shape) for one in maps) != prod(shape):
        return None
    bricks = _bricks(first, size, shape) if first.in_bricks else None
    if first.in_bricks and bricks is None:
        return None
    nbytes = size * (prod(bricks) * _BRICK if bricks else prod(shape))
    if any(piece.is_turned for piece in pieces):
        is_whole = len(pieces) == 1 and first.offset == start
    else:
        # The last brick may lack channels.
        missing = size * (-shape[-1] % _BRICK) if bricks else 0
        end = max(_end(one, size) for one in maps)
        is_whole = min(one.offset for one in maps) == start and end == start + nbytes - missing
    return (Span(first.memory, start, nbytes), bricks) if is_whole else None


def _bricks(one: FeatureMap, size: int, shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return rows, bricks per row and pixels per brick by the strides; None if they do not match the shape.

    An operation may write a tensor as its reader reshapes it, with more channels than the tensor has.
    """
    row, _, brick = one.strides
    if not shape or not brick or brick % (_BRICK * size) or row % brick or one.shape[-1] > shape[-1]:
        return None
    bricks, pixels = row // brick, brick // (_BRICK * size)
    rows = prod(shape[:-1]) // pixels
    fits = bricks == -(-shape[-1] // _BRICK) and rows * pixels == prod(shape[:-1])
    return (rows, bricks, pixels) if fits else None


def _end(one: FeatureMap, size: int) -> int:
    """Return the end of the last element of a map."""
    row, pixel, brick = one.strides
    height, width, depth = one.shape
    last = one.offset + (height - 1) * row
    if one.in_bricks:
        place = (width - 1) * _BRICK + (depth - 1) % _BRICK + 1
        return last + (depth - 1) // _BRICK * brick + place * size
    return last + (width - 1) * pixel + depth * size
