"""Emits the operators of a segment stripe by stripe, through a writer of one file format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from deuteron.graph_stripes.rows import OperatorRows, RowOperator, Segment, Stripe, StripesError
from deuteron.operators.row_dependencies import Rows


@dataclass(frozen=True, slots=True)
class Part:
    """A value of the writer: the rows of the tensor that it holds, and those of them that are right."""

    value: int
    rows: Rows
    valid: Rows


class StripeWriter(Protocol):
    """Writes operators of stripes; values are numbers of the writer, and start as the tensors of the graph."""

    def sliced(self, value: int, rows: Rows) -> int:
        """Return rows of a value, counted from its first one."""
        ...

    def joined(self, values: Sequence[int], tensor: int, result: int | None = None) -> int:
        """Return values one below the other; as the tensor `result` if it is given."""
        ...

    def computed(self, op: RowOperator, rows: OperatorRows, operands: Sequence[int]) -> Sequence[int]:
        """Return the results of an operator for the rows of a stripe, given the operands that it reads by rows."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a cut segment.

    Attributes:
        macs: multiply-accumulates that are computed again.
        copied: bytes of rows that are kept from one stripe for the next.
        halo: largest number of rows of one operator that two neighbouring stripes need.
    """

    macs: int
    copied: int
    halo: int


class Emitter:
    """Emits one segment.

    Args:
        segment: the operators.
        stripes: their rows, top first.
        kept: the operators of which rows are kept.
        writer: of the file format.
    """

    def __init__(self, segment: Segment, stripes: Sequence[Stripe], kept: frozenset[int], writer: StripeWriter) -> None:
        self._segment, self._stripes, self._kept, self._writer = segment, stripes, kept, writer
        self._counts = segment.counts
        self._parts: dict[int, list[Part]] = {}
        self._firsts = _firsts(segment, stripes)
        self.copied = 0

    def run(self) -> None:
        """Emit all stripes, and join the outputs."""
        pieces: dict[int, list[int]] = {tensor: [] for tensor in self._segment.outputs}
        for index, stripe in enumerate(self._stripes):
            for op in self._segment.operators:
                if op.at in stripe.operators:
                    self._operator(index, op, stripe.operators[op.at])
            for tensor, rows in stripe.outputs.items():
                pieces[tensor].append(self._read(tensor, rows))
        for tensor, values in pieces.items():
            self._writer.joined(values, tensor, tensor)

    def _operator(self, index: int, op: RowOperator, rows: OperatorRows) -> None:
        operands = [self._read(read.tensor, part) for read, part in zip(op.reads, rows.reads, strict=True)]
        results = self._writer.computed(op, rows, operands)
        for tensor, value in zip(op.outputs, results, strict=True):
            part = Part(value, rows.computed, rows.wanted)
            if op.at not in self._kept:
                self._parts[tensor] = [part]
                continue
            held = self._parts.setdefault(tensor, [])
            first, last = rows.wanted
            near = [row for row in self._firsts[index].get(tensor, ()) if first - row <= _most_kept(rows)]
            before = min([first, *near])
            if held and before < first:
                kept = list(self._slices(tensor, (before, first)))
                self.copied += (first - before) * self._segment.row_bytes[tensor]
                window = self._writer.joined([*kept, self._slice(part, rows.wanted)], tensor)
                part = Part(window, (before, last), (before, last))
            held.append(part)

    def _read(self, tensor: int, rows: Rows) -> int:
        if tensor not in self._counts:
            return self._writer.sliced(tensor, rows)
        values = list(self._slices(tensor, rows))
        if len(values) > 1:
            self.copied += (rows[1] - rows[0]) * self._segment.row_bytes[tensor]
            return self._writer.joined(values, tensor)
        return values[0]

    def _slices(self, tensor: int, rows: Rows) -> Iterator[int]:
        """Yield values that together are these rows of a tensor, from as few parts as possible."""
        at = rows[0]
        while at < rows[1]:
            having = [part for part in self._parts.get(tensor, []) if part.valid[0] <= at < part.valid[1]]
            if not having:
                raise StripesError("rows are read that no stripe has computed")
            part = max(having, key=lambda part: min(part.valid[1], rows[1]))
            last = min(part.valid[1], rows[1])
            yield self._slice(part, (at, last))
            at = last

    def _slice(self, part: Part, rows: Rows) -> int:
        first = part.rows[0]
        return part.value if rows == part.rows else self._writer.sliced(part.value, (rows[0] - first, rows[1] - first))


def _most_kept(rows: OperatorRows) -> int:
    """Return the rows that are copied for the next stripe; a reader that lags further gathers its rows."""
    return max(2 * (rows.wanted[1] - rows.wanted[0]), 4)


def _firsts(segment: Segment, stripes: Sequence[Stripe]) -> Sequence[Mapping[int, tuple[int, ...]]]:
    """Return for each stripe and tensor the first row that each reader needs, in that stripe or a later one."""
    found: list[Mapping[int, tuple[int, ...]]] = []
    following: dict[int, dict[int, int]] = {}
    for stripe in reversed(stripes):
        for op in segment.operators:
            rows = stripe.operators.get(op.at)
            for read, part in zip(op.reads, rows.reads if rows else (), strict=False):
                readers = following.setdefault(read.tensor, {})
                readers[op.at] = min(part[0], readers.get(op.at, part[0]))
        found.append({tensor: tuple(readers.values()) for tensor, readers in following.items()})
    return found[::-1]


def work_of(segment: Segment, stripes: Sequence[Stripe], copied: int) -> Work:
    """Return the work of a cut segment, given the bytes that its emitter has copied."""
    again = halo = 0
    for op in segment.operators:
        computed = sum(
            rows.computed[1] - rows.computed[0] for stripe in stripes if (rows := stripe.operators.get(op.at))
        )
        again += op.macs * max(0, computed - op.count) // op.count
        ends = [rows.computed for stripe in stripes if (rows := stripe.operators.get(op.at))]
        overlaps = (before[1] - after[0] for before, after in pairwise(ends))
        halo = max(halo, *overlaps, 0)
    return Work(again, copied, halo)
