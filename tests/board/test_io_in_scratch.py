"""Inputs and outputs in the scratch of a program's only partition: planned, built, in firmware, on a board."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from tests import full, store
from tests.board.models import ENDS_BUDGET, ends_in_scratch, stripes

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.memory import DepthFirst, IoInScratch
from deuteron.board import boards, firmware_record, image, io_in_scratch, qemu
from deuteron.board.bundle import CONTEXT_BYTES
from deuteron.errors import CapacityError, OptionError
from deuteron.npu.neutron import partitions
from deuteron.npu.neutron.budget import budget
from deuteron.operators.program import Program
from deuteron.views.compare.pytorch import compare
from deuteron.views.simulate import open_build, simulate_build

BOARD = boards.load("an505")
ARCH = targets.load("imxrt700")
TARGETS = ("imxrt700", "imxrt700cm")


@pytest.fixture(scope="module")
def built() -> Path:
    return store.network(ends_in_scratch, "ends_in_scratch")


@pytest.mark.slow
@pytest.mark.parametrize("target", full.only(TARGETS, "imxrt700"))
def test_a_build_fits_only_with_its_ends_in_scratch(target: str) -> None:
    built = store.network(ends_in_scratch, "ends_in_scratch", target=target)
    opened = open_build(built)
    memory = opened.manifest.options.memory
    assert memory.io_in_scratch is IoInScratch.AUTO
    with pytest.raises(CapacityError):
        opened.replanner()(replace(memory, io_in_scratch=IoInScratch.NEVER))
    assert opened.replanner()(memory).sram_bytes == opened.checked().sram_bytes <= ENDS_BUDGET
    assert api.simulate(built).passed
    summary = list(api.plan(built).lines())
    assert not any("inputs, outputs and CPU tensors" in line for line in summary)
    assert any(": input" in line for line in summary)


@pytest.mark.slow
def test_an_error_asks_for_no_more_than_they_need_in_scratch(built: Path) -> None:
    opened = open_build(built)
    memory = opened.manifest.options.memory
    with pytest.raises(CapacityError) as caught:
        opened.replanner()(replace(memory, sram_budget=2_000))
    least = caught.value.needed
    assert least < ENDS_BUDGET
    assert f"or give `--sram-budget {least}` or more" in (caught.value.hint or "")
    assert opened.replanner()(replace(memory, sram_budget=least)).sram_bytes <= least


@pytest.mark.slow
def test_with_enough_memory_nothing_changes(built: Path) -> None:
    opened = open_build(built)
    memory = replace(opened.manifest.options.memory, sram_budget=1 << 16)
    replan = opened.replanner()
    plans = {io: replan(replace(memory, io_in_scratch=io)) for io in IoInScratch}
    programs = {io: plan.partitions[0].program for io, plan in plans.items()}
    assert programs[IoInScratch.AUTO].commands == programs[IoInScratch.NEVER].commands
    assert [programs[io].has_io_in_scratch for io in IoInScratch] == [False, True, False]
    never, always = (plans[io].sram_bytes for io in (IoInScratch.NEVER, IoInScratch.ALWAYS))
    assert always < never


@pytest.mark.slow
def test_what_fetches_weights_beside_them_is_compared_with_scratch(built: Path) -> None:
    opened = open_build(built)
    memory = replace(opened.manifest.options.memory, sram_budget=16_100, depth_first=DepthFirst.NEVER)
    programs = {io: opened.replanner()(replace(memory, io_in_scratch=io)).partitions[0].program for io in IoInScratch}
    assert any(command.fetched for command in programs[IoInScratch.NEVER].commands)
    assert [programs[io].has_io_in_scratch for io in IoInScratch] == [True, True, False]
    cycles = {io: program.totals(budget(ARCH, memory).engine).cycles for io, program in programs.items()}
    assert cycles[IoInScratch.AUTO] < cycles[IoInScratch.NEVER]


@pytest.mark.slow
def test_a_plan_beside_them_stays_where_none_with_them_is_found(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_build(built)
    memory = replace(opened.manifest.options.memory, sram_budget=5_600)
    beside = opened.replanner()(replace(memory, io_in_scratch=IoInScratch.NEVER)).partitions[0].program

    def refused(_: Program) -> Program:
        raise CapacityError("too large")

    monkeypatch.setattr(partitions, "by_planes", refused)
    assert opened.replanner()(memory).partitions[0].program.commands == beside.commands


@pytest.mark.slow
def test_where_they_cannot_lie_there_always_is_refused() -> None:
    opened = open_build(store.network(stripes, "stripes"))
    memory = replace(opened.manifest.options.memory, io_in_scratch=IoInScratch.ALWAYS)
    with pytest.raises(OptionError) as caught:
        opened.replanner()(memory)
    assert caught.value.message == (
        "inputs and outputs cannot lie in scratch, as `--io-in-scratch always` asks: they can where the program is one "
        "partition alone, and none of them is both"
    )
    assert caught.value.hint == (
        "leave it to `--io-in-scratch auto`, or quantizing to the application with `--remove-quant-io-ops`"
    )


@pytest.mark.slow
def test_a_simulation_in_another_budget_has_them_where_the_build_has(built: Path, tmp_path: Path) -> None:
    copied = copytree(built, tmp_path / "copied")
    manifest = (copied / "build.json").read_text()
    assert '"io_in_scratch": "auto"' in manifest
    (copied / "build.json").write_text(manifest.replace('"io_in_scratch": "auto"', '"io_in_scratch": "always"'))
    simulation = simulate_build(copied, sram_budget=1 << 16)
    assert simulation.partitions[0].program.has_io_in_scratch


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_firmware_has_them_there_and_gives_the_bits_of_the_host(target: str) -> None:
    built = store.network(ends_in_scratch, "ends_in_scratch", target=target)
    bundle = image.bundle_of(built)
    partition = bundle.delegates[0].partition
    assert all(place is not None for place in partition.places)
    assert [memory.note for memory in bundle.memories] == ["working memory of the partitions"]
    step = bundle.steps[0]
    for index, place in zip((*step.inputs, *step.outputs), partition.places, strict=True):
        assert (bundle.values[index].memory, bundle.values[index].offset) == (0, CONTEXT_BYTES + (place or 0))
    data = api.seeded_inputs(api.read_manifest(built), 2)
    assert replace(compare(built, data), outputs=()).failures() == ()
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(built, data)]
    firmware = store.firmware(built, BOARD)
    report = qemu.run(firmware, firmware_record.read(firmware), BOARD, data, time_out=300)
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted


@pytest.mark.slow
def test_what_has_no_place_stays_where_it_was(built: Path) -> None:
    bundle = image.bundle_of(built)
    assert io_in_scratch.is_alone(bundle)
    (delegate,) = bundle.delegates
    first, second = delegate.partition.places
    working = bundle.memories[-1]
    values = tuple(replace(value, memory=0, offset=64 * at) for at, value in enumerate(bundle.values))
    outside = replace(bundle, values=values, memories=(replace(working, bytes=1 << 14), working))

    def placed(places: tuple[int | None, ...]) -> list[tuple[int, int]]:
        own = replace(delegate, partition=replace(delegate.partition, places=places))
        return [(v.memory, v.offset) for v in io_in_scratch.placed(replace(outside, delegates=(own,))).values]

    assert placed((None, None)) == placed(()) == [(0, 0), (0, 64)]
    assert placed((first, None)) == [(1, CONTEXT_BYTES + (first or 0)), (0, 64)]
    assert placed((first, second)) == [(0, CONTEXT_BYTES + (place or 0)) for place in (first, second)]
    twice = replace(outside, steps=bundle.steps * 2)
    assert not io_in_scratch.is_alone(twice)
    assert io_in_scratch.placed(twice) is twice
