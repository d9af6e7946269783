"""What is alive at once while a chain runs in stripes, without writing its calls.

Each stripe is followed call by call, as `striped` writes them: kept rows are copied to where it continues, calls run
that it has rows of, and rows that a later stripe needs are copied aside.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.npu.neutron.kernels.program import Program
from deuteron.npu.neutron.kernels.rows import Rows
from deuteron.npu.neutron.plan.lifetimes import spans
from deuteron.npu.neutron.plan.processor import Kernels
from deuteron.npu.neutron.plan.stripes import Chain, Rowset

Place = tuple[int, int]
"""A stripe, and a call of the chain."""

_NONE: Rows = (0, 0)


@dataclass(frozen=True, slots=True)
class _Stripe:
    """A stripe whose bytes are counted.

    Attributes:
        rowset: its rows.
        running: the calls that it has rows of, counted from the chain's first.
        lives: for each inner buffer the first and the last of these that name it.
        begins: of what lies around those that the stripe names first, by the call.
        ends: of what lies around those that the stripe names last, by the call.
    """

    rowset: Rowset
    running: AbstractSet[int]
    lives: Mapping[str, Rows]
    begins: Mapping[int, Sequence[str]]
    ends: Mapping[int, Sequence[str]]


class Alive:
    """The bytes of scratch in use while a chain runs; `around` are those of what is not inside of it."""

    def __init__(self, program: Program, chain: Chain, kernels: Kernels) -> None:
        self._chain, self._kernels = chain, kernels
        links = chain.links
        before, behind = links[0].at, links[-1].at + 1
        sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
        workspaces = {link.call.operands[-1].buffer for link in links if link.call.kernel.workspace}
        around = {
            name: own
            for name, own in spans(program).items()
            if own[0] < behind and own[1] >= before and name not in chain.inner.keys() | workspaces
        }
        self._sizes = {name: sizes[name] for name in around}
        self._rounded = {name: round_up(size) for name, size in self._sizes.items()}
        self._begin = {name for name, (first, _) in around.items() if first >= before and name not in program.inputs}
        self._end = {name for name, (_, last) in around.items() if last < behind and name not in program.outputs}
        self._lives = chain.lives()
        self._onto = [
            tuple(
                ref.buffer
                for operand, ref in enumerate(link.call.operands[: len(link.call.kernel.reads)])
                if kernels.may_write_onto(link.call.params, operand)
            )
            for link in links
        ]
        self._workspaces: dict[tuple[int, Rows], int] = {}
        self.around = sum(self._rounded.values())

    def peak(self, sets: Sequence[Rowset]) -> int:
        """The most bytes that are alive at once in all stripes of the chain, in order."""
        running = [frozenset(self._running(rowset)) for rowset in sets]
        begins, ends = self._ends(running)
        alive = sum(size for name, size in self._rounded.items() if name not in begins)
        most = 0
        for at, rowset in enumerate(sets):
            stripe = _Stripe(rowset, running[at], self._lives_in(running[at]), _of(begins, at), _of(ends, at))
            most = max(most, self._stripe_peak(stripe, alive))
            alive += sum(self._rounded[name] for names in stripe.begins.values() for name in names)
            alive -= sum(self._rounded[name] for names in stripe.ends.values() for name in names)
        return most

    def peak_of(self, rowset: Rowset) -> int:
        """The most bytes that are alive at once in one of the stripes, at most: with all around it alive."""
        running = frozenset(self._running(rowset))
        return self._stripe_peak(_Stripe(rowset, running, self._lives_in(running), {}, {}), self.around)

    def _running(self, rowset: Rowset) -> Iterator[int]:
        for at, link in enumerate(self._chain.links):
            own = link.own(rowset.new.get(link.buffer, _NONE))
            if own[0] < own[1]:
                yield at

    def _ends(self, running: Sequence[AbstractSet[int]]) -> tuple[Mapping[str, Place], Mapping[str, Place]]:
        """Where what lies around is named first, if not before the chain, and last, if not behind it."""
        begins: dict[str, Place] = {}
        ends: dict[str, Place] = {}
        if self._begin or self._end:
            for stripe, calls in enumerate(running):
                for at in sorted(calls):
                    for ref in self._chain.links[at].call.operands:
                        if ref.buffer in self._begin:
                            begins.setdefault(ref.buffer, (stripe, at))
                        if ref.buffer in self._end:
                            ends[ref.buffer] = stripe, at
        return begins, ends

    def _lives_in(self, running: AbstractSet[int]) -> Mapping[str, Rows]:
        """For each inner buffer the first and the last of these calls that name it."""
        if len(running) == len(self._chain.links):
            return self._lives
        lives: dict[str, Rows] = {}
        for at in sorted(running):
            link = self._chain.links[at]
            for name in (link.buffer, *(reading.buffer for reading in link.readings)):
                if name in self._lives:
                    lives[name] = lives.get(name, (at, at))[0], at
        return lives

    def _stripe_peak(self, stripe: _Stripe, alive: int) -> int:
        """The most that is alive at once in a stripe, at whose start `alive` bytes are around the chain."""
        rowset, lives = stripe.rowset, stripe.lives
        parts = {name: round_up(self._bytes(name, rows)) for name, rows in rowset.rows.items() if name in self._lives}
        copied = {name: rowset.new[name][0] - rowset.rows[name][0] for name in parts}
        ends: dict[int, list[str]] = {}
        for name in parts.keys() - rowset.kept.keys():
            ends.setdefault(lives.get(name, self._lives[name])[1], []).append(name)
        alive += sum(round_up(rows * self._chain.inner[name]) for name, rows in copied.items())
        most = 0
        for at, link in enumerate(self._chain.links):
            name = link.buffer
            if copied.get(name) and self._lives[name][0] == at:
                alive += parts[name]
                most = max(most, alive)
                alive -= round_up(copied[name] * self._chain.inner[name])
            if at in stripe.running:
                is_first = name in parts and not copied[name] and lives[name][0] == at
                alive += parts[name] if is_first else 0
                alive += sum(self._rounded[n] for n in stripe.begins.get(at, ()))
                dead = (*ends.get(at, ()), *stripe.ends.get(at, ()))
                shared = self._shared(at, rowset, dead) if is_first else 0
                most = max(most, alive - shared + self._workspace(at, rowset))
                alive -= sum(self._rounded[n] if n in self._rounded else parts[n] for n in dead)
            for kept, rows in rowset.kept.items():
                if self._lives[kept][1] == at:
                    alive += round_up(self._bytes(kept, rows))
                    most = max(most, alive)
                    alive -= parts[kept]
        return most

    def _shared(self, at: int, rowset: Rowset, dead: Sequence[str]) -> int:
        """Bytes of what a call reads last and writes its output onto."""
        name = self._chain.links[at].buffer
        own = self._bytes(name, rowset.rows[name])
        for source in self._onto[at]:
            if source in dead:
                inner = source in self._lives
                size = self._bytes(source, rowset.rows[source]) if inner else self._sizes[source]
                if size == own:
                    return round_up(own)
        return 0

    def _workspace(self, at: int, rowset: Rowset) -> int:
        """Bytes of what a call needs beside its operands."""
        link = self._chain.links[at]
        if not link.call.kernel.workspace:
            return 0
        key = at, link.own(rowset.new[link.buffer])
        if key not in self._workspaces:
            self._workspaces[key] = round_up(self._kernels.operand_bytes(link.rows.narrowed(*key[1]))[-1])
        return self._workspaces[key]

    def _bytes(self, name: str, rows: Rows) -> int:
        return (rows[1] - rows[0]) * self._chain.inner[name]


def _of(places: Mapping[str, Place], stripe: int) -> Mapping[int, Sequence[str]]:
    """The names of one stripe by the call."""
    names: dict[int, list[str]] = {}
    for name, (own, at) in places.items():
        if own == stripe:
            names.setdefault(at, []).append(name)
    return names
