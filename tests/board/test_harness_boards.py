"""Boards at the end of a serial line, in the emulator: results, counts, and the step that goes wrong."""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests import full, store
from tests.board.serial_boards import SERIAL, emulated, linked

from deuteron import api
from deuteron.board import boards, firmware_record
from deuteron.board.image import bundle_of
from deuteron.board.tables import Tables
from deuteron.board.toolchain import Source
from deuteron.errors import BoardError, OptionError
from deuteron.runtime.inputs import Array, Sample
from deuteron.views.profile import on_board, on_line
from deuteron.views.profile import subject as builds
from deuteron.views.run.host import BuildOnHost
from deuteron.views.run.line import LineOptions, OnLine, _expected, expected_of_build
from deuteron.views.run.line_report import NPU_EMULATED
from deuteron.views.run.step_difference import Finding, StepDifference

HERE = Path(__file__).parent
PAIRS = [("digits", "imxrt700", "an505"), ("digits", "cortex-m55", "an547"), ("digits", "cortex-m7", "an500")] + [
    (example.name, target, board)
    for example in api.REFERENCES
    for target, board in (
        ("cortex-m33", "an505"),
        ("imxrt700", "an505"),
        ("cortex-m55", "an547"),
        ("ethos-u55-128", "an547"),
        ("cortex-m7", "an500"),
    )
    if (example.name, target) not in {("digits", "imxrt700"), ("digits", "cortex-m55"), ("digits", "cortex-m7")}
]


def subject(build: Path, line: str) -> OnLine:
    chosen = api.subject(build, on=line)
    assert isinstance(chosen, OnLine)
    return chosen


@pytest.mark.parametrize(("name", "target", "board"), full.first(PAIRS, 1))
def test_the_line_and_semihosting_give_the_same(name: str, target: str, board: str) -> None:
    """Outputs are equal; instructions of each step differ by at most 1, with which the counter is read."""
    build = store.model(name, target=target)
    by_files = api.subject(build, on=board)
    samples = by_files.draw(2)
    wanted = by_files.run(samples)
    image = store.firmware(build, boards.load(board), SERIAL)
    with emulated(image / firmware_record.ELF, boards.load(board), terminal=board == "an505") as line:
        by_line = subject(build, line)
        results = by_line.run(samples)
        profiled = on_line.profile(builds.read(build), LineOptions(line), samples[:1])
        of_image = OnLine(image, LineOptions(line))
        assert of_image.run(samples[:1])[0][0].tobytes() == results[0][0].tobytes()
    has_npu = bool(bundle_of(build).delegates)
    assert (NPU_EMULATED in by_line.text(), NPU_EMULATED in profiled.warnings) == (has_npu, has_npu)
    assert firmware_record.read(image).tables_crc == Tables.of(bundle_of(build)).crc
    assert [[y.tobytes() for y in sample] for sample in results] == [[y.tobytes() for y in sample] for sample in wanted]
    files, lines = (dict(each.to_json()["counts"])["runs"] for each in (by_files, by_line))
    for counted, run in zip(files, lines, strict=True):
        steps = [event["instructions"] for event in counted["events"] if event["kind"] == "step"]
        assert len(steps) == len(run["steps"])
        assert all(abs(a - step["instructions"]) <= 1 for a, step in zip(steps, run["steps"], strict=True))


def test_another_version_of_the_tables_is_refused_without_the_build(tmp_path: Path) -> None:
    """`firmware.json` has the checksum of the tables, and not only that of the `.pte`."""
    build, board = store.model("digits", target="cortex-m55"), boards.load("an547")
    firmware = firmware_record.read(store.firmware(build, board, SERIAL))
    assert _expected(None, None, firmware) == expected_of_build(build, bundle_of(build))


@pytest.mark.full
def test_a_board_without_an_emulator_is_run_on_its_line(tmp_path: Path) -> None:
    build = store.model("digits", target="cortex-m33")
    own = store.firmware(build, boards.load("pico2"), SERIAL)
    shutil.copytree(own, tmp_path, dirs_exist_ok=True)
    (tmp_path / firmware_record.FILE.name).write_text(
        firmware_record.FILE.to_json(replace(firmware_record.read(own), board="my_board"))
    )
    for path, on in ((build, "pico2"), (tmp_path, "an505"), (tmp_path, "my_board")):
        board = "pico2" if path == build else "my_board"
        with pytest.raises(OptionError, match=f"the board `{board}` is not emulated\n\nhint: .*`--on serial:PORT`"):
            api.subject(path, on=on)
    with pytest.raises(OptionError, match="the board `pico2` is not emulated"):
        on_board.profile(builds.read(build), "pico2", [])


@pytest.mark.parametrize("shift", [None, 5])
def test_an_emulator_with_other_counts_is_refused(shift: int | None) -> None:
    build, board = store.model("digits", target="cortex-m33"), boards.load("an505")
    own = store.firmware(build, board, SERIAL)
    with emulated(own / firmware_record.ELF, board, shift=shift) as line:
        chosen = subject(build, line)
        with pytest.raises(BoardError, match="the emulator of the board `an505` does not count instructions"):
            chosen.run(chosen.draw(1))


@pytest.mark.parametrize(
    ("defect", "place"),
    [(5, ""), (7, "; it happened at step 8, cortex_m::quantized_linear.out.*; 0 of 1 samples had finished")],
)
def test_a_fault_is_reported(tmp_path: Path, defect: int, place: str) -> None:
    """While the program is prepared, and in a run, with the step."""
    build, board = store.model("digits", target="cortex-m55"), boards.load("an547")
    source = Source("test.defect", HERE / "harness_defects.c", flags=(f"-DDEFECT={defect}", "-O2"))
    with emulated(linked(build, board, tmp_path, (source,)), board) as line:
        chosen = subject(build, line)
        with pytest.raises(BoardError, match=f"the processor stopped with a fault: .*Fault.*pc 0x.*{place}\n"):
            chosen.run(chosen.draw(1))


def compared(tmp_path: Path, defect: int, *flags: str) -> StepDifference | None:
    """The first difference of an image with a defect."""
    build, board = store.model("digits", target="cortex-m55"), boards.load("an547")
    source = Source("test.defect", HERE / "harness_defects.c", flags=(f"-DDEFECT={defect}", *flags, "-O2"))
    elf = linked(build, board, tmp_path, (source,))
    with emulated(elf, board) as line:
        chosen = subject(build, line)
        result = chosen.compare(chosen.draw(1))
    assert not result.passed
    return result.first


@pytest.mark.parametrize(
    ("defect", "finding", "step", "title", "written_by"),
    full.first(
        [
            (1, Finding.STEP, 3, "cortex_m::quantized_max_pool2d.out", -1),
            (2, Finding.INPUT, 4, "cortex_m::quantized_conv2d.out", 3),
            (6, Finding.CONSTANT, 4, "cortex_m::quantized_conv2d.out", -1),
            (3, Finding.CONSTANT, 8, "cortex_m::quantized_linear.out", -1),
        ],
        3,
    ),
)
def test_the_first_wrong_step_is_named(
    tmp_path: Path, defect: int, finding: Finding, step: int, title: str, written_by: int
) -> None:
    first = compared(tmp_path, defect)
    assert first is not None
    assert (first.finding, first.step, first.written_by) == (finding, step, written_by)
    assert first.title.startswith(title)
    assert "digits.py" in first.source


@pytest.mark.parametrize("delay", full.only([5_000, 20_000, 300_000, 0xFFFFFF], 0xFFFFFF))
def test_a_dma_that_ends_late_is_found_with_any_delay(tmp_path: Path, delay: int) -> None:
    """A short delay ends before the board is asked for the result, a long one after it has been read."""
    first = compared(tmp_path, 4, f"-DDELAY={delay}")
    assert first is not None
    early = (Finding.UNINTERRUPTED, 4), (Finding.SOMETIMES, 4)
    late = (Finding.STEP, 3), (Finding.UNSTABLE, 3)
    allowed = {5_000: early, 20_000: early, 0xFFFFFF: late}.get(delay, (*early, *late))
    assert (first.finding, first.step) in allowed
    assert any("DMA" in cause or "interrupt" in cause for cause in first.causes)


def test_a_reference_that_is_wrong_is_not_blamed_on_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of a comparison names the host, and no step."""
    build, board = store.model("digits", target="cortex-m55"), boards.load("an547")

    class Wrong(BuildOnHost):
        def run_each(self, samples: Iterable[Sample]) -> Iterator[list[Array]]:
            for outputs in super().run_each(samples):
                outputs[0].reshape(-1)[0] += 1
                yield outputs

    monkeypatch.setattr("deuteron.views.run.line.BuildOnHost", Wrong)
    with emulated(store.firmware(build, board, SERIAL) / firmware_record.ELF, board) as line:
        chosen = subject(build, line)
        result = chosen.compare(chosen.draw(1))
    assert not result.passed
    assert result.first is not None
    assert (result.first.finding, result.first.step) == (Finding.HOST, -1)
    assert "a defect of Deuteron: please report the build" in result.text()
