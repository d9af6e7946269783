"""A model that fits only depth first, end to end: each view says so, and host and board give the same bits."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests import store
from tests.board.models import stripes, stripes_beside

from deuteron import api
from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.arena import arena_of, planned
from deuteron.board.bundle import StepKind
from deuteron.errors import CapacityError
from deuteron.runtime.inputs import Array
from deuteron.sweeps import worker
from deuteron.sweeps.lowering import SweptBuild
from deuteron.sweeps.spec import Point
from deuteron.views.compare.pytorch import compare
from deuteron.views.events import tables, text
from deuteron.views.simulate import open_build

BOARD = boards.load("an505")
STRIPE = "rows 0-8 in stripe 0 of chain 0"


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("target", ["imxrt700", "imxrt700cm"])
def test_a_model_that_fits_only_so_goes_all_the_way(target: str, tmp_path: Path) -> None:
    build = store.network(stripes, "stripes", target=target)
    manifest = api.read_manifest(build)
    memory = manifest.options.memory
    with pytest.raises(CapacityError):
        open_build(build).replanner()(replace(memory, depth_first=DepthFirst.NEVER))
    data = api.seeded_inputs(manifest, 1)
    assert replace(compare(build, data), outputs=()).failures() == ()
    _check_views(build, tmp_path / "profile")
    _check_board(build, data)


@pytest.mark.slow
@pytest.mark.full
def test_the_cpu_beside_an_npu_computes_in_stripes_between_its_partitions() -> None:
    build = store.network(stripes_beside, "stripes_beside", target="imxrt700cm")
    steps = image.bundle_of(build).steps
    kinds = [step.kind for step in steps]
    first, last = (at for at, kind in enumerate(kinds) if kind is StepKind.DELEGATE)
    cut = [at for at, step in enumerate(steps) if "in stripe " in step.title]
    assert cut[0] < first < cut[-1] < last
    plan = list(api.plan(build).lines())
    assert plan[1:3] == [
        "SRAM: 8,016 B inputs, outputs and CPU tensors + 352 B linked weights + 576 B largest partition = 8,944 B of "
        "9,216 B",
        "  depth first: 8,016 B instead of 9,504 B, 0 MACs recomputed, -0.6% instructions (estimated)",
    ]
    assert sum("in 2 stripes of rows, with all of chain 1" in line for line in api.explain(build).lines()) == 3
    data = api.seeded_inputs(api.read_manifest(build), 1)
    assert replace(compare(build, data), outputs=()).failures() == ()
    _check_board(build, data)


@pytest.mark.slow
@pytest.mark.full
def test_what_a_build_accepts_beside_partitions_is_within_the_budget_in_every_plan() -> None:
    """Replanned and in firmware; one partition has no weights, so that its block of them counts nowhere."""
    build = store.network(stripes_beside, "stripes_beside", target="imxrt700cm")
    opened = open_build(build)
    manifest, bundle, replan = opened.manifest, image.translated(build, opened.manifest), opened.replanner()
    accepted: dict[int, int] = {}
    for budget in (*range(7_840, 8_288, 16), *range(10_032, 10_112, 16)):
        memory = replace(manifest.options.memory, sram_budget=budget)
        with suppress(CapacityError):
            accepted[budget] = replan(memory).sram_bytes
        own = replace(manifest, options=replace(manifest.options, memory=memory))
        if budget < 8_224:  # what the build's own partitions need, which keep their weights
            with pytest.raises(CapacityError) as refused:
                arena_of(bundle, own)
            assert refused.value.message == (
                "inputs, outputs and intermediate tensors need 7,296 bytes of SRAM in addition to 928 of partitions, "
                f"the budget is {budget:,}; the peak is at `cortex_m::quantized_conv2d.out, node "
                "cortex_m_quantized_conv2d_default_2`"
            )
            assert refused.value.hint.endswith(", or give `--sram-budget 8224`")
        else:
            arena = arena_of(bundle, own)
            assert arena is not None
            assert arena.memory.nbytes + 352 + 576 <= budget
    assert min(accepted) == 7_872  # weights are fetched
    assert all(sram <= budget for budget, sram in accepted.items())
    assert [accepted[budget] for budget in (8_208, 8_224, 10_080)] == [7_872, 8_224, 10_080]


@pytest.mark.full
@pytest.mark.slow
def test_more_memory_is_never_slower_though_higher_stripes_may_be() -> None:
    """A network in which low stripes leave out unread rows that the highest fitting stripes compute."""
    build = store.network(stripes_beside, "stripes_beside", target="imxrt700cm")
    bundle = image.translated(build, api.read_manifest(build))
    budgets = (MemoryOptions(sram_budget=budget) for budget in range(7_296, 9_504, 96))
    taken = [planned(bundle, memory, "cortex-m33").instructions[0] for memory in budgets]
    assert taken == sorted(taken, reverse=True)
    assert taken[-1] < taken[0]


@pytest.mark.full
@pytest.mark.slow
def test_the_options_of_a_build_given_again_plan_the_same() -> None:
    build = store.network(stripes_beside, "stripes_beside", target="imxrt700cm")
    memory = api.read_manifest(build).options.memory
    again = api.simulate(build, effort=memory.effort, sram_budget=memory.sram_budget)
    assert [run.timeline for run in again.partitions] == [run.timeline for run in api.simulate(build).partitions]
    points = [Point(0, "", "imxrt700cm", sram_budget=budget) for budget in (None, memory.sram_budget, 7_856)]
    rows = worker.evaluate(SweptBuild(build, "", ""), points)
    assert isinstance(rows, list)
    assert [(row["fits"], row.get("sram_bytes")) for row in rows] == [(True, 8_944), (True, 8_944), (False, None)]


def _check_board(build: Path, data: Sequence[Sequence[Array]]) -> None:
    """Check that a board gives the host's bytes."""
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    firmware = store.firmware(build, BOARD)
    report = qemu.run(firmware, firmware_record.read(firmware), BOARD, data, time_out=300)
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted


def _check_views(build: Path, output: Path) -> None:
    """Check that every view says what runs depth first, of the same lines, and that the simulated run is sound."""
    simulation = api.simulate(build)
    assert simulation.passed
    (run,) = simulation.partitions
    chains = tuple(run.depth_first())
    assert chains[0].startswith("depth first: 6,272 B of scratch instead of 13,952 B, ")
    profile = api.profile(build, on="sim", output=output).profile
    assert set(text.summary(profile)) >= {f"npu 0: {sentence.strip()}" for sentence in chains}
    assert tables.with_lines(profile) == 1
    first = next(part for part in tables.parts(profile) if part.key[0] == "kernel" and STRIPE in part.row.detail)
    assert first.row.detail.endswith(f", {STRIPE}")
    assert {source.code for source in first.sources} == {"x = torch.relu(self.first(x))"}
    for view in (api.inspect(build), api.plan(build), simulation):
        assert STRIPE in "\n".join(view.lines())
    explained = list(api.explain(build).lines())
    assert "       depth first, in 3 stripes of rows, with all of chain 0" in explained
    assert f"       depth first, {chains[0].split(', ')[-1]}" in explained
    weights = [line for line in api.plan(build).lines() if ": weights of " in line]
    assert weights
    assert not any("stripe" in line for line in weights)
