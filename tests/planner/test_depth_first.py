"""Programs that fit only depth first: what is planned for a budget, and what is said when nothing fits."""

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from tests import full
from tests.graphs import random_graph
from tests.npu.neutron.machine.planned_programs import ENGINE, PROCESSOR
from tests.planner.test_stripes import NETWORK

from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy
from deuteron.errors import CapacityError, InternalError
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.kernels.processor import CALLS, NeutronProcessor
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators.program import Program
from deuteron.planner import Budget, Plan, cascades, check, depth_first, plan, plan_within
from deuteron.planner.cascades import CascadeSearch, Cut, longest_exhaustive_chain
from deuteron.planner.depth_first import cycles, min_cycles
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import pack
from deuteron.planner.stripes import Cascade, RowAnalysis, cut_into_stripes
from deuteron.planner.weight_residency import costs_of
from deuteron.runtime.driver import Driver

SKIPPING = f"""graph network {{
  input %x: i8[1,24,24,4] q(0.5:3)
  const %w: i8[16,3,3,8] q(0.25:0) = base64"{base64.b64encode(bytes(range(72)) * 16).decode()}"
  const %v: i8[8,1,1,16] q(0.25:0) = base64"{base64.b64encode(bytes(range(64)) * 2).decode()}"
  const %u: i8[8,1,1,4] q(0.25:0) = base64"{base64.b64encode(bytes(range(32))).decode()}"
  const %b: i32[8] = [{",".join("5" * 8)}]
  const %c: i32[16] = [{",".join("5" * 16)}]
  %l: i8[1,24,24,8] q(8.0:-5) = conv2d(%x, %u, %b) @[0]
  %p: i8[1,12,12,8] q(8.0:-5) = max_pool2d(%l) window=(2,2) stride=(2,2) @[1]
  %a: i8[1,12,12,16] q(8.0:-5) = conv2d(%p, %w, %c) pads=(1,1,1,1) @[2]
  %m: i8[1,2,2,8] q(8.0:-5) = conv2d(%a, %v, %b) stride=(8,8) @[3]
  output %p
  output %m
}}
"""
"""Two rows of twelve are read of `a`, which takes less memory than `l`."""

LATE = f"""graph network {{
  input %x: i8[1,38,38,8] q(0.5:3)
  const %w0: i8[8,2,2,8] q(0.25:0) = base64"{base64.b64encode(bytes(256)).decode()}"
  const %w1: i8[1,1,1,8] q(0.25:0) = base64"{base64.b64encode(bytes(8)).decode()}"
  const %w2: i8[1,1,1,8] q(0.25:0) = base64"{base64.b64encode(bytes(8)).decode()}"
  const %w3: i8[1,3,3,8] q(0.25:0) = base64"{base64.b64encode(bytes(72)).decode()}"
  const %b: i32[8] = [{",".join("5" * 8)}]
  %v0: i8[1,10,10,8] q(8.0:-5) = conv2d(%x, %w0, %b) stride=(4,4) @[0]
  %v1: i8[1,5,5,8] q(8.0:-5) = depthwise_conv2d(%v0, %w1, %b) stride=(2,2) @[1]
  %v2: i8[1,5,5,8] q(8.0:-5) = depthwise_conv2d(%v1, %w2, %b) @[2]
  %v3: i8[1,3,3,8] q(8.0:-5) = depthwise_conv2d(%v2, %w3, %b) @[3]
  %v4: i8[1,1,1,8] q(8.0:-5) = max_pool2d(%v3) window=(1,1) stride=(4,4) @[4]
  output %v4
}}
"""
"""The first stripe of its first two calls needs the most, and what they leave behind is not there yet."""

PROGRAM = select(parse_graph(NETWORK))
SKIPS = select(parse_graph(SKIPPING))
WHOLE = plan(PROGRAM)
INPUT = np.random.default_rng(0).integers(-128, 128, 1024).astype(np.int8).tobytes()
LINKED = len(WHOLE.weights)
BUDGET = Budget(PROCESSOR, WHOLE.scratch_bytes + LINKED)
REFUSED = """kernel call 7, `depthwise_conv2d_s8` of op 2: intermediate results, computed some rows at a time, need \
1,536 bytes of SRAM, 1,000 are available; the peak is here; the largest values are:
  op 0: 768 bytes, `a[0:6]` of `conv2d_s8`
  op 1: 512 bytes, `m[1:5]` of `depthwise_conv2d_s8`
  op 2: 256 bytes, `n[2:4]` of `depthwise_conv2d_s8`

hint: make these values smaller (a smaller input, fewer channels, a stride earlier), or give \
`--sram-budget 1664` or more"""


def _checked(program: Program, planned: Plan, budget: Budget) -> int:
    """Cycles of a run, of a plan in which nothing is wrong, and which computes what the whole program computes."""
    check(program, planned)
    taken = planned.prefetch_bytes or len(planned.weights)
    assert planned.scratch_bytes + taken <= budget.sram
    container = encode(program, planned)
    decoded = decode(container)
    assert hazards(decoded, dataflow(program, planned.constants)) == ()
    assert Driver().run(container, [INPUT]) == Driver().run(encode(PROGRAM, WHOLE), [INPUT])
    return simulate(decoded, ENGINE).cycles


def test_what_fits_stays_whole() -> None:
    assert plan_within(PROGRAM, BUDGET)[0] is PROGRAM


@pytest.mark.parametrize("policy", FetchPolicy)
def test_what_does_not_fit_is_cut(policy: FetchPolicy) -> None:
    budget = replace(BUDGET, sram=BUDGET.sram - 2_000, policy=policy)
    with pytest.raises(CapacityError):
        plan_within(PROGRAM, replace(budget, sram=WHOLE.scratch_bytes - 16, depth_first=DepthFirst.NEVER))
    program, planned = plan_within(PROGRAM, budget)
    assert any(call.stripe for call in program.calls)
    _checked(program, planned, budget)


def test_all_are_cut_on_request_into_the_least_that_is_found() -> None:
    budget = replace(BUDGET, depth_first=DepthFirst.ALWAYS)
    program, planned = plan_within(PROGRAM, budget)
    assert planned.scratch_bytes < WHOLE.scratch_bytes / 3
    _checked(program, planned, budget)


def test_never_cuts_nothing() -> None:
    budget = replace(BUDGET, sram=WHOLE.scratch_bytes - 16, depth_first=DepthFirst.NEVER)
    with pytest.raises(CapacityError, match=r"intermediate results need 6,144 bytes of SRAM, 6,128 are available"):
        plan_within(PROGRAM, budget)


def test_more_memory_is_never_slower() -> None:
    taken: list[int] = []
    for sram in range(2_400, BUDGET.sram + 400, 400):
        budget = replace(BUDGET, sram=sram)
        taken.append(_checked(*plan_within(PROGRAM, budget), budget))
    assert taken == sorted(taken, reverse=True)


@pytest.mark.parametrize("policy", FetchPolicy)
def test_no_plan_is_faster_than_the_bound_that_ends_the_search(policy: FetchPolicy) -> None:
    for sram in range(2_400, BUDGET.sram + 400, 1_200):
        budget = replace(BUDGET, sram=sram, policy=policy)
        try:
            program, planned = plan_within(PROGRAM, budget)
        except CapacityError:
            continue  # weights that may not be fetched
        least = min_cycles(program, budget, planned.scratch_bytes)
        assert min_cycles(PROGRAM, budget) <= least <= cycles(program, planned, budget)


def test_chains_are_looked_for_only_where_they_can_be_faster() -> None:
    scratch, whole = WHOLE.scratch_bytes // 2, sum(costs_of(PROGRAM, (), PROCESSOR).calls)
    fastest = CascadeSearch(PROGRAM, PROCESSOR).fastest(scratch, None)
    assert fastest is not None
    assert fastest.cycles > whole
    assert CascadeSearch(PROGRAM, PROCESSOR).fastest(scratch, None, fastest.cycles + 1) == fastest
    assert CascadeSearch(PROGRAM, PROCESSOR).fastest(scratch, None, whole + ENGINE.call_dispatch) is None


def test_what_is_known_of_chains_holds_for_every_flash() -> None:
    shared, cut = CascadeSearch(PROGRAM, PROCESSOR.without_flash()), 0
    for bandwidth in (2_000_000, 50_000_000, 400_000_000):
        engine = replace(ENGINE, flash_bandwidth=bandwidth)
        alone, flash = CascadeSearch(PROGRAM, NeutronProcessor(engine)), NeutronProcessor(engine)
        for scratch in range(1_600, WHOLE.scratch_bytes, 900):
            for area in (None, 0, 600, 4_000):
                fastest = alone.fastest(scratch, area)
                assert shared.fastest(scratch, area, flash=flash) == fastest
                cut += fastest is not None
        assert shared.least(flash=flash) == alone.least()
    assert cut > 20


def _every(program: Program, analysis: RowAnalysis, at: int = 0) -> Iterator[tuple[Cascade, ...]]:
    """Every way to part the calls from `at` on into chains of two or more and whole calls."""
    if at >= len(program.calls):
        yield ()
        return
    yield from _every(program, analysis, at + 1)
    for last in range(at + 2, len(program.calls) + 1):
        chain = analysis.chain(at, last)
        if chain is not None:
            for height in range(1, chain.count):
                for cache_halo in (False, True):
                    own = Cascade(at, last, height, cache_halo)
                    yield from ((own, *others) for others in _every(program, analysis, last))


@pytest.mark.parametrize("network", full.first(["skipping", "late", 10, 53, "network", 74, 102, 106], 2))
def test_with_more_effort_no_way_is_faster(network: str | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways are tried; less effort may be slower, and no bound is above the fastest, that of many calls neither."""
    if isinstance(network, int):
        program = select(optimise(random_graph(network, stock=True)))
    else:
        program = {"network": PROGRAM, "skipping": SKIPS, "late": select(parse_graph(LATE))}[network]
    whole = plan(program)
    ways: list[tuple[int, int]] = []
    for way in _every(program, RowAnalysis(program, CALLS)):
        pieces = cut_into_stripes(program, way, CALLS)
        if pieces is not None:
            ways.append((pack(lifetimes(pieces)).nbytes, sum(costs_of(pieces, (), PROCESSOR).calls)))
    sizes = sorted({scratch for scratch, _ in ways if scratch < whole.scratch_bytes})
    for size in sizes[:: max(1, len(sizes) // 3)]:
        fastest = min(cycles for scratch, cycles in ways if scratch <= size)
        budget = Budget(PROCESSOR, size + len(whole.weights), policy=FetchPolicy.NEVER)
        fast = plan_within(program, budget)[1]
        exact = plan_within(program, replace(budget, effort=Effort.EXACT))[1]
        assert exact.cycles_bound == exact.planned_cycles == fastest <= fast.planned_cycles
        assert fast.cycles_bound <= fastest == fast.planned_cycles
        with monkeypatch.context() as patched:
            patched.setattr(depth_first, "EXHAUSTIVE_STEPS", 0)
            assert 0 < plan_within(program, budget)[1].cycles_bound <= fastest


def test_rows_that_nobody_reads_are_left_out_whatever_fits() -> None:
    whole = plan(SKIPS)
    sizes = range(2_816, whole.scratch_bytes, 384)
    budgets = [Budget(PROCESSOR, size + len(whole.weights), policy=FetchPolicy.NEVER) for size in sizes]
    taken = [plan_within(SKIPS, budget)[1].planned_cycles for budget in budgets]
    assert len(taken) > 4
    assert taken == sorted(taken, reverse=True)
    assert taken[0] < sum(costs_of(SKIPS, (), PROCESSOR).calls)


def test_a_bound_above_a_plan_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_first, "EXHAUSTIVE_STEPS", 0)
    monkeypatch.setattr(depth_first, "min_call_cycles", lambda *_: (10**6,) * len(SKIPS.calls))
    budget = Budget(PROCESSOR, 2_816 + len(plan(SKIPS).weights), policy=FetchPolicy.NEVER)
    with pytest.raises(InternalError, match=r"a plan takes 4,940 cycles, less than the lower bound of 4,000,000"):
        plan_within(SKIPS, budget)
    monkeypatch.setattr(depth_first, "STRICT", False)
    planned = plan_within(SKIPS, budget)[1]
    assert (planned.planned_cycles, planned.cycles_bound) == (4_940, 0)


def test_less_effort_may_be_slower_unless_calls_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    program = select(optimise(random_graph(91, stock=True)))
    budget = Budget(PROCESSOR, 1072 + len(plan(program).weights), policy=FetchPolicy.NEVER)
    exact = plan_within(program, replace(budget, effort=Effort.EXACT))[1]
    assert exact.planned_cycles == plan_within(program, budget)[1].planned_cycles
    monkeypatch.setattr(depth_first, "EXHAUSTIVE_STEPS", 0)
    assert exact.planned_cycles < plan_within(program, budget)[1].planned_cycles / 3


@pytest.mark.parametrize(("steps", "cycles"), [(0, 11_842), (300, 11_842), (3_000, 5_008), (10**6, 5_008)])
def test_in_less_steps_longer_chains_have_the_heights_of_less_effort(
    steps: int, cycles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = select(optimise(random_graph(510, stock=True)))
    monkeypatch.setattr(cascades, "STEPS", steps)
    chains = CascadeSearch(program, PROCESSOR, effort=Effort.EXACT)
    fastest = chains.within_live_bytes(480, None)
    assert fastest is not None
    assert fastest.cycles == cycles
    assert chains.is_exhaustive == (steps >= 3_000)
    assert not CascadeSearch(program, PROCESSOR).is_exhaustive


def test_a_search_that_was_cut_short_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth_first, "EXHAUSTIVE_STEPS", 0)
    monkeypatch.setattr(cascades, "STEPS", 1_000)
    program = select(optimise(random_graph(115, stock=True)))
    for sram in range(700, plan(program).scratch_bytes, 400):
        budget = Budget(PROCESSOR, sram + len(plan(program).weights), policy=FetchPolicy.NEVER)
        fast = plan_within(program, budget)[1]
        exact = plan_within(program, replace(budget, effort=Effort.EXACT))[1]
        assert exact.planned_cycles <= fast.planned_cycles
        assert exact.cycles_bound == fast.cycles_bound


def test_steps_are_calls_of_all_stripes_of_chains_shorter_ones_first() -> None:
    analysis = RowAnalysis(PROGRAM, CALLS)
    steps = {
        length: sum(
            length
            * (
                1
                if chain is None
                else 1 + 2 * sum(len(chain.stripes(h, cache_halo=False)) for h in range(1, chain.count))
            )
            for chain in (analysis.chain(first, first + length) for first in range(len(PROGRAM.calls) - length + 1))
        )
        for length in range(2, len(PROGRAM.calls) + 1)
    }
    total = 0
    for length, own in steps.items():
        total += own
        assert longest_exhaustive_chain(PROGRAM, total, CALLS) == length
        assert longest_exhaustive_chain(PROGRAM, total - 1, CALLS) == length - 1


def test_less_is_packed_than_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms: list[int] = []
    monkeypatch.setattr(CascadeSearch, "fastest", _counted(CascadeSearch.fastest, rooms))
    monkeypatch.setattr(depth_first, "LADDER_STEPS", 0)
    budget = Budget(PROCESSOR, 3_600, effort=Effort.EXACT)
    all_ = plan_within(PROGRAM, budget)[1]
    count = len(rooms)
    rooms.clear()
    monkeypatch.setattr(depth_first, "EXACT_PACKING_WORK", 0)
    some = plan_within(PROGRAM, budget)[1]
    assert len(rooms) == count // 2 + 1
    assert 0 < some.cycles_bound == all_.cycles_bound <= all_.planned_cycles <= some.planned_cycles


def _counted(fastest: Callable[..., Cut | None], rooms: list[int]) -> Callable[..., Cut | None]:
    """`CascadeSearch.fastest`, which notes the bytes that it is asked for."""

    def counted(chains: CascadeSearch, scratch: int, *others: int | None) -> Cut | None:
        rooms.append(scratch)
        return fastest(chains, scratch, *others)

    return counted


@pytest.mark.parametrize("policy", [FetchPolicy.AUTO, FetchPolicy.ALWAYS])
def test_the_bound_holds_where_weights_are_fetched(policy: FetchPolicy) -> None:
    for sram in (2_400, 3_600, 4_800):
        budget = Budget(PROCESSOR, sram, policy=policy)
        fast = plan_within(PROGRAM, budget)[1]
        exact = plan_within(PROGRAM, replace(budget, effort=Effort.EXACT))[1]
        assert fast.cycles_bound <= exact.cycles_bound <= exact.planned_cycles <= fast.planned_cycles


def test_what_fits_in_no_way_says_what_would() -> None:
    with pytest.raises(CapacityError) as caught:
        plan_within(PROGRAM, replace(BUDGET, sram=1_000))
    assert str(caught.value) == REFUSED
    budget = replace(BUDGET, sram=1664)
    _checked(*plan_within(PROGRAM, budget), budget)
