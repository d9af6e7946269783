"""The plan of a program within a budget: call by call, or depth first where that fits and nothing else does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from deuteron.arch.engine import Engine
from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy
from deuteron.errors import CapacityError, InternalError
from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.npu.neutron.kernels.program import Program
from deuteron.planner.budget import Budget
from deuteron.planner.budget_ladder import rungs
from deuteron.planner.call_lower_bounds import least_of_calls
from deuteron.planner.cascades import Cascades, Cut, longest_exhausted
from deuteron.planner.fit_report import least_room
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import place
from deuteron.planner.plan import Plan, calls_within, plan, plan_calls
from deuteron.planner.prefetch_bound import lower_bound
from deuteron.planner.prefetch_schedule import MOST_CYCLES
from deuteron.planner.processor_model import Simulated
from deuteron.planner.reserved_intervals import scratch_of
from deuteron.planner.weight_chunks import groups
from deuteron.planner.weight_residency import costs_of

SHARES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24)
"""Parts in 32 of the memory that are tried for weights; the least that do are, where none of these fits."""

FINALISTS = 4
"""Cuts whose fetches are planned, of those that fit."""

SMALL = 100_000
"""Steps (`cascades.STEPS`) in which every cut of a program is looked at, for the plan and for a bound, whatever the
effort."""

STEADY = 20_000
"""Steps in which every cut of a program is looked at that has a plan no slower than any for less memory."""

PLACED = 100_000_000
"""Calls of cut programs, squared, that are packed with `EXACT` effort before no other room for weights is tried."""

BOUNDS = 16
"""Parts of the memory between whose ends a bound is taken."""

STRICT = False
"""Whether a bound above a plan is an error, as it is in tests and benches; the plan is sound, and users get none."""

Planned = tuple[Program, Plan]


def plan_within(program: Program, budget: Budget) -> Planned:
    """A plan within a budget, and the program that it is for, whose calls may have been cut; `check` holds for both.

    Raises:
        CapacityError: when the program does not fit.
    """
    pieces, planned = _fastest(program, budget)
    if budget.depth_first is not DepthFirst.NEVER and any(call.stripe for call in pieces.calls):
        taken = cycles(pieces, planned, budget)
        bound = 0 if budget.depth_first is DepthFirst.ALWAYS else _bound(program, budget)
        if bound > taken:
            if STRICT:
                raise InternalError(f"a plan takes {taken:,} cycles, fewer than the {bound:,} that any takes")
            bound = 0
        whole = place(lifetimes(program)).nbytes
        planned = replace(planned, whole_scratch_bytes=whole, planned_cycles=taken, cycles_bound=bound)
    return pieces, planned


def _fastest(program: Program, budget: Budget) -> Planned:
    """The plan with the fewest cycles, of those that are looked for in this budget and, for small programs, in less."""
    if budget.depth_first is DepthFirst.ALWAYS:
        least = _cascades(program, budget.engine.without_flash(), budget.effort).least(flash=Simulated(budget.engine))
        program, budget = least.program if least else program, replace(budget, depth_first=DepthFirst.NEVER)
    best = _of_rungs(program, replace(budget, effort=Effort.FAST)) if _is_small(program, STEADY) else None
    if best is None or budget.effort is Effort.FAST:
        return best or _planned(program, budget)
    own = _or_none(program, budget)
    return own if own is not None and cycles(*own, budget) <= cycles(*best, budget) else best


def _of_rungs(program: Program, budget: Budget) -> Planned | None:
    """The fastest plan that fits of those for budgets that depend on the program alone; None where none fits."""
    whole = plan(program)
    cut = budget.depth_first is not DepthFirst.NEVER
    sure = sum(least_of_calls(program, budget.engine) if cut else costs_of(program, (), budget.engine).calls)
    best: _Taken | None = None
    for sram in rungs(whole.scratch_bytes + whole.constant_bytes, budget.sram):
        rung = replace(budget, sram=sram)
        if best is not None and best.is_whole and best.cycles <= least_cycles(program, rung):
            break  # as in `_planned`
        if best is not None and best.cycles <= least_cycles(program, rung, computing=sure):
            break
        if best is not None and cut and best.cycles <= _least_cut(program, rung):
            break
        taken = _taken(program, rung)
        if taken is None:
            break
        needed = taken.nbytes if taken.sram == sram else taken.sram
        if needed <= budget.sram and (best is None or taken.cycles < best.cycles):
            best = taken
        if taken.sram > sram:
            break
    return None if best is None else _in_more(_planned(program, replace(budget, sram=best.sram)), budget)


def _least_cut(program: Program, budget: Budget) -> int:
    """Cycles that no cut within a budget takes less than, or within a smaller one."""
    cascades = _cascades(program, budget.engine.without_flash(), Effort.EXACT)
    computing = cascades.least_cycles(budget.sram) if cascades.leaves_out_none else 0
    return MOST_CYCLES if computing is None else least_cycles(program, budget, computing=computing)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a plan takes: cycles and bytes of SRAM; `sram` is the budget that it was looked for in.

    `is_whole` says that no chain is cut.
    """

    sram: int
    cycles: int
    nbytes: int
    is_whole: bool


@lru_cache(maxsize=256)
def _taken(program: Program, budget: Budget) -> _Taken | None:
    """What the plan for a budget takes, or that for the least that errors ask for; None where that is too little."""
    try:
        pieces, planned = _planned(program, budget)
    except CapacityError as error:
        budget = replace(budget, sram=error.needed - budget.taken)
        least = _or_none(program, budget)
        if least is None:
            return None
        pieces, planned = least
    weights = planned.prefetch_bytes if planned.transfers else planned.constant_bytes
    is_whole = not any(call.stripe for call in pieces.calls)
    return _Taken(budget.sram, cycles(pieces, planned, budget), planned.scratch_bytes + weights, is_whole)


def _in_more(planned: Planned, budget: Budget) -> Planned:
    """A plan that was looked for in less, with the bound of its fetches in a budget."""
    pieces, own = planned
    if own.prefetch is None:
        return planned
    chunks, scratch = own.prefetch.chunks, scratch_of(own.packing.offsets)
    area = max(own.prefetch.area, budget.sram - own.scratch_bytes)
    costs = costs_of(pieces, chunks, budget.engine)
    bound = lower_bound(chunks, costs, budget.engine, area, scratch, keeps=budget.keeps)
    proven = own.prefetch.schedule.cycles <= bound
    return pieces, replace(own, prefetch=replace(own.prefetch, bound=bound, proven=proven))


def _planned(program: Program, budget: Budget) -> Planned:
    """The plan that is looked for in a budget.

    Raises:
        CapacityError: when none fits.
    """
    if budget.depth_first is DepthFirst.NEVER:
        return plan_calls(program, budget)
    best = calls_within(program, budget)
    if best is not None and cycles(*best, budget) <= least_cycles(program, budget):
        return best  # calls wait for nothing; chains would save only rows that nobody reads
    chosen, quick = None, replace(budget, effort=Effort.FAST)
    tried: set[object] = set()
    for candidates in _candidates(program, budget, None if best is None else cycles(*best, budget)):
        fitting = 0
        for candidate in candidates:
            least = least_cycles(candidate.program, budget, candidate.scratch)
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
        cut = _beside_least_room(program, budget)
        return (None if cut is None else calls_within(cut.program, budget)) or _in_least(program, budget)
    again = None if chosen is None or budget == quick else calls_within(chosen.program, budget)
    return again if again is not None and cycles(*again, budget) < cycles(*best, budget) else best


@lru_cache(maxsize=4)
def _cascades(program: Program, engine: Engine, effort: Effort) -> Cascades:
    """The chains of a program, with what is known of them from plans for other budgets and flashes."""
    return Cascades(program, Simulated(engine), effort=effort, least=least_of_calls(program, engine))


def _beside_least_room(program: Program, budget: Budget) -> Cut | None:
    """The fastest cut that leaves weights only the room that they need at least; None where there is none."""
    if budget.policy is FetchPolicy.NEVER or not _weights(program):
        return None
    area = least_room(program)
    cascades = _cascades(program, budget.engine.without_flash(), budget.effort)
    return cascades.fastest(budget.sram - area, area, flash=Simulated(budget.engine)) if budget.sram > area else None


def _in_least(program: Program, budget: Budget) -> Planned:
    """The plan of the cut with the least scratch, of all that is left to try; the error of what needs less, or it."""
    engine = budget.engine.without_flash()
    cuts = (_cascades(program, engine, e).least(flash=Simulated(budget.engine)) for e in _efforts(program, budget))
    least = min((cut for cut in cuts if cut is not None), key=lambda cut: cut.scratch, default=None)
    try:
        return plan_calls(program if least is None else least.program, budget)
    except CapacityError as cut:
        try:
            return plan_calls(program, budget)
        except CapacityError as whole:
            raise min((whole, cut), key=lambda error: error.needed) from None


def _or_none(program: Program, budget: Budget) -> Planned | None:
    """As `_planned`, and None where nothing fits."""
    try:
        return _planned(program, budget)
    except CapacityError:
        return None


def cycles(program: Program, planned: Plan, budget: Budget) -> int:
    """Of a run, as it is planned."""
    if planned.prefetch is not None:
        return planned.prefetch.schedule.cycles
    return sum(costs_of(program, (), budget.engine).calls)


def least_cycles(program: Program, budget: Budget, scratch: int = 0, computing: int | None = None) -> int:
    """Cycles that no run of these calls is faster than as they are, given bytes that weights cannot have.

    All calls compute, for `computing` cycles at least (those of the calls, unless it is said), and what has no room to
    stay is fetched in each run, in pieces that do have room, if only where intermediate results lie at other times.
    """
    weights = _weights(program)
    if computing is None:
        computing = sum(costs_of(program, (), budget.engine).calls)
    area = max(budget.sram - scratch, 1)
    if budget.weights is not None:
        area = max(min(area, budget.weights), 1)
    fetched = max(weights - area, 0) if budget.keeps else weights
    if budget.policy is FetchPolicy.NEVER or (budget.policy is FetchPolicy.AUTO and weights <= area):
        return computing
    computing += -(-fetched // max(budget.sram, 1)) * budget.engine.fetch_setup
    return max(computing, budget.engine.transfer(fetched))


def _bound(program: Program, budget: Budget) -> int:
    """Cycles that no plan within the budget is faster than, whatever it cuts; tight with few calls, or more effort."""
    if Effort.EXACT in _efforts(program, budget):
        cascades = _cascades(program, budget.engine.without_flash(), Effort.EXACT)
        if cascades.leaves_out_none:
            return _least_in_stripes(program, budget, cascades)
    return least_cycles(program, budget, computing=sum(least_of_calls(program, budget.engine)))


def _efforts(program: Program, budget: Budget) -> tuple[Effort, ...]:
    """How hard cuts are looked for: with little effort, and with more if that is asked for or takes little time."""
    if budget.effort is Effort.EXACT or _is_small(program, SMALL):
        return Effort.FAST, Effort.EXACT
    return (Effort.FAST,)


@lru_cache(maxsize=4)
def _is_small(program: Program, steps: int) -> bool:
    """Whether every cut is looked at in so many steps."""
    return longest_exhausted(program, steps) == len(program.calls)


def _least_in_stripes(program: Program, budget: Budget, cascades: Cascades) -> int:
    """`_bound` by every cut, where no chain and no height is left out.

    The more scratch a cut may have, the faster are its calls, and the less room is left for weights. So between two
    sizes of scratch, calls are no faster than with the larger, and fetches no faster than with the smaller.
    """
    bounds: list[int] = []
    weights = _weights(program)
    linked = cascades.least_cycles(budget.sram - weights)
    if linked is not None and (budget.policy is not FetchPolicy.ALWAYS or not weights):
        bounds.append(linked)
    if weights and budget.policy is not FetchPolicy.NEVER:
        most = budget.sram
        first = max(most - weights, 0) if budget.policy is FetchPolicy.AUTO else 0
        sizes = [first + (most - first) * share // BOUNDS for share in range(BOUNDS + 1)]
        for smaller, larger in pairwise(sizes):
            computing = cascades.least_cycles(larger)
            if computing is not None:
                bounds.append(least_cycles(program, budget, smaller + 1, computing))
    return min(bounds, default=0)


def _weights(program: Program) -> int:
    """Bytes of all weights."""
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    return sum(round_up(sizes[name]) for group in groups(program) for name in group.names)


def _candidates(program: Program, budget: Budget, below: int | None) -> Iterator[list[Cut]]:
    """The cuts that may fit, and be faster than `below` cycles, as it seems, fastest first; with each effort."""
    flash = Simulated(budget.engine)
    for effort in _efforts(program, budget):
        cascades = _cascades(program, budget.engine.without_flash(), effort)
        cuts: dict[object, Cut] = {}
        placed = 0
        for scratch, area in _rooms(program, budget):
            cut = cascades.fastest(scratch, area, below, flash) if scratch > 0 else None
            if cut is not None and cut.cascades:
                cuts.setdefault(cut.cascades, cut)
                placed += len(cut.program.calls) ** 2
            if effort is Effort.EXACT and placed > PLACED:
                break
        yield sorted(cuts.values(), key=lambda cut: cut.cycles)


def _rooms(program: Program, budget: Budget) -> Iterator[tuple[int, int | None]]:
    """Ways to part the memory: bytes for intermediate results, and for weights where they are fetched."""
    weights = _weights(program)
    is_linked = budget.policy is not FetchPolicy.ALWAYS or not weights
    if is_linked and (budget.weights is None or weights <= budget.weights):
        yield budget.sram - weights, None
    if weights and budget.policy is not FetchPolicy.NEVER:
        for area in (budget.sram * share // 32 for share in SHARES):
            if budget.weights is None or area <= budget.weights:
                yield budget.sram - area, area
