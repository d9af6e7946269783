"""Layers run by Winograd's algorithm with weights that a run transforms, in memory that a plan has free."""

from dataclasses import replace

import pytest
from tests.board.test_larger_weights import CORE, LARGE, output, two_layers

from deuteron.arch.memory import DepthFirst, MemoryOptions, SpeedForFlash
from deuteron.board.arena import planned
from deuteron.board.bundle import Bundle
from deuteron.board.interleaved_weights import constant_bytes, inner_of
from deuteron.errors import CapacityError
from deuteron.operators.cortex_m import winograd_bytes

WINOGRAD = "dtn_cm_winograd_conv2d"


@pytest.mark.parametrize("sram", [None, 6144, 7168, 8192, 12288, 20480, LARGE])
def test_free_memory_makes_layers_faster_with_the_same_results(sram: int | None) -> None:
    bundle = two_layers()
    plan = planned(bundle, MemoryOptions(sram_budget=sram), CORE)
    assert plan.memory.nbytes <= (sram or planned(bundle, MemoryOptions(), "cortex-m3").memory.nbytes)
    assert output(plan.bundle) == output(bundle)
    assert plan.bundle.constants == bundle.constants
    assert (WINOGRAD in plan.bundle.operators) == bool(plan.transformed)
    for choice in plan.transformed:
        assert choice.saved > 0
        assert choice.scratch == winograd_bytes(choice.record)


def test_more_memory_is_never_slower() -> None:
    bundle = two_layers()
    plans = [planned(bundle, MemoryOptions(sram_budget=sram), CORE) for sram in (*range(6144, 20480, 512), LARGE)]
    work = [plan.instructions[0] for plan in plans]
    assert work == sorted(work, reverse=True)
    channels = {choice.record.channels for plan in plans for choice in plan.transformed}
    assert len(channels) > 1
    assert [choice.step for choice in plans[-1].transformed] == [1]
    assert work[-1] < 0.8 * work[0]


def shared_weights() -> Bundle:
    """Two layers with the same weights."""
    bundle = two_layers(channels=8)
    first, second = bundle.steps
    again = replace(second, inputs=(second.inputs[0], *first.inputs[1:]))
    return replace(bundle, steps=(first, again))


def test_all_readers_of_weights_change_or_none() -> None:
    bundle = shared_weights()
    for sram in range(6144, 20480, 256):
        plan = planned(bundle, MemoryOptions(sram_budget=sram), CORE)
        assert len(plan.transformed) in (0, 2)
        assert output(plan.bundle) == output(bundle)
    assert len(plan.transformed) == 2


def test_a_flash_budget_comes_first() -> None:
    plan = planned(two_layers(), MemoryOptions(flash_budget=LARGE, sram_budget=LARGE), CORE)
    assert len(plan.larger) == 2
    assert plan.transformed == ()
    need = constant_bytes(two_layers(), inner_of(CORE))
    plan = planned(two_layers(), MemoryOptions(flash_budget=need + 264, sram_budget=LARGE), CORE)
    assert [choice.steps for choice in plan.larger] == [(0,)]
    assert [choice.step for choice in plan.transformed] == [1]
    assert output(plan.bundle) == output(two_layers())


def test_not_on_other_cores_in_stripes_or_with_too_large_sums() -> None:
    large = MemoryOptions(sram_budget=LARGE)
    for core in ("cortex-m0plus", "cortex-m3", "cortex-m55"):
        assert planned(two_layers(), large, core).transformed == ()
    assert planned(two_layers(1 << 25), large, CORE).transformed == ()
    assert planned(two_layers(), replace(large, depth_first=DepthFirst.ALWAYS), CORE).transformed == ()
    assert planned(two_layers(), replace(large, speed_for_flash=SpeedForFlash.NEVER), CORE).transformed == ()
    with pytest.raises(CapacityError):
        planned(two_layers(), MemoryOptions(sram_budget=1024), CORE)
