"""Peak of live scratch bytes while a chain runs in stripes.

Live bytes are counted call by call, with copies of cached rows. They are the rows of buffers inside the chain, the
blocks around it, and the live rows of blocks that the chain writes first or reads last (`lifetimes.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.operators.program import Program
from deuteron.operators.row_dependencies import Rows
from deuteron.planner.lifetimes import live_ranges
from deuteron.planner.processor_model import CallModel
from deuteron.planner.stripes import Chain, ChainCall, RowRead, StripeRows

Ints = npt.NDArray[np.int64]


class ChainLiveness:
    """Live bytes in the stripes of a chain.

    Attributes:
        around: bytes that are live during the whole chain.
    """

    def __init__(self, program: Program, chain: Chain, calls: CallModel) -> None:
        self._chain, self._calls = chain, calls
        first, last = chain.calls[0].at, chain.calls[-1].at
        sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
        workspaces = {link.call.operands[-1].buffer for link in chain.calls if link.call.kernel.workspace}
        self.around = 0
        self._edges: dict[str, tuple[int, bool, bool]] = {}  # units, is the first to write, is the last to read
        for name, (begin, end) in live_ranges(program).items():
            if begin <= last and end >= first and name not in chain.inner.keys() | workspaces:
                begins = begin >= first and name not in program.inputs
                ends = end <= last and name not in program.outputs
                if begins or ends:
                    self._edges[name] = round_up(sizes[name]) // ALIGNMENT, begins, ends
                else:
                    self.around += round_up(sizes[name])
        self._live_ranges = chain.live_ranges()
        self._ends = [[n for n, own in self._live_ranges.items() if own[1] == at] for at in range(len(chain.calls))]
        self._sharing = [tuple(self._shares(link)) for link in chain.calls]
        self._names = [tuple(self._named(link)) for link in chain.calls]
        self._sizes: dict[tuple[int, int, tuple[int, ...]], tuple[int, ...]] = {}

    def peak(self, sets: Sequence[StripeRows]) -> int:
        """Return the peak of live bytes over all stripes of the chain."""
        return self._peak(sets, range(len(sets)))

    def sampled_peak(self, sets: Sequence[StripeRows]) -> int:
        """Estimate `peak` from a sample of stripes."""
        return self._peak(sets, {0, 1, len(sets) // 2, max(len(sets) - 2, 0)})

    def _peak(self, sets: Sequence[StripeRows], samples: Iterable[int]) -> int:
        """Return the peak over some of the stripes and the one with the most live bytes outside the chain."""
        links = len(self._chain.calls)
        in_use = self._in_use(sets)
        between, during, dead = self._outside(len(sets) * links, in_use)
        held = self._held(sets)
        most = 0
        for at in {*samples, int(during.argmax()) // links}:
            start, stop = at * links, at * links + links
            last = {name: call - start for name, call in dead.items()}
            outside = between[start : stop + 1].tolist(), during[start:stop].tolist(), last
            most = max(most, held[at] + self._stripe(sets[at], *outside))
        return max(self.around + most, self._side_by_side(in_use))

    def _in_use(self, sets: Sequence[StripeRows]) -> Mapping[str, tuple[Ints, Ints]]:
        """Return the first and last call that uses each unit of blocks that the chain writes first or reads last."""
        count = len(sets) * len(self._chain.calls)
        named = {name: (np.full(units, count), np.full(units, -1)) for name, (units, _, _) in self._edges.items()}
        for at, name, units in self._touched(sets):
            first, last = named[name]
            first[units] = np.minimum(first[units], at)
            last[units] = at
        return {
            name: (np.where(last < 0, first.min(initial=count), first), np.where(last < 0, last.max(initial=-1), last))
            for name, (first, last) in named.items()
        }

    def _outside(self, count: int, in_use: Mapping[str, tuple[Ints, Ints]]) -> tuple[Ints, Ints, Mapping[str, int]]:
        """Return the live bytes of these blocks between and during calls, and the last call that uses each."""
        dead: dict[str, int] = {}
        begun, ended = np.zeros(count + 2, np.int64), np.zeros(count + 2, np.int64)
        for name, (first, last) in in_use.items():
            _, begins, ends = self._edges[name]
            if ends:
                dead[name] = int(last.max(initial=-1))
            begun += np.bincount(first + 1 if begins else np.zeros_like(first), minlength=count + 2)
            ended += np.bincount(last + 1 if ends else np.full_like(last, count + 1), minlength=count + 2)
        begun, ended = np.cumsum(begun) * ALIGNMENT, np.cumsum(ended) * ALIGNMENT
        return begun[:-1] - ended[:-1], begun[1:-1] - ended[:-2], dead

    def _side_by_side(self, in_use: Mapping[str, tuple[Ints, Ints]]) -> int:
        """Return the bytes that hold a dying block and a growing one together, if rows of the first leave gaps.

        Rows that die from top to bottom leave no gaps; rows of several planes do.
        """
        named = [(*self._edges[name][1:], first, last) for name, (first, last) in in_use.items()]
        dying = [last for _, ends, _, last in named if ends and _falls(last)]
        growing = [first for begins, _, first, _ in named if begins and not _falls(first)]
        return max((_side_by_side(last, first) for last in dying for first in growing), default=0) * ALIGNMENT

    def _touched(self, sets: Sequence[StripeRows]) -> Iterator[tuple[int, str, slice]]:
        """Yield the units of these blocks that calls use, each with the number of the call over all stripes."""
        at = -1
        for stripe in sets:
            for link, named in zip(self._chain.calls, self._names, strict=True):
                at += 1
                own = link.own(stripe.new.get(link.buffer, (0, 0))) if named else (0, 0)
                if own[0] == own[1]:
                    continue
                sizes = self._operands(link, own)
                for operand, name, row_read in named:
                    if operand == len(link.call.kernel.reads):
                        start = (link.start + own[0] * link.rows.every) * link.nbytes + link.within
                    elif row_read is not None:
                        start = row_read.needs(own)[0] * row_read.window.nbytes + row_read.within
                    else:
                        start = link.call.operands[operand].offset
                    yield at, name, slice(start // ALIGNMENT, round_up(start + sizes[operand]) // ALIGNMENT)

    def _named(self, link: ChainCall) -> Iterator[tuple[int, str, RowRead | None]]:
        """Yield the operands of a call that are not inside the chain."""
        row_reads = {row_read.operand: row_read for row_read in link.row_reads}
        for operand, ref in enumerate(link.call.operands):
            if ref.buffer in self._edges:
                yield operand, ref.buffer, row_reads.get(operand)

    def _operands(self, link: ChainCall, own: Rows) -> tuple[int, ...]:
        """Return the operand sizes of some rows of a call, cached by the numbers of rows that it reads and writes."""
        rows = tuple(last - first for first, last in (row_read.needs(own) for row_read in link.row_reads))
        key = (link.at, own[1] - own[0], rows)
        if key not in self._sizes:
            self._sizes[key] = self._calls.operand_bytes(link.rows.narrowed(*own))
        return self._sizes[key]

    def _held(self, sets: Sequence[StripeRows]) -> list[int]:
        """Return the bytes of cached rows during each stripe that does not use them."""
        held: list[int] = []
        kept: dict[str, int] = {}
        for stripe in sets:
            kept = {name: nbytes for name, nbytes in kept.items() if name not in stripe.rows}
            held.append(sum(kept.values()))
            kept |= {name: self._bytes(name, rows) for name, rows in stripe.kept.items()}
        return held

    def _stripe(
        self, stripe: StripeRows, between: Sequence[int], during: Sequence[int], dead: Mapping[str, int]
    ) -> int:
        """Return the peak of live bytes in a stripe; the arguments are those of `_outside` from its first call on."""
        links = self._chain.calls
        owns = [link.own(stripe.new.get(link.buffer, (0, 0))) for link in links]
        sizes = {name: self._bytes(name, rows) for name, rows in stripe.rows.items() if name in self._live_ranges}
        before = {name: self._bytes(name, (stripe.rows[name][0], stripe.new[name][0])) for name in sizes}
        last: dict[str, int] = {}
        for at, (link, own) in enumerate(zip(links, owns, strict=True)):
            if own[0] < own[1]:
                last |= dict.fromkeys((link.buffer, *(row_read.buffer for row_read in link.row_reads)), at)
        dying: list[list[str]] = [[] for _ in links]
        for name, at in last.items():
            if name in sizes and name not in stripe.kept:
                dying[at].append(name)
        alive = sum(before.values())
        most = 0
        absent = dict(sizes)
        for at, (link, own) in enumerate(zip(links, owns, strict=True)):
            name = link.buffer
            if before.get(name) and name in absent:
                alive += absent.pop(name)
                most = max(most, alive + between[at])
                alive -= before[name]
            if own[0] < own[1]:
                onto = None
                if name in absent:
                    alive += absent.pop(name)
                    onto = self._onto(at, stripe, dying[at], dead)
                workspace = round_up(self._operands(link, own)[-1]) if link.call.kernel.workspace else 0
                most = max(most, alive + during[at] + workspace - (sizes[name] if onto else 0))
                alive -= sum(sizes[n] for n in dying[at])
            for n in self._ends[at]:
                if n in stripe.kept:
                    alive += self._bytes(n, stripe.kept[n])
                    most = max(most, alive + between[at + 1])
                    alive -= sizes[n]
        return most

    def _bytes(self, name: str, rows: Rows) -> int:
        return round_up((rows[1] - rows[0]) * self._chain.inner[name])

    def _shares(self, link: ChainCall) -> Iterator[RowRead]:
        """Yield the inputs that the call may overwrite with its output."""
        for row_read in link.row_reads:
            same = [at for at, ref in enumerate(link.call.operands) if ref.buffer == row_read.buffer]
            if all(self._calls.may_write_onto(link.call.params, at) for at in same):
                yield row_read

    def _onto(self, at: int, stripe: StripeRows, dying: Sequence[str], dead: Mapping[str, int]) -> str | None:
        """Return the buffer that call `at` overwrites with all rows of its output, or None.

        `dying` are the inner buffers that no later call uses, `dead` the last calls that use outer blocks.
        """
        name = self._chain.calls[at].buffer
        rows = stripe.rows[name]
        if name not in self._chain.inner or stripe.new[name] != rows:
            return None
        nbytes = (rows[1] - rows[0]) * self._chain.inner[name]
        for row_read in self._sharing[at]:
            source = row_read.buffer
            if source in dying and stripe.rows[source] == rows:
                return source
            if dead.get(source) == at and self._edges[source][0] * ALIGNMENT == round_up(nbytes):
                return source
        return None


def _falls(calls: Ints) -> bool:
    """Return True if a unit is used before the one above it."""
    return bool(np.any(np.diff(calls) < 0))


def _side_by_side(last: Ints, first: Ints) -> int:
    """Return the smallest number of units that hold two blocks, in either order or one inside the other.

    Args:
        last: the last call that uses each unit of the first block.
        first: the first call that uses each unit of the second block, not before the unit above it.
    """
    starts = np.flatnonzero(np.diff(last, prepend=-2))
    stops = np.append(starts[1:], len(last))
    there = np.searchsorted(first, last[starts], side="right")  # of the other, when the one's run of units is dead
    between = sorted(zip((starts - there).tolist(), stops.tolist(), strict=True))  # where it cannot begin
    least, reached = len(last) + len(first), -len(first)
    for low, high in (*between, (least, least)):
        if low >= reached:
            begin = min(max(reached, 0), low)
            least = min(least, max(len(last), begin + len(first)) - min(begin, 0))
        reached = max(reached, high)
    return least
