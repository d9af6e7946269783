"""Plans of programs: an address for every buffer, and the fetches of weights."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np

from deuteron.arch.memory import Effort
from deuteron.errors import InternalError
from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.operators.program import Program
from deuteron.operators.regions import Place, Region
from deuteron.operators.transfers import Fetch, Transfer, Wait
from deuteron.planner.budget import Budget
from deuteron.planner.fit_report import area_for, may_fit, too_large
from deuteron.planner.lifetimes import Lifetime, can_share, lifetimes, live_ranges
from deuteron.planner.packing import EXACT_EFFORT, FAST_EFFORT, Packing, cached_pack, transfer_offsets
from deuteron.planner.prefetch_schedule import Issue
from deuteron.planner.prefetch_verification import check_fetches, units_in_use
from deuteron.planner.weight_chunks import groups
from deuteron.planner.weight_residency import Prefetch
from deuteron.planner.weight_tiling_search import tile_weights


@dataclass(frozen=True, slots=True)
class PlanQuality:
    """Lower bounds of a plan, and what is proven optimal.

    Attributes:
        scratch_proven_optimal: whether no packing of the intermediate results is smaller in this order of calls.
        prefetch_bound: lower bound in cycles of all plans that fetch the same chunks; 0 if nothing is fetched.
        prefetch_proven_optimal: whether this plan reaches the minimum of all those.
        whole_scratch_bytes: bytes of scratch without depth-first execution; 0 if no chain runs depth first.
        planned_cycles: cycles of a run, if chains run depth first.
        cycles_bound: lower bound in cycles of all plans in the same memory, with any cut; 0 if unknown or no chain runs
            depth first.
    """

    scratch_proven_optimal: bool = False
    prefetch_bound: int = 0
    prefetch_proven_optimal: bool = False
    whole_scratch_bytes: int = 0
    planned_cycles: int = 0
    cycles_bound: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Addresses of a program's buffers.

    Attributes:
        placements: place of each buffer that calls use.
        weights: the weights image, constants in order of first use.
        scratch_bytes: size of the scratch region, a multiple of the alignment.
        constants: offset of each constant in the weights image.
        prefetch_bytes: size of the prefetch region. Either all constants are fetched, there or to scratch, or none.
        resident_bytes: bytes at the start of that region that keep their content from run to run.
        transfers: fetches and waits by the call that they precede.
        lifetimes: the blocks of scratch, in order of first use.
        packing: their offsets.
        prefetch: the prefetch plan of the transfers.
        whole_scratch_bytes: size of scratch before chains of calls were cut into stripes; 0 if none was.
        planned_cycles: cycles of a run, if chains were cut.
        cycles_bound: lower bound in cycles of all plans within the budget; 0 if unknown or no chain was cut.
        ends: offsets in scratch of inputs and outputs that are placed there.
    """

    placements: Mapping[str, Place]
    weights: bytes
    constants: Mapping[str, int]
    scratch_bytes: int
    prefetch_bytes: int
    resident_bytes: int
    transfers: Mapping[int, tuple[Transfer, ...]]
    lifetimes: tuple[Lifetime, ...]
    packing: Packing
    prefetch: Prefetch | None
    whole_scratch_bytes: int = 0
    planned_cycles: int = 0
    cycles_bound: int = 0
    ends: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def constant_bytes(self) -> int:
        """Size of the weights image, 0 without constants."""
        return len(self.weights) if self.constants else 0

    def place_of(self, name: str) -> Place:
        """Return the place of a buffer, which is in scratch for inputs and outputs that are placed there."""
        place = self.placements[name]
        return replace(place, region=Region.SCRATCH, index=0, offset=self.ends[name]) if name in self.ends else place

    @property
    def known(self) -> PlanQuality:
        """Bounds of the plan, as the converted file stores them."""
        prefetch = self.prefetch
        bound, proven = (prefetch.bound, prefetch.proven) if prefetch else (0, False)
        depth_first = (self.whole_scratch_bytes, self.planned_cycles, self.cycles_bound)
        return PlanQuality(self.packing.proven, bound, proven, *depth_first)


def plan(program: Program, effort: float = FAST_EFFORT, packed: Packing | None = None) -> Plan:
    """Return a plan that reads weights where they are linked, without a limit of memory; it passes `check`.

    Args:
        program: the calls.
        effort: effort of packing (`packing.pack`).
        packed: packing of the program before its calls were cut; blocks keep these offsets.
    """
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    placements: dict[str, Place] = {}
    for region, names in ((Region.INPUT, program.inputs), (Region.OUTPUT, program.outputs)):
        placements |= {name: Place(region, index, 0, sizes[name]) for index, name in enumerate(names)}
    constants, weights = _weights_image(program)
    blocks = lifetimes(program)
    packing = cached_pack(blocks, effort) if packed is None else transfer_offsets(blocks, packed)
    ends: dict[str, int] = {}
    for block, offset in packing.offsets.items():
        ends |= {name: offset for name in block.buffers if name in program.placed}
        own = (name for name in block.buffers if name not in program.placed)
        placements |= {name: Place(Region.SCRATCH, 0, offset, block.nbytes) for name in own}
    return Plan(
        placements=placements | constants,
        weights=weights,
        constants={name: constant.offset for name, constant in constants.items()},
        scratch_bytes=packing.nbytes,
        packing=packing,
        prefetch_bytes=0,
        resident_bytes=0,
        transfers={},
        lifetimes=blocks,
        prefetch=None,
        ends=ends,
    )


def plan_calls(program: Program, budget: Budget) -> tuple[Program, Plan]:
    """Return a plan of these calls, in this order, within a budget, and its program, whose calls may be tiled.

    Raises:
        CapacityError: the program does not fit.
    """
    planned = calls_within(program, budget)
    if planned is None:
        linked = plan(program, _effort(budget))
        raise too_large(program, linked.packing, linked.constant_bytes, budget)
    return planned


def calls_within(program: Program, budget: Budget) -> tuple[Program, Plan] | None:
    """`plan_calls` that returns None if the program does not fit, because composing the error takes time."""
    linked = plan(program, _effort(budget))
    if not may_fit(linked.packing, linked.constant_bytes, budget):
        return None
    area = area_for(linked.packing, linked.constant_bytes, budget)
    if area is None:
        return program, linked
    fetched = tile_weights(
        program, budget.processor, area, budget.effort, linked.packing, keep_resident=budget.keep_resident
    )
    if fetched is None:
        return None
    return fetched.program, _fetching(plan(fetched.program, _effort(budget), linked.packing), fetched.prefetch)


def _effort(budget: Budget) -> float:
    """Return the effort of packing scratch."""
    return EXACT_EFFORT if budget.effort is Effort.EXACT else FAST_EFFORT


def _fetching(planned: Plan, prefetch: Prefetch) -> Plan:
    """Return the plan with all constants in the prefetch area or in scratch."""
    chunks = prefetch.chunks
    starts = [planned.constants[chunk.buffers[0]] for chunk in chunks]
    places = {
        step.chunk: Place(Region.PREFETCH, 0, step.offset, chunks[step.chunk].nbytes)
        if step.offset < prefetch.area
        else Place(Region.SCRATCH, 0, step.offset - prefetch.area, chunks[step.chunk].nbytes)
        for step in prefetch.schedule.steps
        if isinstance(step, Issue)
    }
    placements = dict(planned.placements)
    for index, chunk in enumerate(chunks):
        for name in chunk.buffers:
            at = places[index].offset + planned.constants[name] - starts[index]
            placements[name] = replace(placements[name], region=places[index].region, offset=at)
    transfers: dict[int, tuple[Transfer, ...]] = {}
    for step in prefetch.schedule.steps:
        command: Transfer = Wait(step.channel)
        if isinstance(step, Issue):
            to, stays = places[step.chunk], step.chunk in prefetch.resident
            command = Fetch(step.channel, starts[step.chunk], to.offset, to.nbytes, stays, to.region)
        transfers[step.call] = (*transfers.get(step.call, ()), command)
    return replace(
        planned,
        placements=placements,
        prefetch_bytes=max((p.offset + p.nbytes for p in places.values() if p.region is Region.PREFETCH), default=0),
        resident_bytes=sum(chunks[index].nbytes for index in prefetch.resident),
        transfers=transfers,
        prefetch=prefetch,
    )


def check(program: Program, planned: Plan) -> None:
    """Check that every used buffer is inside its region, and that no two buffers that are live together overlap.

    The check shares no code with the planner.

    Raises:
        InternalError: naming the buffers.
    """
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    if len(sizes) < len(program.buffers):
        twice = [name for name, count in Counter(buffer.name for buffer in program.buffers).items() if count > 1]
        raise InternalError(f"several buffers are called `{twice[0]}`")
    live = live_ranges(program)
    _check_places(program, planned, sizes, live)
    placements = {**planned.placements, **{name: planned.place_of(name) for name in live}}
    units = units_in_use(program)
    check_fetches(program, placements, planned.constants, planned.transfers, units)
    for a, b in combinations(live, 2):
        (a_first, a_last), (b_first, b_last) = live[a], live[b]
        place_a, place_b = planned.place_of(a), planned.place_of(b)
        if a_first > b_last or b_first > a_last or not place_a.overlaps(place_b):
            continue
        start = {name: place.offset // ALIGNMENT for name, place in ((a, place_a), (b, place_b))}
        low, high = max(start.values()), min(start[name] + len(units[name][0]) for name in (a, b))
        (a_begin, a_end), (b_begin, b_end) = (
            [ends[low - start[n] : high - start[n]] for ends in units[n]] for n in start
        )
        if not np.any((a_begin <= b_end) & (b_begin <= a_end)):
            continue
        same_place = start[a] == start[b]
        if not (same_place and a_last == b_first and can_share(program.calls[b_first], a, b, sizes)):
            raise InternalError(f"buffers `{a}` and `{b}` overlap while both are in use")


def _check_places(program: Program, planned: Plan, sizes: Mapping[str, int], live: Collection[str]) -> None:
    """Raise InternalError for a scratch buffer or a constant outside its region."""
    constants = {buffer.name for buffer in program.buffers if buffer.data is not None}
    for name in dict.fromkeys(ref.buffer for call in program.calls for ref in call.operands):
        if name in live:
            what, region, end = "buffer", Region.SCRATCH, planned.scratch_bytes
        elif name in constants and planned.transfers:
            to_scratch = planned.placements[name].region is Region.SCRATCH
            what, region = "constant", Region.SCRATCH if to_scratch else Region.PREFETCH
            end = planned.scratch_bytes if to_scratch else planned.prefetch_bytes
        elif name in constants:
            what, region, end = "constant", Region.WEIGHTS, len(planned.weights)
        else:
            continue  # an input or output of the caller
        place = planned.place_of(name)
        inside = place.offset >= 0 and place.offset + sizes[name] <= end
        if place.region is not region or place.offset % ALIGNMENT or not inside:
            where = f"{region.name.lower()} of {end} bytes"
            raise InternalError(f"{what} `{name}` of {sizes[name]} bytes has no valid place in {where}: {place}")


def _weights_image(program: Program) -> tuple[dict[str, Place], bytes]:
    """Return the places of the constants that calls read, and the image of their bytes, each aligned."""
    constants = {buffer.name: buffer.data for buffer in program.buffers if buffer.data is not None}
    placements: dict[str, Place] = {}
    blocks: list[bytes] = []
    starts: list[int] = []
    end = 0
    for index, group in enumerate(groups(program)):
        starts.append(end if group.place == index else starts[group.place])
        at = starts[-1]
        for name in group.names:
            data = constants[name]
            placements[name] = Place(Region.WEIGHTS, 0, at, len(data))
            at += round_up(len(data))
            if group.place == index:
                blocks.append(data.ljust(round_up(len(data)), b"\0"))
                end = at
    return placements, b"".join(blocks).ljust(ALIGNMENT, b"\0")
