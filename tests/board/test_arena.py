"""The memory of bundles, planned again: the same bytes in less memory, whole or in stripes, and its errors."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import getsource
from pathlib import Path

import numpy as np
import pytest
from tests import store
from tests.board import models
from tests.board.conftest import Built
from tests.board.host import HostFirmware
from tests.board.models import CPU_STRIPES_BUDGET, stripes_on_cpu
from tests.board.painted import OPERATORS, PAINT, painted
from tests.board.programs import Maker

from deuteron import api
from deuteron.arch.cores import Work
from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.board import boards, firmware_record, image, qemu
from deuteron.board.arena import check, planned
from deuteron.board.bundle import Bundle
from deuteron.board.firmware_record import Arenas, FirmwareOptions, StepInfo
from deuteron.board.link import link
from deuteron.board.tensor_bytes import to_bytes
from deuteron.board.toolchain import Source, Toolchain
from deuteron.board.translate import translate
from deuteron.builds import manifest as manifests
from deuteron.errors import CapacityError, OptionError
from deuteron.operators import operation_counts
from deuteron.runtime.program import TensorValue
from deuteron.views.events import tables, text
from deuteron.views.events.events import Clock, Event, Measure, SpanKind, Stream, Track
from deuteron.views.memory.arenas import ArenaPlanning, arena_planning
from deuteron.views.profile import subject as subjects

CORE = "cortex-m55"
WHOLE, LEAST = 13_824, 8_640
BUDGETS = 2
SUM_LINE = next(i for i, line in enumerate(getsource(models).splitlines(), 1) if "self.deep(x)) + x" in line)
"""The models of `models.py` whose networks are built here."""
STRIPE = "rows 0-5 in stripe 0 of chain 0"
ALWAYS = MemoryOptions(depth_first=DepthFirst.ALWAYS)
TCM = FirmwareOptions(arenas=Arenas.TCM)


@pytest.fixture(scope="module")
def build() -> Path:
    """A residual block and its neighbours, which fits only in stripes."""
    return store.network(stripes_on_cpu, "stripes_on_cpu", target=CORE)


@pytest.fixture(scope="module")
def bundle(build: Path) -> Bundle:
    """Its program with the memory that ExecuTorch has planned."""
    return image.translated(build, manifests.read(build))


def _run(
    build: Path, bundle: Bundle, firmware: HostFirmware, folder: Path, extra: Sequence[Path] = ()
) -> tuple[list[bytes], list[bytes]]:
    """Return the outputs of the bundle for an input, and those of ExecuTorch's runtime."""
    data = api.seeded_inputs(api.read_manifest(build), 1)
    given = [to_bytes(bundle.values[i], x) for x, i in zip(data[0], bundle.inputs, strict=True)]
    (wanted,) = api.run_each(build, data)
    return firmware.load(bundle, folder, extra=extra).run(given), [y.tobytes() for y in wanted]


@pytest.mark.full
@pytest.mark.slow
def test_stripes_compute_the_same_bytes(build: Path, bundle: Bundle, firmware: HostFirmware, tmp_path: Path) -> None:
    """In budgets drawn at random, of which no plan takes more; values beyond the memory would be refused at start."""
    drawn = np.random.default_rng(23).integers(LEAST, WHOLE, BUDGETS).tolist()
    for budget in (LEAST, *drawn, WHOLE):
        arena = planned(bundle, MemoryOptions(sram_budget=budget), CORE)
        assert arena.bundle.memories[0].bytes == arena.memory.nbytes <= budget
        assert bool(arena.chains) == (budget < WHOLE)
        ours, executorchs = _run(build, arena.bundle, firmware, tmp_path / str(budget))
        assert ours == executorchs, budget
    ours, executorchs = _run(build, planned(bundle, ALWAYS, CORE).bundle, firmware, tmp_path / "always")
    assert ours == executorchs


@pytest.mark.slow
@pytest.mark.parametrize("memory", [ALWAYS, MemoryOptions()], ids=["stripes", "whole"])
def test_a_plan_uses_no_more_than_it_says(
    build: Path, bundle: Bundle, memory: MemoryOptions, firmware: HostFirmware, tmp_path: Path
) -> None:
    """All else is painted before each step, and must be so after it; what is read of it is not the host's bytes."""
    painting = painted(planned(bundle, memory, CORE))
    assert sum(painting.operators[step.index] == PAINT for step in painting.steps) >= len(bundle.steps)
    ours, executorchs = _run(build, painting, firmware, tmp_path / "painted", [OPERATORS])
    assert ours == executorchs


@pytest.mark.slow
def test_painted_memory_tells_a_plan_that_says_too_little(
    build: Path, bundle: Bundle, firmware: HostFirmware, tmp_path: Path
) -> None:
    """One without its first block, which is painted over, and one without its last, which paints over the paint."""
    arena = planned(bundle, MemoryOptions(), CORE)
    blocks = sorted(arena.memory.blocks, key=lambda block: block.first)
    first, last = (replace(arena, memory=replace(arena.memory, blocks=each)) for each in (blocks[1:], blocks[:-1]))
    ours, executorchs = _run(build, painted(first), firmware, tmp_path / "first", [OPERATORS])
    assert ours != executorchs
    with pytest.raises(AssertionError, match="a CPU operator got unsupported values or parameters"):
        _run(build, painted(last), firmware, tmp_path / "last", [OPERATORS])


@pytest.mark.slow
@pytest.mark.full
def test_a_board_uses_no_more_than_a_plan_says(build: Path, bundle: Bundle, tmp_path: Path) -> None:
    board, toolchain = boards.load("an547"), Toolchain.find(image.OBJECTS)
    source = Source("test.painted", OPERATORS)
    painting = painted(planned(bundle, ALWAYS, CORE))
    firmware = firmware_record.read(store.firmware(build, board, TCM))
    link(painting, board, TCM, (), toolchain, tmp_path, extra=(source,))
    data = api.seeded_inputs(api.read_manifest(build), 1)
    titles = tuple(StepInfo(step.title, "") for step in painting.steps)
    report = qemu.run(tmp_path, replace(firmware, steps=titles), board, data)
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted


@pytest.mark.slow
def test_more_memory_never_takes_longer(bundle: Bundle) -> None:
    budgets = range(LEAST, WHOLE + 1, 192)
    arenas = [planned(bundle, MemoryOptions(sram_budget=budget), CORE) for budget in budgets]
    counts = [arena.instructions[0] for arena in arenas]
    assert counts == sorted(counts, reverse=True)
    assert len({(arena.memory.nbytes, arena.chains) for arena in arenas}) > 3


@pytest.mark.slow
def test_all_is_cut_on_request_into_the_least_that_is_found(bundle: Bundle) -> None:
    arena = planned(bundle, ALWAYS, CORE)
    assert (arena.memory.nbytes, arena.whole_bytes) == (LEAST, WHOLE)
    (chain,) = arena.chains
    assert (chain.calls, chain.stripes, chain.halo, chain.again) == (5, 2, 2, 0)


@pytest.mark.slow
def test_operators_that_nobody_has_counted_are_said(
    build: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = manifests.read(build)
    counted = ArenaPlanning("", manifest, planned(bundle, ALWAYS, CORE)).to_json()
    assert counted["uncounted"] == 0
    assert counted["instructions"] is not None
    monkeypatch.setattr(
        operation_counts, "WORKS", {**operation_counts.WORKS, "dtn_op_quantize_per_tensor": Work.UNKNOWN}
    )
    view = ArenaPlanning("", manifest, planned(bundle, ALWAYS, CORE))
    (line,) = (line for line in view.lines() if "depth first" in line)
    assert "MACs recomputed, at most +" in line
    assert line.endswith("% instructions (estimated): 1 operator without instruction counts")
    told = view.to_json()
    assert (told["instructions"], told["whole_instructions"], told["uncounted"]) == (None, None, 1)


@pytest.mark.slow
def test_whole_steps_stay_as_they_are(bundle: Bundle) -> None:
    arena = planned(bundle, MemoryOptions(), CORE)
    told = [(s.index, s.params, s.title, s.instruction) for s in arena.bundle.steps]
    assert told == [(s.index, s.params, s.title, s.instruction) for s in bundle.steps]
    assert arena.bundle.constants == bundle.constants
    assert arena.chains == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("memory", "text"),
    [
        (
            MemoryOptions(sram_budget=4096),
            "inputs, outputs and intermediate tensors need 8,640 bytes of SRAM, the budget is 4,096; the peak "
            "is at `cortex_m::quantize_per_tensor.out, node cortex_m_quantize_per_tensor_default`\n\n"
            "hint: make the tensors of that operator smaller (smaller input, fewer channels, earlier stride), or give "
            "`--sram-budget 8640`",
        ),
        (
            MemoryOptions(sram_budget=CPU_STRIPES_BUDGET, depth_first=DepthFirst.NEVER),
            f"models.py:{SUM_LINE}: x = torch.relu(self.deep(x)) + x: inputs, outputs and intermediate tensors "
            "need 13,824 bytes of SRAM, the budget is 10,240; the peak is at `cortex_m::quantized_add.out, node "
            "cortex_m_quantized_add_default`\n\n"
            "hint: make the tensors of that operator smaller (smaller input, fewer channels, earlier stride), or give "
            "`--sram-budget 13824`, or leave out `--depth-first never`",
        ),
    ],
    ids=["too small", "never"],
)
def test_what_does_not_fit_says_what_would(build: Path, memory: MemoryOptions, text: str) -> None:
    manifest = manifests.read(build)
    manifest = replace(manifest, options=replace(manifest.options, memory=memory))
    with pytest.raises(CapacityError) as refused:
        check((build / manifests.PROGRAM).read_bytes(), manifest)
    assert str(refused.value) == text


@pytest.mark.full
@pytest.mark.slow
def test_a_board_computes_the_same_in_its_own_memory_and_every_view_says_how(build: Path) -> None:
    assert api.plan(build).summary() == "SRAM: 9,408 B of 10,240 B; 1 chain depth first, 13,824 B without"
    plan = "\n".join(api.plan(build).lines())
    assert "SRAM: 9,408 B of 10,240 B, at most 9,408 B live at once\n" in plan
    assert "  depth first: 9,408 B instead of 13,824 B, 0 MACs recomputed, +0.5% instructions (estimated)\n" in plan
    assert (
        "    chain 0: 4 operators in 2 stripes of up to 6 rows, halo 0, 0 copies of kept rows, 0 MACs recomputed; "
        in plan
    )
    assert STRIPE in plan
    assert "       depth first, in 2 stripes of rows, with all of chain 0" in api.explain(build).lines()
    board = boards.load("an547")
    firmware = store.firmware(build, board, TCM)
    image_record = firmware_record.read(firmware)
    assert (image_record.arenas, image_record.sizes.reserved["arenas"]) == ("tcm", 0)
    assert image_record.sizes.reserved["arenas in tightly coupled memory"] == 9_408
    assert any(step.title.endswith(STRIPE) for step in image_record.steps)
    data = api.seeded_inputs(api.read_manifest(build), 1)
    report = qemu.run(firmware, image_record, board, data)
    wanted = [[y.tobytes() for y in outputs] for outputs in api.run_each(build, data)]
    assert [[y.tobytes() for y in run.outputs] for run in report.runs] == wanted


@pytest.mark.slow
def test_memory_of_the_cores_own_is_for_boards_that_have_it_and_programs_without_partitions(built: Built) -> None:
    toolchain = Toolchain.find(image.OBJECTS)
    with pytest.raises(OptionError) as refused:
        image.build(built("two"), boards.load("an505"), TCM, toolchain)
    assert str(refused.value) == (
        "the board `an505` has no tightly coupled memory: its data are in SRAM\n\nhint: leave out `--arenas tcm`, or "
        "use a board that has it: `an547`"
    )
    with pytest.raises(OptionError) as refused:
        image.build(built("two"), boards.load("an547"), TCM, toolchain)
    assert str(refused.value) == (
        "`two` has partitions for an NPU, which cannot access the core's tightly coupled memory\n\n"
        "hint: leave out `--arenas tcm`, or build the model for the CPU alone"
    )


@pytest.mark.slow
def test_a_profile_of_firmware_tells_the_chains_of_the_cpu(build: Path) -> None:
    event = Event(SpanKind.OPERATOR, Track.CPU, 0, 9, "cortex_m::quantized_add.out", index=4)
    stream = Stream(Clock("", 1_000_000_000, "ns"), Measure.COUNTED, 1, (event, replace(event, kind=SpanKind.RUN)))
    subject = replace(subjects.read(build), arena=arena_planning(build))
    profile = subjects.profile(subject, "an547", stream)
    assert list(text.depth_first(profile)) == [
        "cpu: depth first: 9,408 B instead of 13,824 B, 0 MACs recomputed, +0.6% instructions (estimated)",
        "cpu: chain 0: 4 operators in 2 stripes of up to 6 rows, halo 0, 0 copies of kept rows, 0 MACs recomputed; "
        f"models.py:{SUM_LINE} to models.py:{SUM_LINE + 1}",
    ]
    (part,) = tables.parts(profile)
    assert part.row.detail == f"models.py:{SUM_LINE}, in 2 stripes of chain 0"
    assert list(text.depth_first(subjects.profile(subjects.read(build), "host", stream))) == []


def test_tensors_over_the_same_bytes_stay_so() -> None:
    """A view without an operator: a read gives the written bytes, at any address."""
    make = Maker()
    x, y, z, other = (make.tensor((1, 16)) for _ in range(4))
    view = make.tensor((4, 4))
    tensor = make.values[y]
    assert isinstance(tensor, TensorValue)
    make.change(view, place=tensor.place)
    shape = make.value((1, 16))
    for source, target in ((x, y), (view, z), (z, other)):
        make.call("aten::view_copy.out", source, shape, target, target)
    arena = planned(translate(make.program((x,), (other,)), name="small"), MemoryOptions(), "cortex-m33")
    places = [(value.memory, value.offset) for value in arena.bundle.values]
    (_, written), (read, _) = ((step.inputs[0], step.outputs[0]) for step in arena.bundle.steps[:2])
    assert written != read
    assert places[written] == places[read]
    assert arena.memory.nbytes == 2 * 16
