"""Chooses the chunks that stay resident in SRAM between inferences; the others are streamed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from deuteron.extras import require
from deuteron.operators.program import Program
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing import ORDERS, Packing, max_live, pack
from deuteron.planner.prefetch_bound import lower_bound
from deuteron.planner.prefetch_schedule import FetchCosts, FetchSlot, Schedule, ScheduleSearch
from deuteron.planner.processor_model import FetchingProcessor
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch, place_between
from deuteron.planner.weight_chunks import Chunk, bytes_needed, chunks

if TYPE_CHECKING:
    from deuteron.planner.prefetch_cpsat import Solution

LEAST_FETCH_CYCLES = 4
"""Chunks are merged while their transfer takes less than so many times its fixed cost."""

MAX_CHOICES = 5_000
"""Calls times chunks up to which the solver is used. Above, it takes minutes and gains little."""

FIRST_WORK = 8_000
WORK = 40_000
"""Limits of the heuristic in calls of all its schedules: to find a plan, and to improve it."""

FEW = 150
"""Number of calls up to which programs are planned both with merged chunks and with those of each call. Larger programs
use merged chunks if these fit."""

MAX_TRIALS = 500
"""Limit of the schedules that improve a plan."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A prefetch plan.

    Attributes:
        chunks: the fetched chunks.
        resident: indices of the chunks that stay in SRAM.
        schedule: fetches and waits.
        bound: lower bound in cycles of all schedules of these chunks in this memory.
        proven: whether the schedule is optimal.
        area: bytes of the prefetch area; higher addresses are in scratch.
    """

    chunks: tuple[Chunk, ...]
    resident: frozenset[int]
    schedule: Schedule
    bound: int
    proven: bool
    area: int


def costs_of(program: Program, parts: Sequence[Chunk], processor: FetchingProcessor) -> FetchCosts:
    """Return the cycles of the calls and fetches of a program."""
    engine = processor.engine
    return FetchCosts(
        tuple(processor.dispatch + processor.work(call.params) for call in program.calls),
        tuple(engine.fetch_latency + engine.transfer(chunk.nbytes) for chunk in parts),
        engine.fetch_setup,
    )


def min_area(parts: Sequence[Chunk], scratch: Scratch = NO_SCRATCH) -> int:
    """Return the bytes of the smallest area that is found, with each chunk fetched right before its first use."""
    return _packing(parts, {j: chunk.first for j, chunk in enumerate(parts)}, scratch=scratch)[0]


def max_needed_bytes(parts: Sequence[Chunk], scratch: Scratch = NO_SCRATCH) -> int:
    """Return the largest number of bytes of chunks that one call needs, minus the free bytes of scratch."""
    needs = bytes_needed(parts, 1 + max((chunk.last for chunk in parts), default=0))
    pairs = zip(needs, scratch.free(len(needs)), strict=True)
    return max((nbytes - free for nbytes, free in pairs if nbytes), default=0)


def prefetch(
    program: Program,
    processor: FetchingProcessor,
    area: int,
    kept: Collection[str] = (),
    scratch: Scratch = NO_SCRATCH,
    *,
    keep_resident: bool = True,
    improve: bool = True,
) -> Prefetch | None:
    """Return a plan for an area of `area` bytes, or None if the area is too small.

    Args:
        program: the calls.
        processor: costs of calls and fetches.
        area: bytes of the prefetch area.
        kept: resident constants of a plan for a similar program.
        scratch: free intervals for constants that are not resident.
        keep_resident: whether the area keeps its content from run to run.
        improve: try more schedules to improve the best of the first ones.
    """
    engine = processor.engine
    least = engine.flash_bandwidth * (engine.fetch_setup + engine.fetch_latency) * LEAST_FETCH_CYCLES // engine.clock
    fastest: Prefetch | None = None
    seen: list[tuple[Chunk, ...]] = []
    for size in (min(least, area // 8), 0):
        parts = chunks(program, size)
        if parts in seen or max_needed_bytes(parts, scratch) > area:
            continue
        seen.append(parts)
        costs = costs_of(program, parts, processor)
        bound = lower_bound(parts, costs, engine, area, scratch, keep_resident=keep_resident)
        best = _search(
            parts, costs, area, bound, frozenset(kept), scratch, keep_resident=keep_resident, improve=improve
        )
        if best is not None and (fastest is None or best[1].cycles < fastest.schedule.cycles):
            resident, schedule = best
            fastest = Prefetch(parts, resident, schedule, bound, schedule.cycles <= bound, area)
        if fastest is not None and len(program.calls) > FEW:
            break
    return fastest


def prove(
    program: Program,
    heuristic: Prefetch,
    processor: FetchingProcessor,
    effort: float,
    scratch: Scratch = NO_SCRATCH,
    *,
    keep_resident: bool = True,
) -> Prefetch:
    """Return the plan with the lower bound of the solver, and with its choices if they are faster.

    Raises:
        MissingToolError: the solver is needed and not installed.
    """
    if heuristic.proven or len(program.calls) * len(heuristic.chunks) > MAX_CHOICES:
        return heuristic
    require("solver", "ortools", "`--effort exact` with fetches of weights")
    from deuteron.planner.prefetch_cpsat import solve  # slow to import

    costs = costs_of(program, heuristic.chunks, processor)
    for addresses in (False,) if scratch.nbytes else (False, True):  # most choices fit without
        start = heuristic.resident, heuristic.schedule
        best = solve(
            heuristic.chunks,
            costs,
            heuristic.area,
            start,
            effort,
            scratch,
            keep_resident=keep_resident,
            addresses=addresses,
        )
        if best is not None:
            heuristic = _apply_solution(heuristic, best, costs, scratch)
        if best is None or heuristic.proven:
            break
    return heuristic


def _apply_solution(heuristic: Prefetch, best: "Solution", costs: FetchCosts, scratch: Scratch) -> Prefetch:
    """Return the plan with the solver's bound, and with its choices if they are faster."""
    parts, bound, area = heuristic.chunks, max(heuristic.bound, best.bound), heuristic.area
    first_fit = {j: FetchSlot(call, None) for j, call in best.issues.items()}
    placed = {j: FetchSlot(call, best.offsets[j]) for j, call in best.issues.items()} if best.offsets else None
    placed = placed or _packed(parts, area, best, scratch)
    streams = ScheduleSearch(parts, costs, area, scratch=scratch)
    candidates = [streams.schedule(best.resident, slots) for slots in (first_fit, None)]
    if placed is not None:
        candidates += [_delayed(streams, parts, best.resident, slots) for slots in (placed, _in_order(placed))]
    resident, fastest = heuristic.resident, heuristic.schedule
    for candidate in candidates:
        if candidate is not None and candidate.cycles < fastest.cycles:
            resident, fastest = best.resident, candidate
    return Prefetch(parts, resident, fastest, bound, fastest.cycles <= bound, area)


def _in_order(slots: Mapping[int, FetchSlot]) -> dict[int, FetchSlot]:
    """Return the slots with fetches in order of first use."""
    latest = accumulate((slots[j].call for j in sorted(slots)), max)
    return {j: replace(slots[j], call=call) for j, call in zip(sorted(slots), latest, strict=True)}


def _delayed(
    streams: ScheduleSearch, parts: Sequence[Chunk], resident: frozenset[int], slots: Mapping[int, FetchSlot]
) -> Schedule | None:
    """Return the schedule with these slots, with fetches delayed if that is faster: hill climbing.

    A later fetch overlaps no more chunks than before, so that the offsets stay valid.
    """
    best = streams.schedule(resident, slots)
    improved = True
    while improved and best is not None:
        improved = False
        for j in slots:
            for call in range(slots[j].call + 1, parts[j].first + 1):
                moved = {**slots, j: replace(slots[j], call=call)}
                moved = dict(sorted(moved.items(), key=lambda item: (item[1].call, item[0])))
                delayed = streams.schedule(resident, moved)
                if delayed is not None and delayed.cycles < best.cycles:
                    slots, best, improved = moved, delayed, True
    return best


def _packed(parts: Sequence[Chunk], area: int, optimum: "Solution", scratch: Scratch) -> dict[int, FetchSlot] | None:
    """Return slots for the solver's issues, or None if they cannot be packed."""
    start = sum(parts[chunk].nbytes for chunk in optimum.resident)
    nbytes, slots = _packing(parts, optimum.issues, start, area, scratch)
    return slots if start + nbytes <= area else None


def _packing(
    parts: Sequence[Chunk], issues: Mapping[int, int], start: int = 0, area: int = 0, scratch: Scratch = NO_SCRATCH
) -> tuple[int, dict[int, FetchSlot]]:
    """Pack chunks that are issued before these calls; return the smallest area that is found, and the slots.

    Offsets in the area start at `start`, those in scratch at `area`.
    """
    blocks = {j: Lifetime((str(j),), parts[j].nbytes, call, parts[j].last) for j, call in issues.items()}
    met = scratch.conflicts(blocks.values())
    best: tuple[Packing, dict[Lifetime, int]] | None = None
    for order in ORDERS.values():
        there = place_between(met, scratch, order)
        left = tuple(block for block in blocks.values() if block not in there)
        if best is None or max_live(left) < best[0].nbytes:
            packing = pack(left)
            best = (packing, there) if best is None or packing.nbytes < best[0].nbytes else best
        if not scratch.nbytes or start + best[0].nbytes <= area or best[0].nbytes == 0:
            break
    packing, there = best or (pack(()), {})
    offsets = {block: start + at for block, at in packing.offsets.items()}
    offsets |= {block: area + at for block, at in there.items()}
    return packing.nbytes, {j: FetchSlot(block.first, offsets[block]) for j, block in blocks.items()}


def _search(
    parts: Sequence[Chunk],
    costs: FetchCosts,
    area: int,
    bound: int,
    kept: frozenset[str],
    scratch: Scratch = NO_SCRATCH,
    *,
    keep_resident: bool,
    improve: bool,
) -> tuple[frozenset[int], Schedule] | None:
    """Return the resident chunks of the fastest run that is found, and its schedule, or None.

    The search tries the resident constants `kept` of a similar program, no resident chunks, and greedy sets in several
    orders for several shares of the area. If first fit fails for all of them, chunks are packed in advance and fetched
    when needed. Random changes then improve the best.
    """
    rounds = min(MAX_TRIALS, WORK // len(costs.calls)) if improve and keep_resident else 0
    streams = ScheduleSearch(parts, costs, area, rounds, scratch)
    if keep_resident:
        streams.attempt([i for i, chunk in enumerate(parts) if kept and kept.issuperset(chunk.buffers)], bound)
    streams.attempt((), bound)
    sizes = [chunk.nbytes for chunk in parts]
    keys: tuple[Callable[[int], tuple[int, int]], ...] = (
        lambda i: (i, 0),
        lambda i: (-i, 0),
        lambda i: (-sizes[i], i),
        lambda i: (-sizes[i], -i),
    )
    shares = min(16, max(2, FIRST_WORK // len(costs.calls) // len(keys)))
    for key in keys if keep_resident else ():
        streams.fill(sorted(range(len(parts)), key=key), shares, bound)
    packed = None
    if streams.best() is None:
        needed, slots = _packing(parts, {j: chunk.first for j, chunk in enumerate(parts)}, 0, area, scratch)
        packed = streams.schedule(frozenset(), slots) if needed <= area else None
        if packed is not None:
            streams.offer(packed.cycles)
    streams.improve(bound)
    best = streams.best()
    if best is None:
        return None
    first_fit = None if packed is not None and not best[0] else streams.schedule(best[0])
    chosen = first_fit or packed
    return None if chosen is None else (best[0], chosen)
