"""Stored values of sparse tensors as dense ones, by the levels of TFLite's `SparsityParameters`."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError
from deuteron.tflite.flat_model import HINT_MALFORMED

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Level:
    """One dimension in the order in which values are stored.

    Attributes:
        size: its number of elements if it is dense.
        segments: for each element of the level before, the first of its `indices`; None for a dense level.
        indices: the elements that are stored.
    """

    size: int
    segments: Indices | None = None
    indices: Indices | None = None


def densified(
    data: bytes,
    dtype: np.dtype[np.generic],
    shape: Sequence[int],
    order: Sequence[int],
    blocks: Sequence[int],
    levels: Sequence[Level],
) -> bytes:
    """Return all values of a sparse tensor.

    Args:
        data: the stored values.
        dtype: their type.
        shape: of the tensor.
        order: the dimension of each level; from `len(shape)` on, these are inside blocks.
        blocks: the dimension of the tensor that each dimension inside blocks divides.
        levels: in their order.

    Raises:
        FormatError: the parts contradict each other.
    """
    rank, elements = len(shape), math.prod(shape)
    if sorted(order) != [*range(rank + len(blocks))] or len(levels) != len(order):
        raise _damaged(
            f"{len(levels)} levels in the order {[*order]} for {rank} dimensions and {len(blocks)} of blocks"
        )
    positions = np.zeros((1, 0), np.int64)
    for level in levels:
        parents, own = _children(level, len(positions), elements)
        positions = np.column_stack([positions[parents], own])
    if len(positions) * dtype.itemsize != len(data):
        raise _damaged(f"{len(data)} bytes for {len(positions)} values of {dtype.itemsize} bytes")
    coordinates = np.zeros((rank, len(positions)), np.int64)
    inner = {order[place] - rank: place for place in range(len(order)) if order[place] >= rank}
    for place, dim in enumerate(order):
        if dim < rank:
            coordinates[dim] += positions[:, place] * math.prod(
                levels[inner[i]].size for i, divided in enumerate(blocks) if divided == dim
            )
    for i, divided in enumerate(blocks):
        if not 0 <= divided < rank:
            raise _damaged(f"blocks of dimension {divided} of {rank}")
        if levels[inner[i]].size < 1 <= elements:
            raise _damaged(f"blocks of {levels[inner[i]].size} elements")
        coordinates[divided] += positions[:, inner[i]]
    if len(positions) and ((coordinates < 0) | (coordinates >= np.array(shape)[:, None])).any():
        raise _damaged(f"elements beyond {[*shape]}")
    dense = np.zeros(tuple(shape), dtype)
    dense[tuple(coordinates)] = np.frombuffer(data, dtype)
    return dense.tobytes()


def _children(level: Level, count: int, limit: int) -> tuple[Indices, Indices]:
    """The elements of a level: the position of the parent of each, and its own index."""
    if level.segments is None or level.indices is None:
        if level.size < 0 or count * level.size > limit:
            raise _damaged(f"{count} times {level.size} elements where the tensor has {limit}")
        return np.repeat(np.arange(count), level.size), np.tile(np.arange(level.size), count)
    lengths = np.diff(level.segments)
    is_whole = lengths.size == count and lengths.sum() == level.indices.size and not level.segments[:1].any()
    if not is_whole or (lengths < 0).any() or level.indices.size > limit:
        raise _damaged(f"{lengths.size} segments of {level.indices.size} elements for {count}")
    return np.repeat(np.arange(count), lengths), level.indices


def _damaged(what: str) -> FormatError:
    return FormatError(f"a sparse tensor has {what}", hint=HINT_MALFORMED)
