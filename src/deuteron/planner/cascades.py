"""Chooses the chains of calls that run depth first, and their stripe heights: the fastest cut within a memory limit.

The program is partitioned into chains of consecutive calls and single calls. The memory of a chain is that of the live
blocks around it plus the rows of its largest stripe. Its time is that of all its calls, with overlapping rows counted
as often as they are computed. Its weights either stay in memory or are fetched again for each stripe. Dynamic
programming over the calls then finds the fastest partition. It is optimal unless packing takes more than the peak of
live bytes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from operator import sub

from deuteron.arch.memory import Effort
from deuteron.operators.limits import round_up
from deuteron.operators.program import Program
from deuteron.operators.row_dependencies import Rows
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.liveness import ChainLiveness
from deuteron.planner.packing import FAST_EFFORT, cached_pack
from deuteron.planner.processor_model import CallModel, Processor
from deuteron.planner.stripes import Cascade, Chain, ChainCall, RowAnalysis, StripeRows, cut_into_stripes

LONGEST = 24
"""Largest number of calls of a chain. Longer ones recompute more rows than they save."""

TRIALS = 4
"""Number of smaller limits that are tried when packing takes more than the peak of live bytes."""

KEPT = 64
"""Number of cut programs in the cache, for other limits and flashes."""

STEPS = 4_000_000
"""Limit of the exhaustive search with `EXACT` effort, in calls of stripes. Longer chains are only searched for the
heights of `FAST` effort. It counts steps, so that a plan does not depend on the machine."""


@dataclass(frozen=True, slots=True)
class _Partial:
    """A partition of the first calls: its cycles and its chains."""

    cycles: int
    cascades: tuple[Cascade, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """A program cut into stripes.

    Attributes:
        program: the cut calls.
        cascades: the chains.
        cycles: cycles of all calls, with the fetches of the weights of chains.
        scratch: bytes of its intermediate results.
    """

    program: Program
    cascades: tuple[Cascade, ...]
    cycles: int
    scratch: int


class CascadeSearch:
    """Searches for the fastest chains; costs of chains are cached for other limits."""

    def __init__(
        self,
        program: Program,
        processor: Processor,
        effort: Effort = Effort.FAST,
        least: Sequence[int] | None = None,
    ) -> None:
        """Prepare a search.

        Args:
            program: the calls.
            processor: rules and costs of the calls.
            effort: `EXACT` tries all chains and heights; the property `is_exhaustive` tells if it could.
            least: lower bounds of the cost of each call in any cut; None for the costs of whole calls. Chains that may
                save something by these bounds are also tried if all their calls fit whole.
        """
        self._program, self._processor = program, processor
        count = len(program.calls)
        self._exhausted = 0 if effort is Effort.FAST else longest_exhaustive_chain(program, STEPS, processor)
        self._longest = max(LONGEST, self._exhausted)
        self.is_exhaustive = 0 < self._exhausted == count
        self._rowed = RowAnalysis(program, processor)
        self._live_bytes = _live_bytes(program)
        self._costs = [processor.dispatch + processor.work(call.params) for call in program.calls]
        self._least = self._costs if least is None else least
        self._chain_costs: dict[Rows, _ChainCosts | None] = {}
        self._programs: dict[tuple[Cascade, ...], Program | None] = {}
        self._scratch: dict[tuple[Cascade, ...], int] = {}

    def fastest(
        self, scratch: int, area: int | None, below: int | None = None, flash: Processor | None = None
    ) -> Cut | None:
        """Return the fastest cut whose intermediate results take at most `scratch` bytes, or None.

        Args:
            scratch: bytes for intermediate results.
            area: bytes for weights, if they are fetched.
            below: cycles of a known plan; slower cuts are ignored.
            flash: costs of fetches, if they differ from those of `processor`.
        """
        limit = scratch
        for _ in range(TRIALS):
            cut = self.within_live_bytes(limit, area, below, flash)
            if cut is None or cut.scratch <= scratch:
                return cut
            limit -= cut.scratch - scratch
        return None

    def within_live_bytes(
        self, limit: int, area: int | None, below: int | None = None, flash: Processor | None = None
    ) -> Cut | None:
        """Return the fastest cut with at most `limit` live bytes before packing; otherwise as `fastest`."""
        path = self._fastest_supported(limit, area, below, flash or self._processor)
        if path is None:
            return None
        step, program = path
        if step.cascades not in self._scratch:
            self._scratch[step.cascades] = cached_pack(lifetimes(program), FAST_EFFORT).nbytes
        return Cut(program, step.cascades, step.cycles, self._scratch[step.cascades])

    def _fastest_supported(
        self, limit: int, area: int | None, below: int | None, flash: Processor
    ) -> tuple[_Partial, Program] | None:
        """Return the fastest partition whose stripes the processor supports, and its program."""
        while True:
            step = self._fastest_path(limit, area, below, flash)
            if step is None:
                return None
            if step.cascades not in self._programs:
                if len(self._programs) == KEPT:
                    self._programs.clear()
                self._programs[step.cascades] = cut_into_stripes(self._program, step.cascades, self._processor)
            program = self._programs[step.cascades]
            if program is not None:
                return step, program
            self._refuse(step.cascades)

    def _refuse(self, cascades: tuple[Cascade, ...]) -> None:
        """Exclude the chains with stripes that the processor does not support, such as misaligned rows."""
        for cascade in cascades:
            costs = self._costs_of(cascade.first, cascade.last)
            if costs is not None and cut_into_stripes(self._program, (cascade,), self._processor) is None:
                costs.refused.add((cascade.height, cascade.cache_halo))

    def min_cycles(self, limit: int) -> int | None:
        """Return a lower bound in cycles of all cuts with at most `limit` live bytes, or None if there is no such cut.

        Valid only if the search is exhaustive.
        """
        path = self._fastest_supported(limit, None, None, self._processor)
        return None if path is None else path[0].cycles

    def least(self, area: int | None = 0, flash: Processor | None = None) -> Cut | None:
        """Return the cut with the least scratch that is found, or None if no chain saves memory.

        `area` and `flash` are as in `fastest`. Bisection of the limit of live bytes.
        """
        low, high = 0, max(self._live_bytes, default=0)
        best = None
        while low + 1 < high:
            middle = (low + high) // 2
            cut = self.within_live_bytes(middle, area, flash=flash)
            if cut is None:
                low = middle
            else:
                high = middle
                best = cut if best is None or cut.scratch < best.scratch else best
        return best

    def _fastest_path(self, limit: int, area: int | None, below: int | None, flash: Processor) -> _Partial | None:
        """Return the fastest partition with at most `limit` live bytes and fewer than `below` cycles."""
        # Dynamic programming: steps[n] is the fastest partition of the first n calls.
        count = len(self._program.calls)
        before = [0, *accumulate(self._least)]
        saved = [0, *accumulate(map(sub, self._costs, self._least))]
        steps: list[_Partial | None] = [_Partial(0, ()), *[None] * count]
        too_large = [at for at, live in enumerate(self._live_bytes) if live > limit]
        for first in range(count):
            here = steps[first]
            if here is None:
                continue
            if self._live_bytes[first] <= limit:
                _update(steps, first + 1, _Partial(here.cycles + self._costs[first], here.cascades))
            next_large = bisect_left(too_large, first)
            slack = None if below is None else below - here.cycles - (before[count] - before[first])
            if slack is not None and slack <= 0:
                continue
            from_large = too_large[next_large] + 1 if next_large < len(too_large) else count + 1
            from_saving = bisect_right(saved, saved[first])
            for last in range(max(first + 2, min(from_large, from_saving)), min(first + self._longest, count) + 1):
                if slack is not None and slack <= (last - first) * self._processor.dispatch:
                    break
                costs = self._costs_of(first, last)
                if costs is not None:
                    for cycles, cascade in costs.choices(limit, area, slack, flash):
                        _update(steps, last, _Partial(here.cycles + cycles, (*here.cascades, cascade)))
        return steps[count]

    def _costs_of(self, first: int, last: int) -> "_ChainCosts | None":
        if (first, last) not in self._chain_costs:
            chain = self._rowed.chain(first, last)
            exactly = last - first <= self._exhausted
            self._chain_costs[first, last] = (
                None if chain is None else _ChainCosts(self._program, chain, self._processor, is_exact=exactly)
            )
        return self._chain_costs[first, last]


def longest_exhaustive_chain(program: Program, steps: int, calls: CallModel) -> int:
    """Return the largest length for which all chains up to it have at most `steps` calls of stripes in all heights.

    At most the number of calls of the program.
    """
    analysis, count = RowAnalysis(program, calls), len(program.calls)
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            chain = analysis.chain(first, first + length)
            steps -= length * (1 if chain is None else 1 + 2 * _stripes(chain.count))
            if steps < 0:
                return length - 1
    return count


@cache
def _stripes(rows: int) -> int:
    """Return the number of stripes of so many rows, summed over all heights."""
    return sum(-(-rows // height) for height in range(1, rows))


def _update(steps: list[_Partial | None], at: int, step: _Partial) -> None:
    known = steps[at]
    if known is None or step.cycles < known.cycles:
        steps[at] = step


def _live_bytes(program: Program) -> list[int]:
    """Return the live bytes of scratch during each call."""
    blocks = lifetimes(program)
    return [sum(block.live_bytes(at) for block in blocks) for at in range(len(program.calls))]


class _ChainCosts:
    """Memory and cycles of a chain for each stripe height.

    `refused` are the pairs (height, cache_halo) that the processor does not support.
    """

    def __init__(self, program: Program, chain: Chain, processor: Processor, *, is_exact: bool) -> None:
        self._chain, self._processor = chain, processor
        self._is_exact = is_exact
        links = chain.calls
        self._first, self._last = links[0].at, links[-1].at + 1
        self._liveness = ChainLiveness(program, chain, processor)
        constants = {b.name: round_up(b.nbytes) for b in program.buffers if b.data is not None}
        read = {ref.buffer for link in links for ref in link.call.operands if ref.buffer in constants}
        self._weights = sum(constants[name] for name in read)
        self._fetches = sum(any(ref.buffer in constants for ref in link.call.operands) for link in links)
        grain = chain.grain
        self._heights = list(range(grain, chain.count, grain))
        if not self._is_exact:
            count = -(-chain.count // grain)
            self._heights = sorted({-(-count // stripes) * grain for stripes in range(2, count + 1)})
        self.refused: set[tuple[int, bool]] = set()
        self._peaks: dict[tuple[int, bool], int] = {}
        self._cycles: dict[tuple[int, bool], int] = {}
        self._narrow: dict[tuple[int, int, tuple[int, ...]], int] = {}

    def choices(
        self, limit: int, area: int | None, slack: int | None, flash: Processor
    ) -> Iterator[tuple[int, Cascade]]:
        """Yield cycles and cuts with at most `limit` bytes of scratch: the highest stripes that fit, or all of them.

        With `slack`, heights are skipped whose dispatches alone exceed so many cycles. `flash` has costs of fetches.
        """
        if not self._heights or self._liveness.around >= limit:
            return
        lowest = 0
        if slack is not None:
            stripes = 1 + slack // (len(self._chain.calls) * self._processor.dispatch)
            lowest = min(bisect_left(self._heights, -(-self._chain.count // stripes)), len(self._heights) - 1)
        for cache_halo in (False, True):
            for height in self._fitting(limit, lowest, cache_halo=cache_halo):
                cycles = self.cycles(height, cache_halo=cache_halo)
                refetch = area is not None and self._weights > area
                if area is not None:
                    transfer = flash.fetched(self._weights, self._fetches)
                    cycles = max(cycles, transfer * (-(-self._chain.count // height) if refetch else 1))
                yield cycles, Cascade(self._first, self._last, height, cache_halo, refetch)

    def _fitting(self, limit: int, lowest: int, *, cache_halo: bool) -> Sequence[int]:
        """Return the supported heights within `limit` bytes of scratch, from index `lowest` on: all, or the highest."""
        heights = [height for height in self._heights[lowest:] if (height, cache_halo) not in self.refused]
        if self._is_exact:
            return [height for height in heights if self.peak(height, cache_halo=cache_halo) <= limit]
        fitting = bisect_left(heights, True, key=lambda h: self.peak(h, cache_halo=cache_halo) > limit)
        return heights[max(fitting - 1, 0) : fitting]

    def peak(self, height: int, *, cache_halo: bool) -> int:
        """Return the peak of live bytes of scratch."""
        if (height, cache_halo) not in self._peaks:
            sets = self._sets(height, cache_halo=cache_halo)
            self._peaks[height, cache_halo] = (
                self._liveness.peak(sets) if self._is_exact else self._liveness.sampled_peak(sets)
            )
        return self._peaks[height, cache_halo]

    def _sets(self, height: int, *, cache_halo: bool) -> Sequence[StripeRows]:
        return self._chain.stripes(height, cache_halo=cache_halo)

    def cycles(self, height: int, *, cache_halo: bool) -> int:
        """Return the cycles of all calls of all stripes, with copies of cached rows."""
        if (height, cache_halo) not in self._cycles:
            sets = self._sets(height, cache_halo=cache_halo)
            calls = sum(
                self._call(at, link, link.own(stripe.new.get(link.buffer, (0, 0))))
                for stripe in sets
                for at, link in enumerate(self._chain.calls)
            )
            copies = sum(
                2 * (self._processor.dispatch + self._processor.copied((rows[1] - rows[0]) * self._chain.inner[name]))
                for stripe in sets
                for name, rows in stripe.kept.items()
            )
            self._cycles[height, cache_halo] = calls + copies
        return self._cycles[height, cache_halo]

    def _call(self, at: int, link: ChainCall, own: Rows) -> int:
        """Return the cycles of some rows of a call, cached by the numbers of rows that it reads and writes."""
        if own[0] == own[1]:
            return 0
        rows = tuple(last - first for first, last in (row_read.needs(own) for row_read in link.row_reads))
        key = (at, own[1] - own[0], rows)
        if key not in self._narrow:
            self._narrow[key] = self._processor.dispatch + self._processor.work(link.rows.narrowed(*own))
        return self._narrow[key]
