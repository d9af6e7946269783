"""More memory never makes the plan of a small program slower."""

from dataclasses import replace
from itertools import pairwise

import pytest
from tests import full
from tests.graphs import random_graph
from tests.npu.neutron.machine.planned_programs import ENGINE, PROCESSOR, attention
from tests.planner.test_stripes import NETWORK

from deuteron.arch.memory import DepthFirst, Effort, FetchPolicy
from deuteron.errors import CapacityError
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.processor import NeutronProcessor
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators.program import Program
from deuteron.planner import Budget, check, cycles, plan, plan_within
from deuteron.planner.budget_ladder import ladder_budgets
from deuteron.planner.reserved_intervals import scratch_of
from deuteron.planner.weight_residency import prefetch

FAST = NeutronProcessor(replace(ENGINE, flash_bandwidth=400_000_000))
"""Rates of an imxrt700."""

PROGRAMS: dict[str, Program] = {
    "attention": attention(),
    "short attention": attention(4, 48),
    "convolutions": select(parse_graph(NETWORK)),
    "random": select(optimise(random_graph(3))),
}

BUDGETS = {
    "auto": Budget(FAST, 0),
    "fetched": Budget(PROCESSOR, 0, policy=FetchPolicy.ALWAYS),
    "nothing stays": Budget(FAST, 0, keep_resident=False),
    "whole": Budget(FAST, 0, depth_first=DepthFirst.NEVER),
    "in stripes": Budget(FAST, 0, depth_first=DepthFirst.ALWAYS),
}


def _ladder(program: Program, budget: Budget, count: int) -> list[int]:
    """So many budgets from the least that fits to what all takes as it is, and a little more."""
    whole = plan(program)
    most = whole.scratch_bytes + whole.constant_bytes
    try:
        least = plan_within(program, replace(budget, sram=16))[1].scratch_bytes
    except CapacityError as error:
        least = error.needed
    return [least + (most + 64 - least) * at // count for at in range(count + 1)]


def _taken(program: Program, budget: Budget) -> int:
    """Cycles of a run in a budget, of a plan in which nothing is wrong."""
    pieces, planned = plan_within(program, budget)
    check(pieces, planned)
    assert (
        planned.scratch_bytes + (planned.prefetch_bytes if planned.transfers else planned.constant_bytes) <= budget.sram
    )
    own = planned.prefetch
    if own is not None:
        room, scratch = budget.sram - planned.scratch_bytes, scratch_of(planned.packing.offsets)
        again = prefetch(pieces, budget.processor, room, scratch=scratch, keep_resident=budget.keep_resident)
        assert again is None or own.bound <= again.schedule.cycles
        assert own.proven == (own.bound == own.schedule.cycles)
    return cycles(pieces, planned, budget)


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize(
    "program",
    full.only(PROGRAMS.values(), *(PROGRAMS[name] for name in PROGRAMS if name != "short attention")),
    ids=PROGRAMS,
)
def test_more_memory_is_never_slower(program: Program, budget: Budget) -> None:
    taken = [_taken(program, replace(budget, sram=sram)) for sram in _ladder(program, budget, 16)]
    assert taken == sorted(taken, reverse=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", full.first(range(6), 2))
def test_more_memory_is_never_slower_for_random_programs(seed: int) -> None:
    program, budget = select(optimise(random_graph(seed, stock=seed % 2 == 0))), BUDGETS["fetched"]
    taken = [_taken(program, replace(budget, sram=sram)) for sram in _ladder(program, budget, 80)]
    assert taken == sorted(taken, reverse=True)


@pytest.mark.full
@pytest.mark.slow
def test_more_memory_is_never_slower_by_the_smallest_step() -> None:
    program, budget = PROGRAMS["attention"], BUDGETS["auto"]
    taken = [_taken(program, replace(budget, sram=sram)) for sram in range(3_216, 9_600, 16)]
    assert taken == sorted(taken, reverse=True)


@pytest.mark.parametrize("sram", [3_216, 3_840, 4_928, 7_680])
def test_more_effort_is_no_slower(sram: int) -> None:
    program, budget = PROGRAMS["attention"], Budget(FAST, sram)
    assert _taken(program, replace(budget, effort=Effort.EXACT)) <= _taken(program, budget)


def test_a_larger_budget_has_all_that_count_for_a_smaller_one() -> None:
    for sram in (0, 16, 100, 1_000, 4_095, 4_096, 8_191, 8_192, 10_000):
        first, *others = ladder_budgets(4_090, sram)
        assert first > sram or (first == 8_192 and sram >= first)
        assert others == [rung for rung in ladder_budgets(4_090, 1 << 20) if rung <= sram and rung < 8_192]
        for above, below in pairwise((first, *others)):
            assert below < above
            assert above == 8_192 or above - below <= max(16, above // 64)
