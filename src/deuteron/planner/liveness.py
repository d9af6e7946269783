"""The most bytes of scratch that are alive at once while a chain runs in stripes.

Call by call, copies of kept rows among them: rows inside of the chain, what lies around it, and of what the chain is
the first to write or the last to read the rows that are written already, or not dead yet (lifetimes.py).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.kernels.limits import ALIGNMENT, round_up
from deuteron.npu.neutron.kernels.program import Program
from deuteron.npu.neutron.kernels.row_dependencies import Rows
from deuteron.planner.lifetimes import spans
from deuteron.planner.processor_model import Kernels
from deuteron.planner.stripes import Chain, Link, Reading, Rowset

Ints = npt.NDArray[np.int64]


class Alive:
    """What is alive at once in the stripes of a chain.

    Attributes:
        around: bytes that are alive all the time.
    """

    def __init__(self, program: Program, chain: Chain, kernels: Kernels) -> None:
        self._chain, self._kernels = chain, kernels
        first, last = chain.links[0].at, chain.links[-1].at
        sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
        workspaces = {link.call.operands[-1].buffer for link in chain.links if link.call.kernel.workspace}
        self.around = 0
        self._edges: dict[str, tuple[int, bool, bool]] = {}  # units, is the first to write, is the last to read
        for name, (begin, end) in spans(program).items():
            if begin <= last and end >= first and name not in chain.inner.keys() | workspaces:
                begins = begin >= first and name not in program.inputs
                ends = end <= last and name not in program.outputs
                if begins or ends:
                    self._edges[name] = round_up(sizes[name]) // ALIGNMENT, begins, ends
                else:
                    self.around += round_up(sizes[name])
        self._lives = chain.lives()
        self._ends = [[n for n, own in self._lives.items() if own[1] == at] for at in range(len(chain.links))]
        self._sharing = [tuple(self._shares(link)) for link in chain.links]
        self._names = [tuple(self._named(link)) for link in chain.links]
        self._sizes: dict[tuple[int, int, tuple[int, ...]], tuple[int, ...]] = {}

    def peak(self, sets: Sequence[Rowset]) -> int:
        """The most bytes that are alive at once in all stripes of the chain, in order."""
        return self._peak(sets, range(len(sets)))

    def sampled(self, sets: Sequence[Rowset]) -> int:
        """`peak`, of those stripes that take the most as far as can be seen without looking at all."""
        return self._peak(sets, {0, 1, len(sets) // 2, max(len(sets) - 2, 0)})

    def _peak(self, sets: Sequence[Rowset], samples: Iterable[int]) -> int:
        """The most bytes that are alive at once in some of the stripes, and in that with the most outside of it."""
        links = len(self._chain.links)
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

    def _in_use(self, sets: Sequence[Rowset]) -> Mapping[str, tuple[Ints, Ints]]:
        """Of what the chain begins or ends: the first and the last call that needs each unit, if the chain knows."""
        count = len(sets) * len(self._chain.links)
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
        """Bytes of it before each of `count` calls and after the last, and during each; the last that needs each."""
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
        """Bytes that hold what dies and what grows in its place, where rows of the one leave gaps for the other.

        Rows that die from the top to the bottom leave none, but rows of several planes do.
        """
        named = [(*self._edges[name][1:], first, last) for name, (first, last) in in_use.items()]
        dying = [last for _, ends, _, last in named if ends and _falls(last)]
        growing = [first for begins, _, first, _ in named if begins and not _falls(first)]
        return max((_side_by_side(last, first) for last in dying for first in growing), default=0) * ALIGNMENT

    def _touched(self, sets: Sequence[Rowset]) -> Iterator[tuple[int, str, slice]]:
        """The units of them that calls name, each with the number of the call among those of all stripes."""
        at = -1
        for rowset in sets:
            for link, named in zip(self._chain.links, self._names, strict=True):
                at += 1
                own = link.own(rowset.new.get(link.buffer, (0, 0))) if named else (0, 0)
                if own[0] == own[1]:
                    continue
                sizes = self._operands(link, own)
                for operand, name, reading in named:
                    if operand == len(link.call.kernel.reads):
                        start = (link.start + own[0] * link.rows.every) * link.nbytes + link.within
                    elif reading is not None:
                        start = reading.needs(own)[0] * reading.window.nbytes + reading.within
                    else:
                        start = link.call.operands[operand].offset
                    yield at, name, slice(start // ALIGNMENT, round_up(start + sizes[operand]) // ALIGNMENT)

    def _named(self, link: Link) -> Iterator[tuple[int, str, Reading | None]]:
        """The operands of a call that are not inside of the chain."""
        readings = {reading.operand: reading for reading in link.readings}
        for operand, ref in enumerate(link.call.operands):
            if ref.buffer in self._edges:
                yield operand, ref.buffer, readings.get(operand)

    def _operands(self, link: Link, own: Rows) -> tuple[int, ...]:
        """Bytes of the operands of some rows of a call, which depend on how many rows it reads and writes."""
        rows = tuple(last - first for first, last in (reading.needs(own) for reading in link.readings))
        key = (link.at, own[1] - own[0], rows)
        if key not in self._sizes:
            self._sizes[key] = self._kernels.operand_bytes(link.rows.narrowed(*own))
        return self._sizes[key]

    def _held(self, sets: Sequence[Rowset]) -> list[int]:
        """Bytes of rows that are kept past each stripe, which does not need them."""
        held: list[int] = []
        kept: dict[str, int] = {}
        for rowset in sets:
            kept = {name: nbytes for name, nbytes in kept.items() if name not in rowset.rows}
            held.append(sum(kept.values()))
            kept |= {name: self._bytes(name, rows) for name, rows in rowset.kept.items()}
        return held

    def _stripe(self, rowset: Rowset, between: Sequence[int], during: Sequence[int], dead: Mapping[str, int]) -> int:
        """The most bytes that are alive at once in a stripe; as `_outside` says, counted from its first call."""
        links = self._chain.links
        owns = [link.own(rowset.new.get(link.buffer, (0, 0))) for link in links]
        sizes = {name: self._bytes(name, rows) for name, rows in rowset.rows.items() if name in self._lives}
        before = {name: self._bytes(name, (rowset.rows[name][0], rowset.new[name][0])) for name in sizes}
        last: dict[str, int] = {}
        for at, (link, own) in enumerate(zip(links, owns, strict=True)):
            if own[0] < own[1]:
                last |= dict.fromkeys((link.buffer, *(reading.buffer for reading in link.readings)), at)
        dying: list[list[str]] = [[] for _ in links]
        for name, at in last.items():
            if name in sizes and name not in rowset.kept:
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
                    onto = self._onto(at, rowset, dying[at], dead)
                workspace = round_up(self._operands(link, own)[-1]) if link.call.kernel.workspace else 0
                most = max(most, alive + during[at] + workspace - (sizes[name] if onto else 0))
                alive -= sum(sizes[n] for n in dying[at])
            for n in self._ends[at]:
                if n in rowset.kept:
                    alive += self._bytes(n, rowset.kept[n])
                    most = max(most, alive + between[at + 1])
                    alive -= sizes[n]
        return most

    def _bytes(self, name: str, rows: Rows) -> int:
        return round_up((rows[1] - rows[0]) * self._chain.inner[name])

    def _shares(self, link: Link) -> Iterator[Reading]:
        """What the call may write its output onto, where nothing needs it after it."""
        for reading in link.readings:
            same = [at for at, ref in enumerate(link.call.operands) if ref.buffer == reading.buffer]
            if all(self._kernels.may_write_onto(link.call.params, at) for at in same):
                yield reading

    def _onto(self, at: int, rowset: Rowset, dying: Sequence[str], dead: Mapping[str, int]) -> str | None:
        """The buffer that call `at` writes all of its own onto; None where there is none.

        `dying` are those inside that nothing needs after it, `dead` the last calls that need those outside.
        """
        name = self._chain.links[at].buffer
        rows = rowset.rows[name]
        if name not in self._chain.inner or rowset.new[name] != rows:
            return None
        nbytes = (rows[1] - rows[0]) * self._chain.inner[name]
        for reading in self._sharing[at]:
            source = reading.buffer
            if source in dying and rowset.rows[source] == rows:
                return source
            if dead.get(source) == at and self._edges[source][0] * ALIGNMENT == round_up(nbytes):
                return source
        return None


def _falls(calls: Ints) -> bool:
    """Whether a unit is named before the one above it."""
    return bool(np.any(np.diff(calls) < 0))


def _side_by_side(last: Ints, first: Ints) -> int:
    """The least units that hold two blocks, whichever comes first, or inside of the other.

    Args:
        last: the call that each unit of the one is in use up to.
        first: the call that each unit of the other is in use from, none before the one above it.
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
