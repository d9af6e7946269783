"""Which chunks stay in SRAM between inferences and which are streamed through it.

Lower bounds of any schedule with one flash and this order of calls, P(i) the bytes that calls 0..i need, A the bytes of
the area, and C(i..j) the cycles of calls: where not all chunks fit, a run takes at least, for every i,

    C(0..k) + max(0, P(i) - P(k) - (A - S(k))) / bandwidth + C(i..end)    for every k < i,
    max(0, P(i) - (A - M)) / bandwidth + C(i..end)

The first: fetches are issued between calls. What is issued before call k has its room beside the S(k) bytes that k is
the last to read; the rest of what calls k+1..i need is transferred after k and before i. The second: let M be the bytes
of the largest chunk that is not resident. While it is read, no more than A - M are resident; the rest of P(i) comes
before i. M is not known, but all larger chunks are resident and have room beside it: the bound is the least over all M.
"""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

from deuteron.arch.engine import Engine
from deuteron.kernels.cost import cost
from deuteron.kernels.program import Program
from deuteron.plan.chunks import Chunk, chunks
from deuteron.plan.lifetimes import Lifetime
from deuteron.plan.placement import place
from deuteron.plan.stream import Costs, Schedule, Spot, schedule

if TYPE_CHECKING:
    from deuteron.plan.optimum import Optimum

LEAST_FETCH_CYCLES = 4
"""Chunks are joined while their transfer takes less than so many times the cost of starting it."""

MOST_CHOICES = 5_000
"""Calls times chunks of programs that the solver is asked about: above, it takes minutes and gains little."""

FIRST_WORK = 8_000
WORK = 40_000
"""Calls in all schedules together that the heuristic looks at to find a plan, and to improve one."""

MOST_TRIALS = 500
"""Schedules that it looks at to improve one."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A prefetch plan.

    Attributes:
        chunks: what is fetched.
        resident: indices of the chunks that stay in SRAM.
        schedule: fetches and waits.
        bound: cycles that no schedule of these chunks in this area is faster than.
        proven: whether no schedule of these chunks is faster.
    """

    chunks: tuple[Chunk, ...]
    resident: frozenset[int]
    schedule: Schedule
    bound: int
    proven: bool


def costs_of(program: Program, parts: Sequence[Chunk], engine: Engine) -> Costs:
    """What the calls and chunks of a program cost."""
    return Costs(
        tuple(engine.call_dispatch + cost(call.params, engine).cycles for call in program.calls),
        tuple(engine.fetch_latency + engine.transfer(chunk.nbytes) for chunk in parts),
        engine.fetch_setup,
    )


def least_area(parts: Sequence[Chunk], calls: int) -> int:
    """Bytes of the smallest area: the chunks that one call needs at once."""
    return max((sum(c.nbytes for c in parts if c.first <= at <= c.last) for at in range(calls)), default=0)


def prefetch(
    program: Program, engine: Engine, area: int, kept: Collection[str] = (), *, improve: bool = True
) -> Prefetch | None:
    """A plan for an area of `area` bytes, or None when it is too small for any.

    Args:
        program: the calls.
        engine: what they and transfers take.
        area: bytes for all constants.
        kept: constants that were resident in a plan for a similar program.
        improve: look at more schedules to improve the best of the first ones.
    """
    least = engine.flash_bandwidth * (engine.fetch_setup + engine.fetch_latency) * LEAST_FETCH_CYCLES // engine.clock
    joined = chunks(program, min(least, area // 8))
    parts = joined if least_area(joined, len(program.calls)) <= area else chunks(program)
    if least_area(parts, len(program.calls)) > area:
        return None
    costs = costs_of(program, parts, engine)
    bound = lower_bound(parts, costs, engine, area)
    search = _Search(parts, costs, area, bound)
    search.begin(frozenset(kept))
    if improve:
        search.improve()
    if search.best is None:
        return None
    resident, best = search.best
    return Prefetch(parts, resident, best, bound, best.cycles <= bound)


def proven(program: Program, found: Prefetch, engine: Engine, area: int, effort: float) -> Prefetch:
    """The plan with the bound that a solver proves with this effort, and faster where the solver's choices are."""
    from deuteron.plan.optimum import optimum  # its solver takes a while to load

    if found.proven or len(program.calls) * len(found.chunks) > MOST_CHOICES:
        return found
    costs = costs_of(program, found.chunks, engine)
    best = optimum(found.chunks, costs, area, (found.resident, found.schedule), effort)
    if best is None:
        return found
    bound = max(found.bound, best.bound)
    resident, fastest = found.resident, found.schedule
    for spots in (_packed(found.chunks, area, best), {j: Spot(call, None) for j, call in best.issues.items()}, None):
        candidate = schedule(found.chunks, costs, best.resident, area, spots)
        if candidate is not None and candidate.cycles < fastest.cycles:
            resident, fastest = best.resident, candidate
    return Prefetch(found.chunks, resident, fastest, bound, fastest.cycles <= bound)


def _packed(parts: Sequence[Chunk], area: int, found: "Optimum") -> dict[int, Spot] | None:
    """Room for each chunk from the call on that its fetch is issued before; None when that does not pack."""
    start = sum(parts[chunk].nbytes for chunk in found.resident)
    blocks = {j: Lifetime((str(j),), parts[j].nbytes, call, parts[j].last) for j, call in found.issues.items()}
    packing = place(tuple(blocks.values()))
    if start + packing.nbytes > area:
        return None
    return {j: Spot(block.first, start + packing.offsets[block]) for j, block in blocks.items()}


def lower_bound(parts: Sequence[Chunk], costs: Costs, engine: Engine, area: int) -> int:
    """Cycles that no schedule is faster than (the formulas of this file)."""
    total = sum(costs.calls)
    if sum(chunk.nbytes for chunk in parts) <= area:
        return total
    elapsed = (0, *accumulate(costs.calls))
    needed = tuple(zip(accumulate(chunk.nbytes for chunk in parts), (chunk.first for chunk in parts), strict=True))

    def late(done: int, room: int, before: int) -> int:
        """The bound when, after the first `done` bytes, `room` more are there at cycle `before`."""
        ends = (engine.transfer(p - done - room) + total - elapsed[i] for p, i in needed if p > done + room)
        return before + max(ends, default=0)

    start = min(
        late(0, area - largest, 0)
        for largest in {chunk.nbytes for chunk in parts}
        if sum(chunk.nbytes for chunk in parts if chunk.nbytes > largest) + largest <= area
    )
    return max(total, start, *_after_calls(parts, elapsed, area, late))


def _after_calls(
    parts: Sequence[Chunk], elapsed: Sequence[int], area: int, late: Callable[[int, int, int], int]
) -> Iterator[int]:
    """The bound from each call on that is the last to read something."""
    read = 0
    for call, first in groupby(parts, key=lambda chunk: chunk.first):
        read += sum(chunk.nbytes for chunk in first)
        own = sum(chunk.nbytes for chunk in parts if chunk.first <= call == chunk.last)
        yield late(read, area - own, elapsed[call + 1])


class _Search:
    """Looks for the resident chunks that give the fastest run."""

    def __init__(self, parts: Sequence[Chunk], costs: Costs, area: int, bound: int) -> None:
        self._parts, self._costs, self._area, self._bound = parts, costs, area, bound
        self._known: set[frozenset[int]] = set()
        self._random = random.Random(1)  # noqa: S311 - reproducible, and nobody's secret
        self.best: tuple[frozenset[int], Schedule] | None = None

    def begin(self, kept: frozenset[str]) -> None:
        """Tries what has worked before (`kept` names its constants), nothing, and several orders for several shares."""
        self._try(frozenset(i for i, chunk in enumerate(self._parts) if kept and kept.issuperset(chunk.buffers)))
        self._try(frozenset())
        order = range(len(self._parts))
        keys: tuple[Callable[[int], int], ...] = (lambda i: i, lambda i: -i, lambda i: -self._parts[i].nbytes)
        shares = min(16, max(2, FIRST_WORK // len(self._costs.calls) // len(keys)))
        for key in keys:
            for share in range(shares, 0, -1):
                self._try(self._fill(sorted(order, key=key), self._area * share // shares))

    def improve(self) -> None:
        """Changes the best at random: a chunk more or less, and others out where there is no room."""
        for _ in range(min(MOST_TRIALS, WORK // len(self._costs.calls))):
            if self.best is None or self._done():
                return
            self._try(self._changed(self.best[0]))

    def _done(self) -> bool:
        return self.best is not None and self.best[1].cycles <= self._bound

    def _fill(self, order: Sequence[int], limit: int) -> frozenset[int]:
        """As many chunks as go into `limit` bytes, tried in this order."""
        taken: set[int] = set()
        for chunk in order:
            if self._parts[chunk].nbytes <= limit:
                taken.add(chunk)
                limit -= self._parts[chunk].nbytes
        return frozenset(taken)

    def _changed(self, resident: frozenset[int]) -> frozenset[int]:
        chosen = self._random.randrange(len(self._parts))
        others = sorted(resident - {chosen})
        if chosen in resident:
            return frozenset(others)
        self._random.shuffle(others)
        swapped = self._random.randrange(2)  # also without need: what is left must find room to be streamed
        return frozenset((chosen, *self._fill(others[swapped:], self._area - self._parts[chosen].nbytes)))

    def _try(self, resident: frozenset[int]) -> None:
        if self._done() or resident in self._known:
            return
        self._known.add(resident)
        found = schedule(self._parts, self._costs, resident, self._area)
        if found is not None and (self.best is None or found.cycles <= self.best[1].cycles):
            self.best = resident, found
