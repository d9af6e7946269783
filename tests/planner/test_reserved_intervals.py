"""Weights that are fetched to free scratch."""

import random
from dataclasses import replace

import pytest
from tests.differential.budgets import painted
from tests.graphs import random_graph, random_inputs
from tests.npu.neutron.machine.planned_programs import ENGINE, PROCESSOR, plan_or_least

from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy
from deuteron.errors import CapacityError, InternalError
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators.program import Program
from deuteron.operators.regions import Region
from deuteron.operators.transfers import Fetch
from deuteron.planner import Budget, Plan, check, plan, plan_within
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing import ORDERS
from deuteron.planner.reserved_intervals import NO_SCRATCH, ReservedInterval, Scratch, place_between, scratch_of
from deuteron.planner.weight_chunks import Chunk
from deuteron.planner.weight_residency import _packing, max_needed_bytes, min_area
from deuteron.planner.weight_tiling_search import tile_weights


def _fetches(planned: Plan) -> list[tuple[int, int, Fetch]]:
    """Each fetch with its call and its number before it."""
    steps = ((call, at, step) for call, own in planned.transfers.items() for at, step in enumerate(own))
    return [(call, at, step) for call, at, step in steps if isinstance(step, Fetch)]


def _to_scratch(planned: Plan) -> list[tuple[int, int, Fetch]]:
    return [item for item in _fetches(planned) if item[2].region is Region.SCRATCH]


def test_reserved_intervals_are_the_blocks_of_scratch_in_order() -> None:
    blocks = {Lifetime(("b",), 100, 2, 5): 0, Lifetime(("a",), 40, 0, 2): 112}
    scratch = scratch_of(blocks)
    assert scratch == Scratch(160, (ReservedInterval(112, 48, 0, 2), ReservedInterval(0, 112, 2, 5)))
    assert scratch.free(7) == [112, 112, 0, 48, 48, 48, 160]
    assert scratch.free(3) == [112, 112, 0]
    assert scratch_of({}) == NO_SCRATCH


def test_blocks_are_placed_between_reserved_intervals() -> None:
    for seed in range(100):
        rng = random.Random(seed)
        reserved = tuple(
            ReservedInterval(16 * rng.randrange(32), 16 * rng.randint(1, 32), first, first + rng.randrange(4))
            for first in sorted(rng.randrange(12) for _ in range(8))
        )
        scratch = Scratch(1024, reserved)
        blocks = [Lifetime((str(i),), rng.randint(1, 500), i, i + rng.randrange(4)) for i in range(12)]
        offsets = place_between(scratch.conflicts(blocks), scratch, ORDERS["size"])
        placed = scratch_of(offsets)
        assert placed.nbytes <= scratch.nbytes
        for own in placed.reserved:
            others = [interval for interval in (*reserved, *placed.reserved) if interval is not own]
            others = [interval for interval in others if interval.first <= own.last and own.first <= interval.last]
            assert all(w.offset + w.nbytes <= own.offset or own.offset + own.nbytes <= w.offset for w in others)
        assert place_between(NO_SCRATCH.conflicts(blocks), NO_SCRATCH, ORDERS["size"]) == {}


def test_the_least_area_is_what_scratch_has_no_room_for() -> None:
    parts = (Chunk(("a",), 64, 0, 0), Chunk(("b",), 256, 1, 1), Chunk(("c",), 128, 1, 3))
    scratch = Scratch(256, (ReservedInterval(0, 256, 0, 0), ReservedInterval(0, 128, 3, 4)))
    assert (min_area(parts), max_needed_bytes(parts)) == (384, 384)
    assert (min_area(parts, scratch), max_needed_bytes(parts, scratch)) == (128, 128)
    nbytes, slots = _packing(parts, {0: 0, 1: 1, 2: 1}, 0, 128, scratch)
    assert nbytes == 128
    assert {j: slot.offset for j, slot in slots.items()} == {0: 0, 1: 128, 2: 0}


def _programs() -> list[Program]:
    return [select(optimise(random_graph(seed, stock=True))) for seed in range(60)]


@pytest.mark.parametrize("effort", [Effort.FAST])
def test_plans_that_fetch_to_scratch_are_no_slower(effort: Effort) -> None:
    faster = 0
    for program in _programs():
        linked = plan(program)
        for share in (2, 5):
            area = linked.constant_bytes // share // 16 * 16
            alone = tile_weights(program, PROCESSOR, area, effort) if linked.constants else None
            beside = tile_weights(program, PROCESSOR, area, effort, linked.packing) if linked.constants else None
            if alone is not None:
                assert beside is not None
                assert beside.prefetch.bound <= beside.cycles <= alone.cycles
                faster += beside.cycles < alone.cycles
    assert faster >= 10


@pytest.mark.parametrize("effort", Effort)
def test_what_is_fetched_to_scratch_computes_the_same(effort: Effort) -> None:
    to_scratch = without_area = 0
    for seed in range(24):
        graph = random_graph(seed, stock=True)
        program, inputs = select(optimise(graph)), [value.tobytes() for value in random_inputs(graph, seed)]
        whole = plan(program)
        expected, _ = painted(encode(program, whole), inputs)
        for keep_resident in (True, False):
            budget = Budget(
                PROCESSOR,
                16,
                policy=FetchPolicy.ALWAYS,
                depth_first=DepthFirst.NEVER,
                effort=effort,
                keep_resident=keep_resident,
            )
            pieces, planned = plan_or_least(program, budget)
            check(pieces, planned)
            container = encode(pieces, planned)
            decoded = decode(container)
            assert hazards(decoded, dataflow(pieces, planned.constants)) == ()
            assert painted(container, inputs) == (expected, True)
            to_scratch += len(_to_scratch(planned))
            without_area += bool(planned.transfers) and planned.prefetch_bytes == 0
            if planned.prefetch is not None:
                cycles = simulate(decoded, ENGINE, keep_resident=keep_resident).cycles
                assert planned.prefetch.bound <= planned.prefetch.schedule.cycles == cycles
    assert to_scratch > 20
    assert without_area > 1


def _one_in_scratch() -> tuple[Program, Plan]:
    """A plan with a fetch to scratch."""
    for program in _programs():
        try:
            plan_within(program, Budget(PROCESSOR, 16, policy=FetchPolicy.ALWAYS))
        except CapacityError as error:
            pieces, planned = plan_within(program, Budget(PROCESSOR, error.needed, policy=FetchPolicy.ALWAYS))
            if _to_scratch(planned) and len(_fetches(planned)) > 1:
                return pieces, planned
    raise AssertionError


def _moved(planned: Plan, call: int, number: int, to: int) -> Plan:
    """The plan with a fetch, and what it fetches, elsewhere in scratch."""
    fetch = planned.transfers[call][number]
    assert isinstance(fetch, Fetch)
    own = list(planned.transfers[call])
    own[number] = replace(fetch, target=to, region=Region.SCRATCH)
    placements = {
        name: replace(place, region=Region.SCRATCH, offset=to + place.offset - fetch.target)
        if name in planned.constants and fetch.written.overlaps(place)
        else place
        for name, place in planned.placements.items()
    }
    return replace(planned, transfers={**planned.transfers, call: tuple(own)}, placements=placements)


def test_the_checker_finds_a_fetch_that_meets_a_buffer() -> None:
    program, planned = _one_in_scratch()
    call, number, fetch = _to_scratch(planned)[0]
    targets = range(0, planned.scratch_bytes - fetch.nbytes + 1, 16)
    refusals = {_refusal(program, _moved(planned, call, number, to)) for to in targets} - {""}
    assert any(message.startswith("buffer `") for message in refusals)
    where = f" and the fetch before call {call} overlap while both are in use"
    assert all(message.split("`")[-1].startswith(where) for message in refusals if message.startswith("buffer"))


def _refusal(program: Program, planned: Plan) -> str:
    """Return the checker's errors."""
    try:
        check(program, planned)
    except InternalError as error:
        return error.message
    return ""


def test_the_checker_finds_fetches_that_meet() -> None:
    program, planned = _one_in_scratch()
    first, *_ = _fetches(planned)
    twice = replace(first[2], channel=3)
    doubled = {**planned.transfers, first[0]: (*planned.transfers[first[0]], twice)}
    message = f"fetches before call {first[0]} and call {first[0]} overlap while both are in use"
    with pytest.raises(InternalError, match=message):
        check(program, replace(planned, transfers=doubled))


def test_the_checker_finds_what_was_not_fetched() -> None:
    program, planned = _one_in_scratch()
    call, number, _ = _to_scratch(planned)[0]
    own = planned.transfers[call]
    left = {**planned.transfers, call: (*own[:number], *own[number + 1 :])}
    with pytest.raises(InternalError, match=r"constant `.*` is read by call \d+, and not fetched to its place before"):
        check(program, replace(planned, transfers=left))
