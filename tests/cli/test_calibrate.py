"""`profile --on LINE` against estimates, and `calibrate` with such profiles."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests import store
from tests.board.serial_boards import SERIAL, emulated
from tests.board.test_ports import port_of_an505

from deuteron.arch import calibration, cores
from deuteron.arch.calibration import Measurement
from deuteron.board import boards, firmware_record, image
from deuteron.board.toolchain import Toolchain
from deuteron.builds import manifest as manifests
from deuteron.views.events import record as profiles
from deuteron.views.events.events import Measure
from deuteron.views.report import page

from .conftest import Result

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def profiled(deuteron: Run, build: Path, elf: Path, machine: str, *words: object) -> Result:
    with emulated(elf, boards.load(machine)) as line:
        return deuteron("profile", build, "--on", line, *words)


@pytest.fixture
def counted(deuteron: Run, tmp_path: Path) -> Path:
    """The profile of an emulated board, which counts instructions."""
    build, out = store.model("digits", target="cortex-m55"), tmp_path / "counted"
    elf = store.firmware(build, boards.load("an547"), SERIAL) / firmware_record.ELF
    assert profiled(deuteron, build, elf, "an547", "-o", out).code == 0
    return out


@pytest.fixture
def timed(deuteron: Run, tmp_path: Path) -> tuple[Path, Result]:
    """The profile of a board whose port says that its ticks are times, and what the command printed."""
    build, out = store.model("digits", target="cortex-m33"), tmp_path / "timed"
    board = boards.read_port(port_of_an505(tmp_path))
    image.write(image.build(build, board, SERIAL, Toolchain.find(image.OBJECTS)), tmp_path / "fw", force=False)
    return out, profiled(deuteron, build, tmp_path / "fw" / firmware_record.ELF, "an505", "-o", out, "--runs", "2")


def test_counts_are_compared_with_estimated_instructions(counted: Path) -> None:
    profile = profiles.read(counted)
    nodes = {node.name: node for node in manifests.read(store.model("digits", target="cortex-m55")).nodes}
    ops = manifests.read(store.model("digits", target="cortex-m55")).cpu_ops
    core = cores.load("cortex-m55")
    wanted = {
        i: core.instructions(node.work, node.elements, node.terms)
        for i, op in enumerate(ops)
        if (node := nodes.get(op.computes))
    }
    estimates = {each.index: each.ticks for each in profile.estimates}
    assert {i: ticks for i, ticks in estimates.items() if i in wanted} == {i: n for i, n in wanted.items() if n}
    assert profile.basis == ("estimates of the CPU: instructions of a cortex-m55",)
    assert '"ratio":' in page.html(profile)


def test_an_emulated_board_without_a_line_has_the_same_estimates(deuteron: Run, counted: Path, tmp_path: Path) -> None:
    build = store.model("digits", target="cortex-m55")
    assert deuteron("profile", build, "--on", "an547", "-o", tmp_path / "emulated").code == 0
    emulated_profile = profiles.read(tmp_path / "emulated")
    assert (emulated_profile.estimates, emulated_profile.basis) == (
        profiles.read(counted).estimates,
        profiles.read(counted).basis,
    )


def test_the_table_has_estimate_and_ratio(deuteron: Run, counted: Path) -> None:
    lines = deuteron("profile", counted, "--by", "kernel").out.splitlines()
    (head,) = (line for line in lines if line.endswith(" kernel"))
    assert head.split()[:5] == ["instr.", "share", "own", "estimate", "ratio"]
    first = next(line for line in lines if "quantized_conv2d" in line).replace(",", "").split()
    assert float(first[4]) == pytest.approx(int(first[2]) / int(first[3]), abs=0.006)
    (rows,) = (one["rows"] for one in json.loads(deuteron("profile", counted, "--by", "kernel", "--json").out))
    known = [row for row in rows if row["estimate"]]
    assert known
    assert all(row["ratio"] == row["own"] / row["estimate"] for row in known)
    (share,) = (line for line in lines if line.startswith("kernels and operators with an estimate took "))
    ratio = sum(row["own"] for row in known) / sum(row["estimate"] for row in known)
    assert share == f"kernels and operators with an estimate took {ratio:.2f} times their estimates"


def test_an_emulated_board_has_no_times_of_a_chip(deuteron: Run, counted: Path, home: Path) -> None:
    result = deuteron("calibrate", counted)
    assert result.code == 1
    assert result.err == (
        f"error: `{counted}` has no times of a chip: they are counted, on `an547`\n\n"
        "hint: give a profile of `deuteron profile BUILD --on serial:PORT` of a board\n"
    )
    assert not home.exists()


def test_measured_times_make_a_band(deuteron: Run, timed: tuple[Path, Result], tmp_path: Path) -> None:
    out, result = timed
    assert result.code == 0
    profile = profiles.read(out)
    assert (profile.on, profile.stream.measure) == ("my_board", Measure.MEASURED)
    assert profile.basis == ("estimates of the CPU: instructions of a cortex-m33, as cycles of 20 MHz",)
    made = deuteron("calibrate", out)
    (one,) = calibration.read()
    assert (one.board, one.target, one.processor, one.model) == ("my_board", "cortex-m33", "cpu", "digits")
    # The emulator executes 15.625 million instructions a second, where the port says 20 MHz.
    assert 0.9 < one.ratio / (20 / 15.625) < 1.2
    (band,) = calibration.bands()
    assert made.out.splitlines() == [
        f"cortex-m33: {band}",
        f"  {one.ratio:>6.2f}  digits for cortex-m33 on my_board, cpu",
    ]
    assert made.err == f"wrote `{calibration.path()}`\n"
    assert deuteron("calibrate").out == made.out
    listed = json.loads(deuteron("calibrate", "--json").out)
    assert [row["ratio"] for row in listed["measurements"]] == [one.ratio]
    # The next profile of the target has the band.
    build = store.model("digits", target="cortex-m33")
    again = profiled(deuteron, build, tmp_path / "fw" / firmware_record.ELF, "an505", "-o", tmp_path / "again")
    assert str(band) in again.out.splitlines()


def test_the_simulator_prints_the_band_of_the_npu(deuteron: Run, tmp_path: Path) -> None:
    build = store.model("digits", target="imxrt700")
    before = deuteron("sim", build).out
    npu = Measurement("board", "imxrt700", "npu", "digits", "ab", 1400, 1000, "1.0")
    calibration.add([npu, replace(npu, processor="cpu"), replace(npu, target="imxrt700cm")])
    lines = deuteron("sim", build).out.splitlines()
    own = "your `board` took 1.40 to 1.40 times the simulated or estimated time of the NPU, 1.40 by the geometric mean "
    assert [line for line in lines if line not in before.splitlines()] == [f"{own}of 1 measurement of yours"]
    assert own in deuteron("profile", build, "--on", "sim", "-o", tmp_path / "sim").out


def test_a_profile_of_the_host_is_refused(deuteron: Run, tmp_path: Path) -> None:
    build = store.model("digits", target="imxrt700")
    assert deuteron("profile", build, "--on", "host", "-o", tmp_path / "host").code == 0
    result = deuteron("calibrate", tmp_path / "host")
    assert result.code == 1
    assert "has no times of a chip: they are measured, on `host`" in result.err


def test_an_empty_file(deuteron: Run) -> None:
    assert deuteron("calibrate").err == f"`{calibration.path()}` has no measurements\n"


def test_a_file_that_is_no_profile(deuteron: Run, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("Timestamp(ms),Current(uA)")
    result = deuteron("calibrate", log)
    assert result.code == 1
    assert result.err.startswith(f"error: {log}: `log.csv` is not JSON: ")
    assert result.err.endswith("\n\nhint: give a profile of `deuteron profile DIR`\n")


def test_firmware_is_no_build_to_profile(deuteron: Run, tmp_path: Path) -> None:
    (tmp_path / firmware_record.FILE.name).touch()
    result = deuteron("profile", tmp_path, "--on", "tcp:127.0.0.1:1")
    assert result.code == 1
    assert result.err == (
        f"error: `{tmp_path}` is firmware, not a build\n\nhint: give the build that it was made from\n"
    )
