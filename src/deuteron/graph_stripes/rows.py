"""Operators of a graph by rows: which input rows each output row needs, and what a stripe computes.

The description is the same for every file format; a format derives it from its operators (`tflite_rows`) and
writes the operators of stripes (`tflite_writer`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deuteron.errors import DeuteronError
from deuteron.operators.row_dependencies import Rows, Window


class StripesError(DeuteronError):
    """A segment cannot be cut in this way; the search tries another one."""


@dataclass(frozen=True, slots=True)
class RowRead:
    """An operand that an operator reads by rows: its position, its tensor, and the rows that it needs."""

    operand: int
    tensor: int
    window: Window


@dataclass(frozen=True, slots=True)
class RowOperator:
    """An operator whose output rows can be computed separately.

    Attributes:
        at: its index in the graph.
        outputs: its results, which have the same rows.
        reads: the operands that it reads by rows; it reads all others whole.
        count: output rows.
        lattice: for operators that choose their own pads: they read multiples of the first number of rows, and
            compute the second number of rows for each. Rows near the edges of a stripe are then wrong, and unused.
        macs: multiply-accumulates of all rows.
    """

    at: int
    outputs: tuple[int, ...]
    reads: tuple[RowRead, ...]
    count: int
    lattice: tuple[int, int] | None = None
    macs: int = 0

    def stripe(self, wanted: Rows) -> "OperatorRows":
        """Return what the operator reads and computes so that these output rows are right."""
        first, last = wanted[0], min(wanted[1], self.count)
        reads = tuple(read.window.rows(first, last) for read in self.reads)
        if self.lattice is None:
            return OperatorRows(wanted, (first, last), reads)
        step, rows = self.lattice
        window = self.reads[0].window
        low, high = reads[0][0] // step * step, min(-(-reads[0][1] // step) * step, window.count)
        computed = low // step * rows, min(-(-high // step) * rows, self.count)
        return OperatorRows(wanted, computed, ((low, high),) * len(self.reads))

    def pads(self, rows: "OperatorRows") -> Rows:
        """Return the rows of pads above and below those that the operator reads of its first operand."""
        window, (first, last) = self.reads[0].window, rows.computed
        start, end = window.start + first * window.step, window.start + (last - 1) * window.step + window.length
        return max(0, -start), max(0, end - window.count)

    def window_pads(self, rows: "OperatorRows") -> Rows:
        """Return the pads of a layer or pool; StripesError if its window is higher than the stripe with its pads."""
        window, (low, high), (above, below) = self.reads[0].window, rows.reads[0], self.pads(rows)
        start = window.start + rows.computed[0] * window.step
        if start + above != low or high - low + above + below < window.length:
            raise StripesError("a stripe is narrower than a window's pads")
        return above, below

    def own_pads(self, rows: "OperatorRows") -> Rows:
        """Return the pads of an operator that pads; StripesError if a stripe would have no other rows."""
        above, below = self.pads(rows)
        if above + below >= rows.computed[1] - rows.computed[0]:
            raise StripesError("a stripe has nothing but pads")
        return above, below


@dataclass(frozen=True, slots=True)
class OperatorRows:
    """The rows of an operator in one stripe.

    Attributes:
        wanted: output rows that the stripe uses.
        computed: output rows of the operator, which include these.
        reads: rows of each operand that it reads by rows.
    """

    wanted: Rows
    computed: Rows
    reads: tuple[Rows, ...]


@dataclass(frozen=True, slots=True)
class RowGraph:
    """A graph by rows.

    Attributes:
        operators: by index; None for operators that need all rows at once.
        reads: the tensors that each operator reads, whole or by rows, without constants.
        writes: the tensors that each operator writes.
        row_bytes: bytes of a row of each tensor with rows.
        inputs: tensors that are there before the graph runs.
        outputs: tensors that the caller reads.
    """

    operators: Sequence[RowOperator | None]
    reads: Sequence[tuple[int, ...]]
    writes: Sequence[tuple[int, ...]]
    row_bytes: Mapping[int, int]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    def segment(self, first: int, last: int) -> "Segment | None":
        """Return the operators `first` up to `last` as a segment, or None if they cannot be cut together."""
        operators = [op for op in self.operators[first:last] if op is not None]
        if not operators or len(operators) < last - first:
            return None
        written = {tensor for op in operators for tensor in op.outputs}
        for op in operators:
            by_rows = {read.tensor for read in op.reads}
            if any(tensor in written and tensor not in by_rows for tensor in self.reads[op.at]):
                return None
        later = {tensor for reads in self.reads[last:] for tensor in reads} | {*self.outputs}
        outputs = tuple(tensor for op in operators for tensor in op.outputs if tensor in later)
        return Segment(tuple(operators), outputs, self.row_bytes) if outputs else None


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators that can be cut together.

    Attributes:
        operators: in their order.
        outputs: the tensors that exist as a whole after the segment.
        row_bytes: bytes of a row of each tensor.
    """

    operators: tuple[RowOperator, ...]
    outputs: tuple[int, ...]
    row_bytes: Mapping[int, int]

    @property
    def count(self) -> int:
        """Rows of the output with the fewest rows: the largest number of stripes."""
        counts = self.counts
        return min(counts[tensor] for tensor in self.outputs)

    @property
    def counts(self) -> Mapping[int, int]:
        """Rows of each tensor that the segment writes."""
        return {tensor: op.count for op in self.operators for tensor in op.outputs}

    def stripes(self, height: int, kept: frozenset[int]) -> "tuple[Stripe, ...]":
        """Return the stripes, top first.

        Args:
            height: rows of a stripe in the output with the fewest rows.
            kept: operators, by index, of which a stripe keeps rows that the next one needs; rows of others are
                computed again.

        Raises:
            StripesError: the stripes would need rows in another order.
        """
        counts, least = self.counts, self.count
        number = -(-least // height)
        begun: dict[int, int] = {}
        done: dict[int, int] = {}
        stripes: list[Stripe] = []
        for index in range(number):
            parts = {
                tensor: tuple(
                    min(-(-at * height * counts[tensor] // least), counts[tensor]) for at in (index, index + 1)
                )
                for tensor in self.outputs
            }
            needs: dict[int, Rows] = {tensor: (rows[0], rows[1]) for tensor, rows in parts.items() if rows[0] < rows[1]}
            outputs = dict(needs)
            rows_of: dict[int, OperatorRows] = {}
            for op in reversed(self.operators):
                wanted = _hull([needs[tensor] for tensor in op.outputs if tensor in needs])
                if wanted is None:
                    continue
                if op.at in kept:
                    if wanted[0] < begun.setdefault(op.at, wanted[0]):
                        raise StripesError("a stripe needs rows above those of the stripe before it")
                    wanted = max(wanted[0], done.get(op.at, 0)), wanted[1]
                    if wanted[0] >= wanted[1]:
                        continue
                    if op.at in done:
                        wanted = done[op.at], wanted[1]
                    done[op.at] = wanted[1]
                rows = rows_of[op.at] = op.stripe(wanted)
                for read, part in zip(op.reads, rows.reads, strict=True):
                    if read.tensor in counts:
                        needs[read.tensor] = (
                            _hull([part, *([needs[read.tensor]] if read.tensor in needs else [])]) or part
                        )
            stripes.append(Stripe(rows_of, outputs))
        return tuple(stripes)


@dataclass(frozen=True, slots=True)
class Stripe:
    """The rows that one stripe computes.

    Attributes:
        operators: rows of the operators that run, by index.
        outputs: rows of the segment's outputs.
    """

    operators: Mapping[int, OperatorRows]
    outputs: Mapping[int, Rows]


def _hull(parts: Sequence[Rows]) -> Rows | None:
    return (min(first for first, _ in parts), max(last for _, last in parts)) if parts else None
