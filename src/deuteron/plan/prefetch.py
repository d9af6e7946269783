"""Which chunks stay in SRAM between inferences and which are streamed through it.

Lower bound of any schedule with one flash channel and this order of calls, P(i) the bytes that calls 0..i need and A
the bytes of the area: a run takes at least

    max over i of (max(0, P(i) - A) / bandwidth + cycles of calls i..end)

for no more than A bytes can be in place when it starts, and call i starts after the rest has come.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from deuteron.arch.engine import Engine
from deuteron.kernels.cost import cost
from deuteron.kernels.program import Program
from deuteron.plan.chunks import Chunk, chunks
from deuteron.plan.stream import Costs, Schedule, schedule

LEAST_FETCH_CYCLES = 4
"""Chunks are joined while their transfer takes less than so many times the cost of starting it."""

TRIALS = 1_500
"""Schedules that the heuristic looks at."""


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


def prefetch(program: Program, engine: Engine, area: int) -> Prefetch | None:
    """A plan for an area of `area` bytes, or None when it is too small for any."""
    least = engine.flash_bandwidth * (engine.fetch_setup + engine.fetch_latency) * LEAST_FETCH_CYCLES // engine.clock
    joined = chunks(program, min(least, area // 8))
    parts = joined if least_area(joined, len(program.calls)) <= area else chunks(program)
    costs = costs_of(program, parts, engine)
    bound = lower_bound(parts, costs, engine, area)
    found = _Search(parts, costs, area, bound).best()
    if found is None:
        return None
    resident, best = found
    return Prefetch(parts, resident, best, bound, best.cycles <= bound)


def lower_bound(parts: Sequence[Chunk], costs: Costs, engine: Engine, area: int) -> int:
    """Cycles that no schedule is faster than (the formula of this file)."""
    remaining = [0] * (len(costs.calls) + 1)
    for at in reversed(range(len(costs.calls))):
        remaining[at] = remaining[at + 1] + costs.calls[at]
    bound, needed = remaining[0], 0
    for chunk in parts:
        needed += chunk.nbytes
        late = max(0, needed - area)
        bound = max(bound, engine.transfer(late) + remaining[chunk.first])
    return bound


class _Search:
    """Looks for the resident chunks that give the fastest run."""

    def __init__(self, parts: Sequence[Chunk], costs: Costs, area: int, bound: int) -> None:
        self._parts, self._costs, self._area, self._bound = parts, costs, area, bound
        self._trials = 0
        self._known: dict[frozenset[int], Schedule | None] = {}
        self._best: tuple[frozenset[int], Schedule] | None = None

    def best(self) -> tuple[frozenset[int], Schedule] | None:
        """The fastest run that was found."""
        for resident in self._starts():
            self._try(resident)
        while self._best is not None and self._improve(self._best[0]):
            pass
        return self._best

    def _done(self) -> bool:
        return self._trials >= TRIALS or (self._best is not None and self._best[1].cycles <= self._bound)

    def _starts(self) -> Iterator[frozenset[int]]:
        """None resident; then the first ones, which stand in the way of everything, or the largest, for each share."""
        order = range(len(self._parts))
        keys: tuple[Callable[[int], int], ...] = (lambda i: i, lambda i: -self._parts[i].nbytes)
        yield frozenset()
        for key in keys:
            for share in range(16, 0, -1):
                yield self._fill(sorted(order, key=key), self._area * share // 16)

    def _fill(self, order: Sequence[int], limit: int) -> frozenset[int]:
        """As many chunks as go into `limit` bytes, tried in this order."""
        taken: set[int] = set()
        for chunk in order:
            if self._parts[chunk].nbytes <= limit:
                taken.add(chunk)
                limit -= self._parts[chunk].nbytes
        return frozenset(taken)

    def _improve(self, resident: frozenset[int]) -> bool:
        """Tries what differs in one chunk, or in one taken for another; True when something is faster."""
        before = self._best
        others = [i for i in range(len(self._parts)) if i not in resident]
        for chunk in others:
            self._try(resident | {chunk})
        for chunk in sorted(resident):
            self._try(resident - {chunk})
            for other in others:
                if self._done():
                    return False
                self._try(resident - {chunk} | {other})
        return self._best is not before

    def _try(self, resident: frozenset[int]) -> None:
        if self._done() or resident in self._known:
            return
        self._trials += 1
        found = self._known[resident] = schedule(self._parts, self._costs, resident, self._area)
        if found is not None and (self._best is None or found.cycles < self._best[1].cycles):
            self._best = resident, found
