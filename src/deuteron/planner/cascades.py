"""Which chains of calls run depth first, and how many rows at a time: the fastest that fit into so much memory.

A program is parted into chains of consecutive calls and calls that stay whole. Of each chain it is known what it takes:
memory for what lies around it and for the rows of its neediest stripe, time for its calls, rows that overlap counted as
often as they are computed, and either memory for all its weights or time to fetch them again for each stripe. The
fastest way through all calls is then found call by call. Whether it is the fastest of all depends on the packing alone,
which may take more than the most that is alive at once.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from operator import sub

from deuteron.arch.memory import Effort
from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.npu.neutron.kernels.program import Program
from deuteron.npu.neutron.kernels.row_dependencies import Rows
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.liveness import Alive
from deuteron.planner.packing import FAST_EFFORT, placed
from deuteron.planner.processor_model import NEUTRON, Costs, Kernels
from deuteron.planner.stripes import Cascade, Chain, Link, Rowed, Rowset, striped

LONGEST = 24
"""Calls of a chain at most: a longer one computes more rows twice than it saves."""

TRIALS = 4
"""How often a smaller limit is tried where packing takes more than is alive at once."""

KEPT = 64
"""Cut programs that are kept for other limits and flashes."""

STEPS = 4_000_000
"""Calls of stripes that are looked at with `EXACT` effort at most, before longer chains have the heights that they have
with less; a limit counts steps and not seconds so that a plan does not depend on the machine."""


@dataclass(frozen=True, slots=True)
class _Step:
    """A way through the calls up to some call: its cycles, and the chains on it."""

    cycles: int
    cascades: tuple[Cascade, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """A program cut into stripes.

    Attributes:
        program: its calls.
        cascades: the chains.
        cycles: of all calls, each chain with the fetches of its weights.
        scratch: bytes of its intermediate results.
    """

    program: Program
    cascades: tuple[Cascade, ...]
    cycles: int
    scratch: int


class Cascades:
    """Looks for the fastest chains; what is known of a chain is kept from one limit to the next."""

    def __init__(
        self,
        program: Program,
        rates: Costs,
        kernels: Kernels = NEUTRON,
        effort: Effort = Effort.FAST,
        least: Sequence[int] | None = None,
    ) -> None:
        """Looks for chains of a program.

        Args:
            program: its calls.
            rates: what they take.
            kernels: of the processor that runs them.
            effort: how many chains and heights are looked at; `leaves_out_none` where these are all.
            least: what each call takes at least, whatever it is cut into, if less than as a whole; chains that may
                save something so are looked at where all of their calls fit, too.
        """
        self._program, self._rates, self._kernels = program, rates, kernels
        count = len(program.calls)
        self._exhausted = 0 if effort is Effort.FAST else longest_exhausted(program, STEPS, kernels)
        self._longest = max(LONGEST, self._exhausted)
        self.leaves_out_none = 0 < self._exhausted == count
        self._rowed = Rowed(program, kernels)
        self._alive = _alive(program)
        self._costs = [rates.dispatch + rates.work(call.params) for call in program.calls]
        self._least = self._costs if least is None else least
        self._facts: dict[Rows, _Facts | None] = {}
        self._programs: dict[tuple[Cascade, ...], Program | None] = {}
        self._scratch: dict[tuple[Cascade, ...], int] = {}

    def fastest(
        self, scratch: int, area: int | None, below: int | None = None, flash: Costs | None = None
    ) -> Cut | None:
        """The fastest program whose intermediate results take at most `scratch` bytes; None when none is found.

        Args:
            scratch: bytes for intermediate results.
            area: bytes for weights, where they are fetched.
            below: cycles of a program that is there; none that is slower is looked for.
            flash: what fetches take, if it is not what the rates of calls say.
        """
        limit = scratch
        for _ in range(TRIALS):
            cut = self.with_alive(limit, area, below, flash)
            if cut is None or cut.scratch <= scratch:
                return cut
            limit -= cut.scratch - scratch
        return None

    def with_alive(
        self, limit: int, area: int | None, below: int | None = None, flash: Costs | None = None
    ) -> Cut | None:
        """The fastest program with at most `limit` bytes alive at once, whatever they take; otherwise as `fastest`."""
        way = self._cuttable(limit, area, below, flash or self._rates)
        if way is None:
            return None
        step, program = way
        if step.cascades not in self._scratch:
            self._scratch[step.cascades] = placed(lifetimes(program), FAST_EFFORT).nbytes
        return Cut(program, step.cascades, step.cycles, self._scratch[step.cascades])

    def _cuttable(self, limit: int, area: int | None, below: int | None, flash: Costs) -> tuple[_Step, Program] | None:
        """The fastest way whose chains kernels can do, and its program."""
        while True:
            step = self._way(limit, area, below, flash)
            if step is None:
                return None
            if step.cascades not in self._programs:
                if len(self._programs) == KEPT:
                    self._programs.clear()
                self._programs[step.cascades] = striped(self._program, step.cascades, self._kernels)
            program = self._programs[step.cascades]
            if program is not None:
                return step, program
            self._refuse(step.cascades)

    def _refuse(self, cascades: tuple[Cascade, ...]) -> None:
        """From now on leaves out those of them in which some rows start where kernels cannot read or write them."""
        for cascade in cascades:
            facts = self._known(cascade.first, cascade.last)
            if facts is not None and striped(self._program, (cascade,), self._kernels) is None:
                facts.refused.add((cascade.height, cascade.keeps))

    def least_cycles(self, limit: int) -> int | None:
        """Cycles that no cut with at most `limit` bytes alive takes less than; None where there is no such cut.

        Only where no chain and no height is left out.
        """
        way = self._cuttable(limit, None, None, self._rates)
        return None if way is None else way[0].cycles

    def least(self, area: int | None = 0, flash: Costs | None = None) -> Cut | None:
        """The program that takes the least scratch of those that are found; None where no chain makes it smaller.

        `area` and `flash` are as in `fastest`.
        """
        low, high = 0, max(self._alive, default=0)
        best = None
        while low + 1 < high:
            middle = (low + high) // 2
            cut = self.with_alive(middle, area, flash=flash)
            if cut is None:
                low = middle
            else:
                high = middle
                best = cut if best is None or cut.scratch < best.scratch else best
        return best

    def _way(self, limit: int, area: int | None, below: int | None, flash: Costs) -> _Step | None:
        """The fastest way through all calls with at most `limit` bytes alive, and fewer than `below` cycles."""
        count = len(self._program.calls)
        before = [0, *accumulate(self._least)]
        saved = [0, *accumulate(map(sub, self._costs, self._least))]
        steps: list[_Step | None] = [_Step(0, ()), *[None] * count]
        too_large = [at for at, alive in enumerate(self._alive) if alive > limit]
        for first in range(count):
            here = steps[first]
            if here is None:
                continue
            if self._alive[first] <= limit:
                _keep(steps, first + 1, _Step(here.cycles + self._costs[first], here.cascades))
            next_large = bisect_left(too_large, first)
            slack = None if below is None else below - here.cycles - (before[count] - before[first])
            if slack is not None and slack <= 0:
                continue
            from_large = too_large[next_large] + 1 if next_large < len(too_large) else count + 1
            from_saving = bisect_right(saved, saved[first])
            for last in range(max(first + 2, min(from_large, from_saving)), min(first + self._longest, count) + 1):
                if slack is not None and slack <= (last - first) * self._rates.dispatch:
                    break
                facts = self._known(first, last)
                if facts is not None:
                    for cycles, cascade in facts.choices(limit, area, slack, flash):
                        _keep(steps, last, _Step(here.cycles + cycles, (*here.cascades, cascade)))
        return steps[count]

    def _known(self, first: int, last: int) -> "_Facts | None":
        if (first, last) not in self._facts:
            chain = self._rowed.chain(first, last)
            exactly = last - first <= self._exhausted
            self._facts[first, last] = (
                None if chain is None else _Facts(self._program, chain, self._rates, self._kernels, is_exact=exactly)
            )
        return self._facts[first, last]


def longest_exhausted(program: Program, steps: int, kernels: Kernels = NEUTRON) -> int:
    """The most calls of a chain for which all chains of as many or fewer, in every height, take at most so many steps.

    A step is a call of a stripe. Nothing is longer than all calls.
    """
    rowed, count = Rowed(program, kernels), len(program.calls)
    for length in range(2, count + 1):
        for first in range(count - length + 1):
            chain = rowed.chain(first, first + length)
            steps -= length * (1 if chain is None else 1 + 2 * _stripes(chain.count))
            if steps < 0:
                return length - 1
    return count


@cache
def _stripes(rows: int) -> int:
    """Stripes of all heights of so many rows together."""
    return sum(-(-rows // height) for height in range(1, rows))


def _keep(steps: list[_Step | None], at: int, step: _Step) -> None:
    known = steps[at]
    if known is None or step.cycles < known.cycles:
        steps[at] = step


def _alive(program: Program) -> list[int]:
    """Bytes of scratch in use during each call."""
    blocks = lifetimes(program)
    return [sum(block.alive(at) for block in blocks) for at in range(len(program.calls))]


class _Facts:
    """What a chain takes, for each height of its stripes that makes a difference.

    `refused` are heights, and whether rows are kept, that kernels cannot do.
    """

    def __init__(self, program: Program, chain: Chain, rates: Costs, kernels: Kernels, *, is_exact: bool) -> None:
        self._chain, self._rates, self._kernels = chain, rates, kernels
        self._is_exact = is_exact
        links = chain.links
        self._first, self._last = links[0].at, links[-1].at + 1
        self._alive = Alive(program, chain, kernels)
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

    def choices(self, limit: int, area: int | None, slack: int | None, flash: Costs) -> Iterator[tuple[int, Cascade]]:
        """Cycles and cuts with at most `limit` bytes of scratch: the highest stripes that fit, or all with more effort.

        Where they may take `slack` cycles more than the least, none is tried whose dispatches alone take more: each
        stripe has all calls. Fetches take what `flash` says.
        """
        if not self._heights or self._alive.around >= limit:
            return
        lowest = 0
        if slack is not None:
            stripes = 1 + slack // (len(self._chain.links) * self._rates.dispatch)
            lowest = min(bisect_left(self._heights, -(-self._chain.count // stripes)), len(self._heights) - 1)
        for keeps in (False, True):
            for height in self._fitting(limit, lowest, keeps=keeps):
                cycles = self.cycles(height, keeps=keeps)
                again = area is not None and self._weights > area
                if area is not None:
                    transfer = flash.fetched(self._weights, self._fetches)
                    cycles = max(cycles, transfer * (-(-self._chain.count // height) if again else 1))
                yield cycles, Cascade(self._first, self._last, height, keeps, again)

    def _fitting(self, limit: int, lowest: int, *, keeps: bool) -> Sequence[int]:
        """Possible heights with at most `limit` bytes of scratch, from the one at `lowest` on: all, or the highest."""
        heights = [height for height in self._heights[lowest:] if (height, keeps) not in self.refused]
        if self._is_exact:
            return [height for height in heights if self.peak(height, keeps=keeps) <= limit]
        fitting = bisect_left(heights, True, key=lambda h: self.peak(h, keeps=keeps) > limit)
        return heights[max(fitting - 1, 0) : fitting]

    def peak(self, height: int, *, keeps: bool) -> int:
        """The most bytes of scratch that are alive at once."""
        if (height, keeps) not in self._peaks:
            sets = self._sets(height, keeps=keeps)
            self._peaks[height, keeps] = self._alive.peak(sets) if self._is_exact else self._alive.sampled(sets)
        return self._peaks[height, keeps]

    def _sets(self, height: int, *, keeps: bool) -> Sequence[Rowset]:
        return self._chain.stripes(height, keeps=keeps)

    def cycles(self, height: int, *, keeps: bool) -> int:
        """Cycles of all calls of all stripes."""
        if (height, keeps) not in self._cycles:
            sets = self._sets(height, keeps=keeps)
            calls = sum(
                self._call(at, link, link.own(rowset.new.get(link.buffer, (0, 0))))
                for rowset in sets
                for at, link in enumerate(self._chain.links)
            )
            copies = sum(
                2 * (self._rates.dispatch + self._rates.copied((rows[1] - rows[0]) * self._chain.inner[name]))
                for rowset in sets
                for name, rows in rowset.kept.items()
            )
            self._cycles[height, keeps] = calls + copies
        return self._cycles[height, keeps]

    def _call(self, at: int, link: Link, own: Rows) -> int:
        """Cycles of some rows of a call, which depend on nothing but how many rows it reads and writes."""
        if own[0] == own[1]:
            return 0
        rows = tuple(last - first for first, last in (reading.needs(own) for reading in link.readings))
        key = (at, own[1] - own[0], rows)
        if key not in self._narrow:
            self._narrow[key] = self._rates.dispatch + self._rates.work(link.rows.narrowed(*own))
        return self._narrow[key]
