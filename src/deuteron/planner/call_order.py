"""Reorders calls to lower peak memory: beam search with dominance.

Independent calls may run in any order. Partial orders are extended call by call. Among partial orders
of the same calls, the search keeps the one with the lowest peak (dynamic programming), and of these the best WIDTH
(beam search). If there are never more than WIDTH, the peak is the minimum of all orders.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from deuteron.operators.limits import round_up
from deuteron.operators.program import KernelCall, Program, Ref
from deuteron.planner.lifetimes import can_share, lifetimes, live_ranges
from deuteron.planner.packing import max_live

WIDTH = 64
"""Width of the beam: partial orders that are kept after each call."""

Bits = int
"""A set of calls as a bit mask; bit `i` is call `i` of the program."""


@dataclass(frozen=True, slots=True)
class _Scratch:
    """A scratch buffer: its bytes, and the calls that use it."""

    nbytes: int
    calls: Bits


@dataclass(frozen=True, slots=True)
class _Call:
    """A call: the calls it depends on, its buffers, and pairs whose second may be written in place of the first."""

    needs: Bits
    scratch: tuple[_Scratch, ...]
    pairs: tuple[tuple[_Scratch, _Scratch], ...]

    @property
    def least(self) -> int:
        """Bytes of the call's buffers, a lower bound of the peak in any order."""
        return sum(b.nbytes for b in self.scratch) - max((source.nbytes for source, _ in self.pairs), default=0)

    def during(self, before: Bits, after: Bits) -> int:
        """Bytes of its buffers while it runs; `after` is `before` with this call added."""
        both = (s.nbytes for s, output in self.pairs if not output.calls & before and not s.calls & ~after)
        return sum(b.nbytes for b in self.scratch) - next(both, 0)


@dataclass(frozen=True, slots=True)
class _Partial:
    """An order of the calls `done`, after which `live` bytes are live; calls `ready` may be next."""

    done: Bits
    order: tuple[int, ...]
    ready: tuple[int, ...]
    live: int
    peak: int


def reorder_calls(program: Program) -> Program:
    """Return the program with its calls in the order with the lowest peak memory that is found."""
    peak = max_live(lifetimes(program))
    order = _order_below(_calls_of(program), peak)
    if order is None:
        return program
    candidate = replace(program, calls=tuple(program.calls[at] for at in order))
    return candidate if max_live(lifetimes(candidate)) < peak else program


def _order_below(calls: Sequence[_Call], limit: int) -> tuple[int, ...] | None:
    """Return an order with a peak below `limit` bytes, or None."""
    if max((call.least for call in calls), default=0) >= limit:
        return None
    users = [[at for at, call in enumerate(calls) if call.needs >> needed & 1] for needed in range(len(calls))]
    partials = [_Partial(0, (), tuple(at for at, call in enumerate(calls) if not call.needs), 0, 0)]
    for _ in calls:
        best: dict[Bits, _Partial] = {}
        for partial in partials:
            for after in _extended(calls, users, partial):
                known = best.get(after.done)
                if after.peak < limit and (known is None or after.peak < known.peak):
                    best[after.done] = after
        partials = sorted(best.values(), key=lambda p: (p.peak, p.live))[:WIDTH]
    return partials[0].order if partials else None


def _extended(calls: Sequence[_Call], users: Sequence[Sequence[int]], partial: _Partial) -> Iterator[_Partial]:
    """Extend the order by each call that is ready."""
    before = partial.done
    for at in partial.ready:
        call, after = calls[at], before | 1 << at
        new = sum(b.nbytes for b in call.scratch if not b.calls & before)
        dead = sum(b.nbytes for b in call.scratch if not b.calls & ~after)
        others = partial.live + new - sum(b.nbytes for b in call.scratch)
        freed = (user for user in users[at] if not calls[user].needs & ~after)
        ready = tuple(sorted({*partial.ready, *freed} - {at}))
        peak = max(partial.peak, others + call.during(before, after))
        yield _Partial(after, (*partial.order, at), ready, partial.live + new - dead, peak)


def _calls_of(program: Program) -> list[_Call]:
    """Summarize the calls of a program."""
    live = live_ranges(program)
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    bits = dict.fromkeys(live, 0)
    for at, call in enumerate(program.calls):
        for name in {ref.buffer for ref in call.operands} & live.keys():
            bits[name] |= 1 << at
    scratch = {name: _Scratch(round_up(sizes[name]), calls) for name, calls in bits.items()}
    summaries: list[_Call] = []
    for call, needs in zip(program.calls, _dependencies(program.calls), strict=True):
        names = [name for name in dict.fromkeys(ref.buffer for ref in call.operands) if name in scratch]
        output = call.operands[len(call.kernel.reads)].buffer
        sources = [name for name in names if output in scratch and can_share(call, name, output, sizes)]
        pairs = tuple((scratch[name], scratch[output]) for name in sources)
        summaries.append(_Call(needs, tuple(scratch[name] for name in names), pairs))
    return summaries


def _dependencies(calls: Sequence[KernelCall]) -> list[Bits]:
    """Return for each call the earlier calls that it depends on: those that write its operands or read its output."""
    seen: dict[str, list[tuple[int, Ref, bool]]] = {}
    dependencies: list[Bits] = []
    for at, call in enumerate(calls):
        needs = 0
        for operand, ref in enumerate(call.operands):
            writes = operand >= len(call.kernel.reads)
            for earlier, other, wrote in seen.setdefault(ref.buffer, []):
                apart = ref.offset + ref.nbytes <= other.offset or other.offset + other.nbytes <= ref.offset
                if (writes or wrote) and not apart and earlier != at:
                    needs |= 1 << earlier
            seen[ref.buffer].append((at, ref, writes))
        dependencies.append(needs)
    return dependencies
