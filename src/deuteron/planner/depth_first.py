"""Plans a program within a budget: call by call, or depth first if it does not fit otherwise or is faster."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy
from deuteron.errors import CapacityError, InternalError
from deuteron.operators.limits import round_up
from deuteron.operators.program import Program
from deuteron.planner.budget import Budget
from deuteron.planner.budget_ladder import ladder_budgets
from deuteron.planner.call_lower_bounds import min_call_cycles
from deuteron.planner.cascades import CascadeSearch, Cut, longest_exhaustive_chain
from deuteron.planner.fit_report import least_weight_bytes
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import pack
from deuteron.planner.plan import Plan, calls_within, plan, plan_calls
from deuteron.planner.prefetch_bound import lower_bound
from deuteron.planner.prefetch_schedule import MAX_CYCLES
from deuteron.planner.processor_model import FetchingProcessor
from deuteron.planner.reserved_intervals import scratch_of
from deuteron.planner.weight_chunks import groups
from deuteron.planner.weight_residency import costs_of

SHARES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24)
"""Shares of the memory, in 32nds, that are tried for weights; if none fits, the smallest area that is enough."""

FINALISTS = 4
"""Number of fitting cuts whose prefetch is planned."""

EXHAUSTIVE_STEPS = 100_000
"""Steps (`cascades.STEPS`) of an exhaustive search up to which it is done with every effort."""

LADDER_STEPS = 20_000
"""Steps of an exhaustive search up to which a program is planned for the budgets of `budget_ladder`."""

EXACT_PACKING_WORK = 100_000_000
"""Limit of packing with `EXACT` effort: the sum of squared numbers of calls, after which no other split is tried."""

BOUNDS = 16
"""Intervals of the memory for each of which a lower bound is computed."""

STRICT = False
"""True if a lower bound above the cycles of a plan is an error, as in tests and benches. Otherwise the plan is
valid and has no bound."""

Planned = tuple[Program, Plan]


def plan_within(program: Program, budget: Budget) -> Planned:
    """Return a plan within a budget, and its program, whose calls may be cut; both pass `check`.

    Raises:
        CapacityError: the program does not fit.
    """
    pieces, planned = _fastest(program, budget)
    if budget.depth_first is not DepthFirst.NEVER and any(call.stripe for call in pieces.calls):
        taken = cycles(pieces, planned, budget)
        bound = 0 if budget.depth_first is DepthFirst.ALWAYS else _bound(program, budget)
        if bound > taken:
            if STRICT:
                raise InternalError(f"a plan takes {taken:,} cycles, less than the lower bound of {bound:,}")
            bound = 0
        whole = pack(lifetimes(program)).nbytes
        planned = replace(planned, whole_scratch_bytes=whole, planned_cycles=taken, cycles_bound=bound)
    return pieces, planned


def _fastest(program: Program, budget: Budget) -> Planned:
    """Return the fastest plan that is found for this budget and, for small programs, for smaller ones."""
    if budget.depth_first is DepthFirst.ALWAYS:
        least = _cascades(program, budget.processor.without_flash(), budget.effort).least(flash=budget.processor)
        program, budget = least.program if least else program, replace(budget, depth_first=DepthFirst.NEVER)
    best = (
        _from_ladder(program, replace(budget, effort=Effort.FAST))
        if _is_small(program, budget.processor, LADDER_STEPS)
        else None
    )
    if best is None or budget.effort is Effort.FAST:
        return best or _planned(program, budget)
    own = _or_none(program, budget)
    return own if own is not None and cycles(*own, budget) <= cycles(*best, budget) else best


def _from_ladder(program: Program, budget: Budget) -> Planned | None:
    """Return the fastest fitting plan of those for the budgets of the ladder, or None."""
    whole = plan(program)
    cut = budget.depth_first is not DepthFirst.NEVER
    sure = sum(min_call_cycles(program, budget.processor) if cut else costs_of(program, (), budget.processor).calls)
    best: _Usage | None = None
    for sram in ladder_budgets(whole.scratch_bytes + whole.constant_bytes, budget.sram):
        smaller = replace(budget, sram=sram)
        if best is not None and best.is_whole and best.cycles <= min_cycles(program, smaller):
            break  # as in `_planned`
        if best is not None and best.cycles <= min_cycles(program, smaller, computing=sure):
            break
        if best is not None and cut and best.cycles <= _least_cut(program, smaller):
            break
        usage = _usage(program, smaller)
        if usage is None:
            break
        needed = usage.nbytes if usage.sram == sram else usage.sram
        if needed <= budget.sram and (best is None or usage.cycles < best.cycles):
            best = usage
        if usage.sram > sram:
            break
    return None if best is None else _with_bound_in(_planned(program, replace(budget, sram=best.sram)), budget)


def _least_cut(program: Program, budget: Budget) -> int:
    """Return a lower bound in cycles of all cuts within a budget or a smaller one."""
    cascades = _cascades(program, budget.processor.without_flash(), Effort.EXACT)
    computing = cascades.min_cycles(budget.sram) if cascades.is_exhaustive else 0
    return MAX_CYCLES if computing is None else min_cycles(program, budget, computing=computing)


@dataclass(frozen=True, slots=True)
class _Usage:
    """Cycles and SRAM bytes of the plan for a budget of `sram` bytes; `is_whole` if no chain is cut."""

    sram: int
    cycles: int
    nbytes: int
    is_whole: bool


@lru_cache(maxsize=256)
def _usage(program: Program, budget: Budget) -> _Usage | None:
    """Return the usage of the plan for a budget, or for the smallest budget that fits; None if that fails, too."""
    try:
        pieces, planned = _planned(program, budget)
    except CapacityError as error:
        budget = replace(budget, sram=error.needed - budget.other_bytes)
        least = _or_none(program, budget)
        if least is None:
            return None
        pieces, planned = least
    weights = planned.prefetch_bytes if planned.transfers else planned.constant_bytes
    is_whole = not any(call.stripe for call in pieces.calls)
    return _Usage(budget.sram, cycles(pieces, planned, budget), planned.scratch_bytes + weights, is_whole)


def _with_bound_in(planned: Planned, budget: Budget) -> Planned:
    """Return a plan for a smaller budget with the prefetch bound of this budget."""
    pieces, own = planned
    if own.prefetch is None:
        return planned
    chunks, scratch = own.prefetch.chunks, scratch_of(own.packing.offsets)
    area = max(own.prefetch.area, budget.sram - own.scratch_bytes)
    costs = costs_of(pieces, chunks, budget.processor)
    bound = lower_bound(chunks, costs, budget.engine, area, scratch, keep_resident=budget.keep_resident)
    proven = own.prefetch.schedule.cycles <= bound
    return pieces, replace(own, prefetch=replace(own.prefetch, bound=bound, proven=proven))


def _planned(program: Program, budget: Budget) -> Planned:
    """Return the plan for a budget.

    Raises:
        CapacityError: none fits.
    """
    if budget.depth_first is DepthFirst.NEVER:
        return plan_calls(program, budget)
    best = calls_within(program, budget)
    if best is not None and cycles(*best, budget) <= min_cycles(program, budget):
        return best  # no call waits for a fetch; chains could only save rows that no call reads
    chosen, quick = None, replace(budget, effort=Effort.FAST)
    tried: set[object] = set()
    for candidates in _candidates(program, budget, None if best is None else cycles(*best, budget)):
        fitting = 0
        for candidate in candidates:
            least = min_cycles(candidate.program, budget, candidate.scratch)
            if fitting == FINALISTS or (best is not None and least >= cycles(*best, budget)):
                continue
            if candidate.cascades in tried:
                continue
            tried.add(candidate.cascades)
            planned = calls_within(candidate.program, quick)
            fitting += planned is not None
            if planned is not None and (best is None or cycles(*planned, budget) < cycles(*best, budget)):
                best, chosen = planned, candidate
    if best is None:
        cut = _fastest_with_least_weights(program, budget)
        return (None if cut is None else calls_within(cut.program, budget)) or _smallest_plan(program, budget)
    again = None if chosen is None or budget == quick else calls_within(chosen.program, budget)
    return again if again is not None and cycles(*again, budget) < cycles(*best, budget) else best


@lru_cache(maxsize=4)
def _cascades(program: Program, processor: FetchingProcessor, effort: Effort) -> CascadeSearch:
    """Return the cascade search of a program, cached for other budgets and flashes."""
    return CascadeSearch(program, processor, effort=effort, least=min_call_cycles(program, processor))


def _fastest_with_least_weights(program: Program, budget: Budget) -> Cut | None:
    """Return the fastest cut that leaves weights only their smallest area, or None."""
    if budget.policy is FetchPolicy.NEVER or not _weights(program):
        return None
    area = least_weight_bytes(program)
    cascades = _cascades(program, budget.processor.without_flash(), budget.effort)
    return cascades.fastest(budget.sram - area, area, flash=budget.processor) if budget.sram > area else None


def _smallest_plan(program: Program, budget: Budget) -> Planned:
    """Return the plan of the cut with the least scratch; otherwise raise the error that needs less memory."""
    processor = budget.processor.without_flash()
    cuts = (_cascades(program, processor, e).least(flash=budget.processor) for e in _efforts(program, budget))
    least = min((cut for cut in cuts if cut is not None), key=lambda cut: cut.scratch, default=None)
    try:
        return plan_calls(program if least is None else least.program, budget)
    except CapacityError as cut:
        try:
            return plan_calls(program, budget)
        except CapacityError as whole:
            raise min((whole, cut), key=lambda error: error.needed) from None


def _or_none(program: Program, budget: Budget) -> Planned | None:
    """`_planned` that returns None if nothing fits."""
    try:
        return _planned(program, budget)
    except CapacityError:
        return None


def cycles(program: Program, planned: Plan, budget: Budget) -> int:
    """Return the planned cycles of a run."""
    if planned.prefetch is not None:
        return planned.prefetch.schedule.cycles
    return sum(costs_of(program, (), budget.processor).calls)


def min_cycles(program: Program, budget: Budget, scratch: int = 0, computing: int | None = None) -> int:
    """Return a lower bound in cycles of a run of these calls, with `scratch` bytes that weights cannot use.

    The calls compute for at least `computing` cycles, by default the sum of their costs. Weights that cannot stay
    resident are fetched in each run, in pieces that fit into the whole memory.
    """
    weights = _weights(program)
    if computing is None:
        computing = sum(costs_of(program, (), budget.processor).calls)
    area = max(budget.sram - scratch, 1)
    if budget.weights is not None:
        area = max(min(area, budget.weights), 1)
    fetched = max(weights - area, 0) if budget.keep_resident else weights
    if budget.policy is FetchPolicy.NEVER or (budget.policy is FetchPolicy.AUTO and weights <= area):
        return computing
    computing += -(-fetched // max(budget.sram, 1)) * budget.engine.fetch_setup
    return max(computing, budget.engine.transfer(fetched))


def _bound(program: Program, budget: Budget) -> int:
    """Return a lower bound in cycles of all plans within the budget; tight for few calls, or with `EXACT` effort."""
    if Effort.EXACT in _efforts(program, budget):
        cascades = _cascades(program, budget.processor.without_flash(), Effort.EXACT)
        if cascades.is_exhaustive:
            return _least_in_stripes(program, budget, cascades)
    return min_cycles(program, budget, computing=sum(min_call_cycles(program, budget.processor)))


def _efforts(program: Program, budget: Budget) -> tuple[Effort, ...]:
    """Return the efforts of the cascade search: `FAST`, then `EXACT` if requested or cheap."""
    if budget.effort is Effort.EXACT or _is_small(program, budget.processor, EXHAUSTIVE_STEPS):
        return Effort.FAST, Effort.EXACT
    return (Effort.FAST,)


@lru_cache(maxsize=4)
def _is_small(program: Program, processor: FetchingProcessor, steps: int) -> bool:
    """Return True if an exhaustive search takes at most so many steps."""
    return longest_exhaustive_chain(program, steps, processor) == len(program.calls)


def _least_in_stripes(program: Program, budget: Budget, cascades: CascadeSearch) -> int:
    """`_bound` by exhaustive search.

    More scratch makes calls faster and leaves less memory for weights. So between two sizes of scratch, calls are no
    faster than with the larger size, and fetches no faster than with the smaller one.
    """
    bounds: list[int] = []
    weights = _weights(program)
    linked = cascades.min_cycles(budget.sram - weights)
    if linked is not None and (budget.policy is not FetchPolicy.ALWAYS or not weights):
        bounds.append(linked)
    if weights and budget.policy is not FetchPolicy.NEVER:
        most = budget.sram
        first = max(most - weights, 0) if budget.policy is FetchPolicy.AUTO else 0
        sizes = [first + (most - first) * share // BOUNDS for share in range(BOUNDS + 1)]
        for smaller, larger in pairwise(sizes):
            computing = cascades.min_cycles(larger)
            if computing is not None:
                bounds.append(min_cycles(program, budget, smaller + 1, computing))
    return min(bounds, default=0)


def _weights(program: Program) -> int:
    """Return the bytes of all weights."""
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    return sum(round_up(sizes[name]) for group in groups(program) for name in group.names)


def _candidates(program: Program, budget: Budget, below: int | None) -> Iterator[list[Cut]]:
    """Generate for each effort the cuts that may fit and be faster than `below` cycles, fastest first."""
    flash = budget.processor
    for effort in _efforts(program, budget):
        cascades = _cascades(program, budget.processor.without_flash(), effort)
        cuts: dict[object, Cut] = {}
        placed = 0
        for scratch, area in _memory_splits(program, budget):
            cut = cascades.fastest(scratch, area, below, flash) if scratch > 0 else None
            if cut is not None and cut.cascades:
                cuts.setdefault(cut.cascades, cut)
                placed += len(cut.program.calls) ** 2
            if effort is Effort.EXACT and placed > EXACT_PACKING_WORK:
                break
        yield sorted(cuts.values(), key=lambda cut: cut.cycles)


def _memory_splits(program: Program, budget: Budget) -> Iterator[tuple[int, int | None]]:
    """Generate splits of the memory: bytes for intermediate results, and for weights if they are fetched."""
    weights = _weights(program)
    is_linked = budget.policy is not FetchPolicy.ALWAYS or not weights
    if is_linked and (budget.weights is None or weights <= budget.weights):
        yield budget.sram - weights, None
    if weights and budget.policy is not FetchPolicy.NEVER:
        for area in (budget.sram * share // 32 for share in SHARES):
            if budget.weights is None or area <= budget.weights:
                yield budget.sram - area, area
