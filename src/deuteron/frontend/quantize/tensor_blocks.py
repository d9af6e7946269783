"""Blocks of tensors: the elements of slices along some dimensions, in another shape or order of dimensions."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import call

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class Range:
    """Indices along one dimension: `count` indices from `start`, `step` apart."""

    start: int
    step: int
    count: int


@dataclass(frozen=True, slots=True)
class Block:
    """The elements of a tensor that a view has.

    Attributes:
        ranges: the indices along each dimension of the tensor.
        sizes: the shape of the view.
        order: the view's dimensions in the order of the tensor's elements.
    """

    ranges: tuple[Range, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    def extract(self, before: fx.Node, x: fx.Node) -> fx.Node:
        """Insert the view of a tensor before a node."""
        for dim, part in enumerate(self.ranges):
            x = sliced(before, x, dim, part)
        x = _reshaped(before, x, [self.sizes[dim] for dim in self.order])
        return _permuted(before, x, [self.order.index(dim) for dim in range(len(self.order))])

    def replace(self, before: fx.Node, x: fx.Node, values: fx.Node) -> fx.Node:
        """Insert a tensor before a node that has these values in place of the view's elements."""
        values = _permuted(before, values, self.order)
        values = _reshaped(before, values, [part.count for part in self.ranges])
        return _replaced(before, x, values, self.ranges, 0)


def block_of(elements: Tensor, shape: Sequence[int]) -> Block | None:
    """Return the block of a tensor of this shape for a view with these elements, by index; None if it is no block."""
    order = _order(elements)
    numbers = elements.permute(order).flatten()
    if not numbers.numel() or int(numbers.min()) < 0:
        return None
    ranges = [_range(index) for index in torch.unravel_index(numbers, shape)] if shape else []
    block = torch.arange(math.prod(shape)).reshape(list(shape))
    for dim, part in enumerate(ranges):
        if part is None:
            return None
        block = block.index_select(dim, torch.arange(part.count) * part.step + part.start)
    if not torch.equal(block.flatten(), numbers):
        return None
    return Block(tuple(part for part in ranges if part), tuple(elements.shape), order)


def _order(elements: Tensor) -> tuple[int, ...]:
    """Sort the dimensions by decreasing stride; if the elements are already in order, keep them."""
    dims = tuple(range(elements.dim()))
    numbers = elements.flatten()
    if bool((numbers[1:] > numbers[:-1]).all()):
        return dims
    steps = [int(elements.select(dim, 1).min() - elements.min()) if elements.shape[dim] > 1 else 0 for dim in dims]
    return tuple(sorted(dims, key=lambda dim: -steps[dim]))


def _range(indices: Tensor) -> Range | None:
    distinct = sorted(set(cast("list[int]", cast(Any, indices).tolist())))
    steps = {after - before for before, after in itertools.pairwise(distinct)} or {1}
    return Range(distinct[0], min(steps), len(distinct)) if len(steps) == 1 else None


def _size(x: fx.Node, dim: int) -> int:
    return int(x.meta["val"].shape[dim])


def _reshaped(before: fx.Node, x: fx.Node, sizes: Sequence[int]) -> fx.Node:
    return x if list(x.meta["val"].shape) == list(sizes) else call(before, aten.reshape.default, x, list(sizes))


def _permuted(before: fx.Node, x: fx.Node, order: Sequence[int]) -> fx.Node:
    return x if list(order) == sorted(order) else call(before, aten.permute.default, x, list(order))


def sliced(before: fx.Node, x: fx.Node, dim: int, part: Range) -> fx.Node:
    """Insert a slice of a tensor before a node; it reads the parts of a concatenation in place of the whole."""
    stop = part.start + (part.count - 1) * part.step + 1
    if part.step == 1:
        return _joined(before, _pieces(before, x, dim, part.start, stop), dim)
    return call(before, aten.slice.Tensor, x, dim, part.start, stop, part.step)


def _pieces(before: fx.Node, x: fx.Node, dim: int, start: int, stop: int) -> list[fx.Node]:
    """Slices from one index to another; slices of a concatenation become its parts, so that they do not nest."""
    if start >= stop:
        return []
    if (start, stop) == (0, _size(x, dim)):
        return [x]
    if x.target is not aten.cat.default or cast(int, (*x.args, 0)[1]) % x.meta["val"].dim() != dim:
        return [call(before, aten.slice.Tensor, x, dim, start, stop)]
    pieces, first = list[fx.Node](), 0
    for piece in cast("Sequence[fx.Node]", x.args[0]):
        size = _size(piece, dim)
        pieces += _pieces(before, piece, dim, max(start - first, 0), min(stop - first, size))
        first += size
    return pieces


def _joined(before: fx.Node, pieces: Sequence[fx.Node], dim: int) -> fx.Node:
    return pieces[0] if len(pieces) == 1 else call(before, aten.cat.default, list(pieces), dim)


def _replaced(before: fx.Node, x: fx.Node, values: fx.Node, ranges: Sequence[Range], dim: int) -> fx.Node:
    """A tensor with other values in these ranges of its dimensions from `dim`."""
    if dim == len(ranges):
        return values
    part, size = ranges[dim], _size(x, dim)
    inner = _replaced(before, sliced(before, x, dim, part), values, ranges, dim + 1)
    if part.step > 1:
        return _interleaved(before, x, inner, part, dim)
    return _joined(
        before,
        [
            *_pieces(before, x, dim, 0, part.start),
            *_pieces(before, inner, dim, 0, part.count),
            *_pieces(before, x, dim, part.start + part.count, size),
        ],
        dim,
    )


def _interleaved(before: fx.Node, x: fx.Node, values: fx.Node, part: Range, dim: int) -> fx.Node:
    """A tensor with other values at indices `step` apart: reshaped to columns, of which the first is replaced.

    A last index with an incomplete column is handled separately.
    """
    shape = list(x.meta["val"].shape)
    columns = part.count - (part.start + part.count * part.step > shape[dim])
    stop = part.start + columns * part.step
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    others = _reshaped(
        before, sliced(before, x, dim, Range(part.start, 1, stop - part.start)), [outer, columns, part.step, inner]
    )
    firsts = _reshaped(before, sliced(before, values, dim, Range(0, 1, columns)), [outer, columns, 1, inner])
    block = call(before, aten.cat.default, [firsts, *_pieces(before, others, 2, 1, part.step)], 2)
    shape[dim] = stop - part.start
    return _joined(
        before,
        [
            *_pieces(before, x, dim, 0, part.start),
            _reshaped(before, block, shape),
            *_pieces(before, values, dim, columns, part.count),
            *_pieces(before, x, dim, stop + part.count - columns, _size(x, dim)),
        ],
        dim,
    )
