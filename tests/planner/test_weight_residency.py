"""Prefetch plans: what is proven holds for every schedule there is, and cut calls compute the same bytes."""

import base64
import random
from collections.abc import Iterator
from itertools import chain, combinations, product

import numpy as np
import pytest
from tests.npu.neutron.machine.planned_programs import ENGINE, PROCESSOR, attention, random_program

from deuteron import extras
from deuteron.arch.memory import Effort, FetchPolicy
from deuteron.errors import MissingToolError
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.operators.kernel_params import Conv2DParams
from deuteron.operators.program import Program
from deuteron.planner import Budget, check, plan, plan_within
from deuteron.planner.prefetch_cpsat import solve
from deuteron.planner.prefetch_schedule import FetchCosts, FetchSlot, Issue, Schedule, schedule
from deuteron.planner.reserved_intervals import NO_SCRATCH, ReservedInterval, Scratch
from deuteron.planner.weight_chunks import Chunk, chunks
from deuteron.planner.weight_residency import costs_of, lower_bound, min_area, prefetch
from deuteron.planner.weight_tiling import tile, unshare_constants
from deuteron.planner.weight_tiling_search import tile_weights
from deuteron.runtime.driver import Driver


def _instance(seed: int) -> tuple[tuple[Chunk, ...], FetchCosts, int]:
    """A few chunks of a few calls, and an area that does not hold them all."""
    rng = random.Random(seed)
    calls = rng.randint(2, 4)
    parts = tuple(
        Chunk((f"w{i}",), 16 * rng.randint(4, 60), call, rng.choice((call, call, rng.randint(call, calls - 1))))
        for i, call in enumerate(sorted(rng.randrange(calls) for _ in range(rng.randint(2, 4))))
    )
    transfers = tuple(ENGINE.fetch_latency + ENGINE.transfer(chunk.nbytes) for chunk in parts)
    costs = FetchCosts(tuple(rng.randint(200, 4000) for _ in range(calls)), transfers, ENGINE.fetch_setup)
    least, most = min_area(parts), sum(chunk.nbytes for chunk in parts)
    return parts, costs, 16 * rng.randint(least // 16, most // 16)


def _every(
    parts: tuple[Chunk, ...], costs: FetchCosts, area: int, scratch: Scratch = NO_SCRATCH
) -> Iterator[tuple[frozenset[int], Schedule]]:
    """Every choice of resident chunks, and of the issuing call of each other chunk, that fits."""
    indices, free = range(len(parts)), scratch.free(len(costs.calls))
    for kept in chain.from_iterable(combinations(indices, n) for n in range(len(parts) + 1)):
        if sum(parts[j].nbytes for j in kept) > area:
            continue
        others = [j for j in indices if j not in kept]
        for calls in product(*(range(parts[j].first + 1) for j in others)):
            issued = dict(sorted(zip(others, calls, strict=True), key=lambda item: (item[1], item[0])))
            room = all(
                sum(c.nbytes for j, c in enumerate(parts) if j in kept or issued[j] <= call <= c.last)
                <= area + free[call]
                for call in range(len(costs.calls))
            )
            if room:
                found = schedule(parts, costs, frozenset(kept), area, {j: FetchSlot(k, 0) for j, k in issued.items()})
                assert found is not None
                yield frozenset(kept), found


def _scratch(seed: int, calls: int) -> Scratch:
    """Scratch of 2,048 bytes that is in use but for its end, which differs from call to call."""
    rng = random.Random(-seed)
    return Scratch(2048, tuple(ReservedInterval(0, 16 * rng.randint(80, 128), at, at) for at in range(calls)))


@pytest.mark.parametrize("to_scratch", [False, True])
def test_no_schedule_of_a_small_program_beats_the_bounds(*, to_scratch: bool) -> None:
    met = above = 0
    for seed in range(150):
        parts, costs, area = _instance(seed)
        scratch = _scratch(seed, len(costs.calls)) if to_scratch else NO_SCRATCH
        resident, best = min(_every(parts, costs, area, scratch), key=lambda found: found[1].cycles)
        bound = lower_bound(parts, costs, ENGINE, area, scratch)
        exact = solve(parts, costs, area, (resident, best), 1.0, scratch)
        assert exact is not None
        assert bound <= best.cycles
        assert exact.bound <= best.cycles
        met += exact.bound == best.cycles
        above += bound > sum(costs.calls)
    assert met >= 100  # elsewhere the solver's transfers may be interrupted, or the CPU's work hides
    assert above >= (20 if to_scratch else 50)


def test_addresses_of_the_solver_are_free_when_they_are_needed() -> None:
    """Chunks that are in the area at once lie apart, resident ones before all others, and a schedule takes them so."""
    streamed = 0
    for seed in range(60):
        parts, costs, area = _instance(seed)
        start = min(_every(parts, costs, area), key=lambda found: found[1].cycles)
        free, placed = (solve(parts, costs, area, start, 1.0, addresses=addresses) for addresses in (False, True))
        if free is None or placed is None:
            continue  # the best without addresses may have none
        assert free.offsets == {}
        assert placed.offsets.keys() == placed.issues.keys()
        kept = sum(parts[j].nbytes for j in placed.resident)
        assert all(kept <= at <= area - parts[j].nbytes for j, at in placed.offsets.items())
        for i, j in combinations(placed.offsets, 2):
            apart_in_time = placed.issues[i] > parts[j].last or placed.issues[j] > parts[i].last
            low, high = sorted((i, j), key=lambda chunk: placed.offsets[chunk])
            assert apart_in_time or placed.offsets[low] + parts[low].nbytes <= placed.offsets[high]
        slots = {j: FetchSlot(call, placed.offsets[j]) for j, call in placed.issues.items()}
        found = schedule(parts, costs, placed.resident, area, slots)
        assert found is not None
        assert free.bound <= placed.bound <= found.cycles
        streamed += len(slots)
    assert streamed >= 60


def test_chunks_are_joined_only_where_that_is_faster() -> None:
    program = unshare_constants(attention())
    parts = chunks(program)
    least, most = min_area(parts), sum(chunk.nbytes for chunk in parts)
    for area in range(least, most, 160):
        each = schedule(parts, costs_of(program, parts, PROCESSOR), frozenset(), area)
        planned = prefetch(program, PROCESSOR, area)
        assert planned is not None
        assert each is not None
        assert planned.schedule.cycles <= each.cycles


@pytest.mark.parametrize("effort", Effort)
def test_nothing_is_resident_where_nothing_keeps_it(effort: Effort) -> None:
    """Plans for such a runtime are made for the run that it makes, and are no slower in it than those for another."""
    program = _wide(per_channel=True)
    linked = plan(program)
    room = linked.scratch_bytes + len(linked.weights) // 2 // 16 * 16
    cycles: list[int] = []
    for keep_resident in (True, False):
        budget = Budget(PROCESSOR, room, policy=FetchPolicy.ALWAYS, effort=effort, keep_resident=keep_resident)
        pieces, planned = plan_within(program, budget)
        decoded = decode(encode(pieces, planned))
        assert hazards(decoded, dataflow(pieces, planned.constants)) == ()
        assert planned.prefetch is not None
        assert (planned.resident_bytes > 0) == keep_resident
        assert planned.prefetch.bound <= planned.prefetch.schedule.cycles
        cycles.append(simulate(decoded, ENGINE, keep_resident=False).cycles)
        if not keep_resident:
            assert cycles[-1] == planned.prefetch.schedule.cycles
    assert cycles[1] <= cycles[0]


def test_no_schedule_without_resident_chunks_beats_their_bounds() -> None:
    for seed in range(100):
        parts, costs, area = _instance(seed)
        scratch = _scratch(seed, len(costs.calls)) if seed % 2 else NO_SCRATCH
        ways = _every(parts, costs, area, scratch)
        start = min((found for found in ways if not found[0]), key=lambda found: found[1].cycles)
        exact = solve(parts, costs, area, start, 1.0, scratch, keep_resident=False)
        assert exact is not None
        assert exact.resident == frozenset()
        bound = lower_bound(parts, costs, ENGINE, area, scratch, keep_resident=False)
        assert lower_bound(parts, costs, ENGINE, area, scratch) <= bound <= start[1].cycles
        assert exact.bound <= start[1].cycles


def test_a_small_chunk_may_come_before_a_large_one_that_has_no_room_yet() -> None:
    parts = (Chunk(("a",), 7168, 0, 0), Chunk(("b",), 6144, 1, 1), Chunk(("c",), 3072, 2, 2))
    transfers = tuple(ENGINE.fetch_latency + ENGINE.transfer(chunk.nbytes) for chunk in parts)
    costs = FetchCosts((40_000, 500, 500), transfers, ENGINE.fetch_setup)
    in_order = schedule(parts, costs, frozenset(), 10_240)
    small_first = schedule(
        parts, costs, frozenset(), 10_240, {0: FetchSlot(0, 0), 2: FetchSlot(0, 7168), 1: FetchSlot(1, 0)}
    )  # fmt: skip
    assert in_order is not None
    assert small_first is not None
    assert [step.chunk for step in in_order.steps if isinstance(step, Issue)] == [0, 1, 2]
    assert [(step.chunk, step.call) for step in small_first.steps if isinstance(step, Issue)] == [
        (0, 0),
        (2, 0),
        (1, 1),
    ]
    assert in_order.cycles - small_first.cycles == transfers[2] - costs.calls[1]


WIDE = """graph wide {
  input %x: i8[1,5,4,16] q(0.5:3)
  const %w: i8[40,3,3,16] q(WEIGHTS) = base64"DATA"
  const %b: i32[40] = [BIAS]
  const %v: i8[48,1,1,40] q(0.25:0) = base64"MORE"
  const %d: i32[48] = [BIAS,1,2,3,4,5,6,7,8]
  %c: i8[1,5,4,40] q(9.0:-5) = conv2d(%x, %w, %b) pads=(1,1,1,1) @[0]
  %y: i8[1,5,4,48] q(99.0:4) = conv2d(%c, %v, %d) @[1]
  output %y
}
"""


def _wide(*, per_channel: bool) -> Program:
    """Two convolutions with several output positions, whose filters are no multiple of a piece."""
    rng = np.random.default_rng(5)
    scales = [0.125 * (1 + i % 7) for i in range(40)] if per_channel else [0.25]
    text = WIDE.replace("WEIGHTS", ", ".join(f"{scale}:0" for scale in scales) + ("; axis 0" if per_channel else ""))
    for name, count in (("DATA", 40 * 9 * 16), ("MORE", 48 * 40)):
        content = rng.integers(-127, 128, count).astype(np.int8).tobytes()
        text = text.replace(name, base64.b64encode(content).decode())
    return select(parse_graph(text.replace("BIAS", ",".join(str(i * 37 - 700) for i in range(40)))))


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_convolution_in_pieces_computes_the_same(per_channel: bool) -> None:
    program = _wide(per_channel=per_channel)
    pieces = tile(program, 0).program
    channels = [call.params.out_c for call in pieces.calls if isinstance(call.params, Conv2DParams)]
    assert channels == [16, 16, 8, 16, 16, 16]
    x = np.random.default_rng(1).integers(-128, 128, 5 * 4 * 16).astype(np.int8).tobytes()
    planned = plan(pieces)
    check(pieces, planned)
    container = encode(pieces, planned)
    assert hazards(decode(container), dataflow(pieces, planned.constants)) == ()
    whole = Driver().run(encode(program, plan(program)), [x])
    assert Driver().run(container, [x]) == whole
    assert Driver("driver_ref").run(container, [x]) == whole


@pytest.mark.parametrize("effort", Effort)
def test_fetched_pieces_compute_the_same(effort: Effort) -> None:
    program = _wide(per_channel=True)
    linked = plan(program)
    x = np.random.default_rng(2).integers(-128, 128, 5 * 4 * 16).astype(np.int8).tobytes()
    whole = Driver().run(encode(program, linked), [x])
    for share in (2, 3):
        room = linked.scratch_bytes + len(linked.weights) // share // 16 * 16
        pieces, planned = plan_within(program, Budget(PROCESSOR, room, policy=FetchPolicy.ALWAYS, effort=effort))
        container = encode(pieces, planned)
        decoded = decode(container)
        assert len(pieces.calls) > len(program.calls)
        assert planned.scratch_bytes + planned.prefetch_bytes <= room
        assert hazards(decoded, dataflow(pieces, planned.constants)) == ()
        assert planned.prefetch is not None
        assert planned.prefetch.bound <= simulate(decoded, ENGINE).cycles == planned.prefetch.schedule.cycles
        assert Driver().run(container, [x]) == whole


def test_calls_whose_weights_stay_in_place_are_not_cut() -> None:
    program = _wide(per_channel=True)
    most = len(plan(program).weights)
    found = tile_weights(program, PROCESSOR, most, Effort.FAST)
    assert found is not None
    assert found.program == program
    assert found.prefetch.proven
    tight = tile_weights(program, PROCESSOR, most // 2, Effort.FAST)
    assert tight is not None
    assert len(tight.program.calls) > len(program.calls)


def test_proofs_need_the_solver_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_program(0)
    area = min_area(chunks(unshare_constants(program)))
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "ortools")
    assert tile_weights(program, PROCESSOR, area, Effort.FAST) is not None
    with pytest.raises(MissingToolError) as refused:
        tile_weights(program, PROCESSOR, area, Effort.EXACT)
    assert str(refused.value) == (
        "`--effort exact` with fetches of weights needs the Python package `ortools`, which is not installed\n\n"
        "hint: install Deuteron with its extra: `pip install 'deuteron[solver]'`"
    )


def test_a_plan_that_nothing_is_faster_than_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    program = _wide(per_channel=True)
    monkeypatch.setattr(extras, "is_installed", lambda package: package != "ortools")
    exact = tile_weights(program, PROCESSOR, len(plan(program).weights), Effort.EXACT)
    assert exact is not None
    assert exact.prefetch.proven


def test_the_solver_makes_no_plan_slower_and_proves_its_bound() -> None:
    proofs = 0
    for seed in range(12):
        program = random_program(seed)
        least, most = min_area(chunks(unshare_constants(program))), len(plan(program).weights)
        area = least + (most - least) // 3 // 16 * 16
        fast, exact = (tile_weights(program, PROCESSOR, area, effort) for effort in (Effort.FAST, Effort.EXACT))
        assert fast is not None
        assert exact is not None
        assert exact.prefetch.bound <= exact.cycles <= fast.cycles
        proofs += exact.prefetch.proven
    assert proofs >= 6
