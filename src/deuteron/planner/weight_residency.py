"""Which chunks stay in SRAM between inferences and which are streamed through it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from deuteron.arch.engine import Engine
from deuteron.extras import require
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.kernels.program import Program
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing import ORDERS, Packing, max_live, place
from deuteron.planner.prefetch_bound import lower_bound
from deuteron.planner.prefetch_schedule import Costs, Schedule, Spot, Streams
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch, between
from deuteron.planner.weight_chunks import Chunk, alive, chunks

if TYPE_CHECKING:
    from deuteron.planner.prefetch_cpsat import Optimum

LEAST_FETCH_CYCLES = 4
"""Chunks are joined while their transfer takes less than so many times the cost of starting it."""

MOST_CHOICES = 5_000
"""Calls times chunks of programs that the solver is asked about: above, it takes minutes and gains little."""

FIRST_WORK = 8_000
WORK = 40_000
"""Calls in all schedules together that the heuristic looks at to find a plan, and to improve one."""

FEW = 150
"""Calls of programs that are planned with joined chunks and with those of each call; others with joined ones if these
have room."""

MOST_TRIALS = 500
"""Schedules that it looks at to improve one."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A prefetch plan.

    Attributes:
        chunks: what is fetched.
        resident: indices of the chunks that stay in SRAM.
        schedule: fetches and waits.
        bound: cycles that no schedule of these chunks in this memory is faster than.
        proven: whether no schedule of these chunks is faster.
        area: bytes of the prefetch area; what is fetched to addresses from there on lies in scratch.
    """

    chunks: tuple[Chunk, ...]
    resident: frozenset[int]
    schedule: Schedule
    bound: int
    proven: bool
    area: int


def costs_of(program: Program, parts: Sequence[Chunk], engine: Engine) -> Costs:
    """What the calls and chunks of a program cost."""
    return Costs(
        tuple(engine.call_dispatch + cost(call.params, engine).cycles for call in program.calls),
        tuple(engine.fetch_latency + engine.transfer(chunk.nbytes) for chunk in parts),
        engine.fetch_setup,
    )


def least_area(parts: Sequence[Chunk], scratch: Scratch = NO_SCRATCH) -> int:
    """Bytes of the smallest area that is found: each chunk has its place from the first call that reads it on."""
    return _packing(parts, {j: chunk.first for j, chunk in enumerate(parts)}, scratch=scratch)[0]


def most_alive(parts: Sequence[Chunk], scratch: Scratch = NO_SCRATCH) -> int:
    """The most bytes of chunks that one call needs at once, beside what is free in scratch."""
    needs = alive(parts, 1 + max((chunk.last for chunk in parts), default=0))
    beside = zip(needs, scratch.free(len(needs)), strict=True)
    return max((nbytes - free for nbytes, free in beside if nbytes), default=0)


def prefetch(
    program: Program,
    engine: Engine,
    area: int,
    kept: Collection[str] = (),
    scratch: Scratch = NO_SCRATCH,
    *,
    keeps: bool = True,
    improve: bool = True,
) -> Prefetch | None:
    """A plan for an area of `area` bytes, or None when it is too small for any.

    Args:
        program: the calls.
        engine: what they and transfers take.
        area: bytes for constants alone.
        kept: constants that were resident in a plan for a similar program.
        scratch: where constants that do not stay may lie, too.
        keeps: the area keeps its content from run to run; nothing can be resident otherwise.
        improve: look at more schedules to improve the best of the first ones.
    """
    least = engine.flash_bandwidth * (engine.fetch_setup + engine.fetch_latency) * LEAST_FETCH_CYCLES // engine.clock
    fastest: Prefetch | None = None
    seen: list[tuple[Chunk, ...]] = []
    for size in (min(least, area // 8), 0):
        parts = chunks(program, size)
        if parts in seen or most_alive(parts, scratch) > area:
            continue
        seen.append(parts)
        costs = costs_of(program, parts, engine)
        bound = lower_bound(parts, costs, engine, area, scratch, keeps=keeps)
        best = _search(parts, costs, area, bound, frozenset(kept), scratch, keeps=keeps, improve=improve)
        if best is not None and (fastest is None or best[1].cycles < fastest.schedule.cycles):
            resident, schedule = best
            fastest = Prefetch(parts, resident, schedule, bound, schedule.cycles <= bound, area)
        if fastest is not None and len(program.calls) > FEW:
            break
    return fastest


def proven(
    program: Program,
    heuristic: Prefetch,
    engine: Engine,
    effort: float,
    scratch: Scratch = NO_SCRATCH,
    *,
    keeps: bool = True,
) -> Prefetch:
    """The plan with the bound that a solver proves with this effort, and faster where the solver's choices are.

    Raises:
        MissingToolError: without the solver, where it is needed.
    """
    if heuristic.proven or len(program.calls) * len(heuristic.chunks) > MOST_CHOICES:
        return heuristic
    require("solver", "ortools", "`--effort exact` with fetches of weights")
    from deuteron.planner.prefetch_cpsat import optimum  # its solver takes a while to load

    costs = costs_of(program, heuristic.chunks, engine)
    for addresses in (False,) if scratch.nbytes else (False, True):  # most choices have room as they are
        start = heuristic.resident, heuristic.schedule
        best = optimum(
            heuristic.chunks, costs, heuristic.area, start, effort, scratch, keeps=keeps, addresses=addresses
        )
        if best is not None:
            heuristic = _realised(heuristic, best, costs, scratch)
        if best is None or heuristic.proven:
            break
    return heuristic


def _realised(heuristic: Prefetch, best: "Optimum", costs: Costs, scratch: Scratch) -> Prefetch:
    """The plan with the solver's bound, and with its choices where these are faster."""
    parts, bound, area = heuristic.chunks, max(heuristic.bound, best.bound), heuristic.area
    first_fit = {j: Spot(call, None) for j, call in best.issues.items()}
    placed = {j: Spot(call, best.offsets[j]) for j, call in best.issues.items()} if best.offsets else None
    placed = placed or _packed(parts, area, best, scratch)
    streams = Streams(parts, costs, area, scratch=scratch)
    candidates = [streams.schedule(best.resident, spots) for spots in (first_fit, None)]
    if placed is not None:
        candidates += [_delayed(streams, parts, best.resident, spots) for spots in (placed, _in_order(placed))]
    resident, fastest = heuristic.resident, heuristic.schedule
    for candidate in candidates:
        if candidate is not None and candidate.cycles < fastest.cycles:
            resident, fastest = best.resident, candidate
    return Prefetch(parts, resident, fastest, bound, fastest.cycles <= bound, area)


def _in_order(spots: Mapping[int, Spot]) -> dict[int, Spot]:
    """The spots, but no fetch before that of a chunk that is needed sooner."""
    latest = accumulate((spots[j].call for j in sorted(spots)), max)
    return {j: replace(spots[j], call=call) for j, call in zip(sorted(spots), latest, strict=True)}


def _delayed(
    streams: Streams, parts: Sequence[Chunk], resident: frozenset[int], spots: Mapping[int, Spot]
) -> Schedule | None:
    """The schedule with these spots, with fetches issued later where that is faster: what is needed sooner goes first.

    A chunk that comes later is in nobody's way, so that the spots stay as they are.
    """
    best = streams.schedule(resident, spots)
    improved = True
    while improved and best is not None:
        improved = False
        for j in spots:
            for call in range(spots[j].call + 1, parts[j].first + 1):
                moved = {**spots, j: replace(spots[j], call=call)}
                moved = dict(sorted(moved.items(), key=lambda item: (item[1].call, item[0])))
                delayed = streams.schedule(resident, moved)
                if delayed is not None and delayed.cycles < best.cycles:
                    spots, best, improved = moved, delayed, True
    return best


def _packed(parts: Sequence[Chunk], area: int, optimum: "Optimum", scratch: Scratch) -> dict[int, Spot] | None:
    """Room for each chunk from the call on that its fetch is issued before; None when that does not pack."""
    start = sum(parts[chunk].nbytes for chunk in optimum.resident)
    nbytes, spots = _packing(parts, optimum.issues, start, area, scratch)
    return spots if start + nbytes <= area else None


def _packing(
    parts: Sequence[Chunk], issues: Mapping[int, int], start: int = 0, area: int = 0, scratch: Scratch = NO_SCRATCH
) -> tuple[int, dict[int, Spot]]:
    """Where chunks lie that are issued before these calls: bytes of an area, the fewest that are found, and the spots.

    Those in the area begin at `start`, and those in scratch at `area`.
    """
    blocks = {j: Lifetime((str(j),), parts[j].nbytes, call, parts[j].last) for j, call in issues.items()}
    met = scratch.met(blocks.values())
    best: tuple[Packing, dict[Lifetime, int]] | None = None
    for order in ORDERS.values():
        there = between(met, scratch, order)
        left = tuple(block for block in blocks.values() if block not in there)
        if best is None or max_live(left) < best[0].nbytes:
            packing = place(left)
            best = (packing, there) if best is None or packing.nbytes < best[0].nbytes else best
        if not scratch.nbytes or start + best[0].nbytes <= area or best[0].nbytes == 0:
            break
    packing, there = best or (place(()), {})
    offsets = {block: start + at for block, at in packing.offsets.items()}
    offsets |= {block: area + at for block, at in there.items()}
    return packing.nbytes, {j: Spot(block.first, offsets[block]) for j, block in blocks.items()}


def _search(
    parts: Sequence[Chunk],
    costs: Costs,
    area: int,
    bound: int,
    kept: frozenset[str],
    scratch: Scratch = NO_SCRATCH,
    *,
    keeps: bool,
    improve: bool,
) -> tuple[frozenset[int], Schedule] | None:
    """The resident chunks that give the fastest run that is found, and its schedule; None where there is none.

    What has worked before (`kept` names its constants) is tried, nothing, and several orders for several shares of the
    area; then the best is changed. Where first fit leaves no room for some chunk in any of them, all are packed ahead,
    and fetched when needed.
    """
    rounds = min(MOST_TRIALS, WORK // len(costs.calls)) if improve and keeps else 0
    streams = Streams(parts, costs, area, rounds, scratch)
    if keeps:
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
    for key in keys if keeps else ():
        streams.fill(sorted(range(len(parts)), key=key), shares, bound)
    packed = None
    if streams.best() is None:
        needed, spots = _packing(parts, {j: chunk.first for j, chunk in enumerate(parts)}, 0, area, scratch)
        packed = streams.schedule(frozenset(), spots) if needed <= area else None
        if packed is not None:
            streams.offer(packed.cycles)
    streams.improve(bound)
    best = streams.best()
    if best is None:
        return None
    first_fit = None if packed is not None and not best[0] else streams.schedule(best[0])
    chosen = first_fit or packed
    return None if chosen is None else (best[0], chosen)
