"""Firmware and bundles through the command line: what is written and said, and every refusal in its words."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.runtime import models

from deuteron import api
from deuteron.board import record, report, stack
from deuteron.board.agreement import Agreement, Difference
from deuteron.cli import run_on

from .conftest import Result

Run = Callable[..., Result]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build with two inputs and two outputs."""
    module, inputs, options = models.two()
    output = tmp_path_factory.mktemp("build") / "two"
    api.build(module, inputs, output=output, options=options, calibration=[inputs], name="two")
    return output


@pytest.fixture
def firmware(build: Path, tmp_path: Path, deuteron: Run) -> Path:
    """Firmware of it for the an505."""
    result = deuteron("firmware", build, "--board", "an505", "-o", tmp_path / "firmware", "--quiet")
    assert (result.code, result.err) == (0, "")
    return tmp_path / "firmware"


def test_what_is_written_and_said(build: Path, tmp_path: Path, deuteron: Run):
    out = tmp_path / "out"
    result = deuteron("firmware", build, "--board", "an547", "-o", out)
    assert result == Result(
        0, report.text(record.read(out)) + "\n", f"wrote `{out / 'firmware.elf'}` and 7 files beside it\n"
    )
    assert result.out.startswith("two on an547: selected kernels, weights in flash, inputs and outputs copied by cpu\n")
    assert {path.name for path in out.iterdir()} == {
        "dtn_bundle.c", "dtn_bundle.h", "dtn_bundle_data.S", "dtn_bundle_data.bin", "firmware.elf", "firmware.json",
        "firmware.map", "neutron_kernel_selection.c",
    }  # fmt: skip


def test_the_report_as_json_and_the_difference(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    out = tmp_path / "all"
    more = ("firmware", build, "--board", "an505", "-o", out, "--kernels", "all", "--io-copy", "dma", "-q")
    result = deuteron(*more, "--weights", "sram", "--json")
    data = json.loads(result.out)
    assert (data["schema"], data["directory"], data["weights"]) == (1, str(out), "sram")
    assert data["options"] == {"kernels": "all", "weights": "sram", "io_copy": "dma"}
    assert "neutron_kernel_selection.c" not in data["files"]
    result = deuteron(*more, "--diff", firmware, "--force")
    assert result.out == report.diff(record.read(firmware), record.read(out)) + "\n"


def test_a_stack_that_may_overflow_is_warned_of(
    build: Path, tmp_path: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(stack, "available", lambda elf: 1000)
    result = deuteron("firmware", build, "--board", "an505", "-o", tmp_path / "out")
    taken = record.read(tmp_path / "out").stack.bytes
    assert result.err.splitlines()[0] == (
        f"warning: the stack may take {taken:,} B of the 1,000 B kept for it: give the linker a larger "
        "`__dtn_stack_bytes`"
    )


def test_refusals_before_any_work(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    out = tmp_path / "new"

    def refused(*args: str | Path) -> str:
        result = deuteron("firmware", *args)
        assert result.code in (1, 2)
        assert result.out == ""
        assert not out.exists()
        return result.err

    assert refused(build, "--board", "an521", "-o", out).startswith("error: unknown board `an521`\n\nhint: the boards")
    assert refused(build, "--board", "an505", "-o", out, "--kernels", "some") == (
        "error: unknown value `some` of `--kernels`\n\nhint: choose one of `selected`, `all`\n"
    )
    assert refused(build, "--board", "an505", "-o", out, "--weights", "ram") == (
        "error: unknown value `ram` of `--weights`\n\nhint: choose one of `auto`, `flash`, `sram`, `external`\n"
    )
    assert refused(build, "--board", "an505", "-o", out, "--io-copy", "mpu") == (
        "error: unknown value `mpu` of `--io-copy`\n\nhint: choose one of `cpu`, `dma`\n"
    )
    assert refused(build, "--board", "an505", "-o", firmware) == (
        f"error: `{firmware}` already exists\n\n"
        "hint: choose another output directory, or replace this one with `--force`\n"
    )
    assert refused(build, "--board", "an505", "-o", build, "--force") == (
        f"error: `{build}` holds files but no `firmware.json`: it is not a build directory and is not replaced\n\n"
        "hint: choose another output directory, or empty this one yourself\n"
    )
    assert refused(firmware, "--board", "an505", "-o", out) == (
        f"error: `{firmware}` holds no `build.json`\n\n"
        "hint: give a directory that `deuteron build MODEL -o DIR` has written\n"
    )
    assert refused(build, "--board", "an505", "-o", out, "--diff", build) == (
        f"error: `{build}` holds no `firmware.json`\n\n"
        "hint: give a directory that `deuteron firmware DIR --board NAME -o OUT` has written\n"
    )


def test_a_bundle(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    out = tmp_path / "bundle"
    result = deuteron("bundle", build, "-o", out)
    names = (
        "dtn_bundle.c", "dtn_bundle.h", "dtn_bundle_data.S", "dtn_bundle_data.bin", "neutron_kernel_selection.c",
        "bundle.json",
    )  # fmt: skip
    assert result == Result(0, "", "".join(f"wrote `{out / name}`\n" for name in names))
    for name in names[:-1]:
        assert (out / name).read_bytes() == (firmware / name).read_bytes()
    result = deuteron("bundle", build, "-o", out, "--symbol", "net", "--kernels", "all", "--force", "--json", "-q")
    assert json.loads(result.out)["files"] == ["net.c", "net.h", "net_data.S", "net_data.bin", "bundle.json"]
    assert ".dtn_ext." not in (out / "net_data.S").read_text()
    deuteron("bundle", build, "-o", out, "--weights", "external", "--arenas", "external", "--force", "-q")
    assert ".dtn_ext." in (out / "dtn_bundle_data.S").read_text()
    assert deuteron("bundle", build, "-o", out) == Result(
        2,
        "",
        f"error: `{out}` already exists\n\nhint: choose another output directory, or replace this one with `--force`\n",
    )
    assert deuteron("bundle", build, "-o", tmp_path / "x", "--arenas", "flash") == Result(
        2, "", "error: memories cannot lie in flash: they are written to\n\nhint: choose `sram` or `external`\n"
    )


def test_a_run_on_a_board(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    (sample,) = api.seeded_inputs(api.read_manifest(build), 1, seed=5)
    for i, array in enumerate(sample):
        np.save(tmp_path / f"x{i}.npy", array)
    given = [arg for i in range(2) for arg in ("--input", tmp_path / f"x{i}.npy")]
    taken = [arg for i in range(2) for arg in ("--output", tmp_path / f"y{i}.npy")]
    result = deuteron("run", firmware, "--on", "an505", *given, *taken)
    assert result.code == 0
    assert result.err == "".join(f"wrote `{tmp_path / f'y{i}.npy'}`\n" for i in range(2))
    (wanted,) = api.run_each(build, [sample])
    for i, array in enumerate(wanted):
        assert np.load(tmp_path / f"y{i}.npy").tobytes() == array.tobytes()

    data = json.loads(deuteron("run", build, "--on", "an505", *given, "--json").out)
    assert [output["values"] for output in data["samples"][0]] == [array.tolist() for array in wanted]
    counts = data["counts"]
    assert (data["board"], counts["kind"], counts["unit"]) == ("an505", "counted", "instructions")
    (run,) = counts["runs"]
    shown = result.out.splitlines()[3:]
    assert shown[0] == "instructions of sample 0 on an505 (counted)"
    table = [line.split(maxsplit=1) for line in shown[1:-1]]
    events = [[f"{event['instructions']:,}", event["title"]] for event in run["events"]]
    rest = run["instructions"] - sum(event["instructions"] for event in run["events"])
    assert table == [*events, [f"{rest:,}", "executor"], [f"{run['instructions']:,}", "run"]]
    assert shown[-1] == f"stack: {run['stack_bytes']:,} B used of {counts['stack_bytes_available']:,} B"
    assert [event["kind"] for event in run["events"]][:2] == ["copy_in", "copy_in"]


def test_a_comparison_with_the_host(build: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    assert deuteron("run", build, "--on", "an547", "--compare", "host", "--samples", "2") == Result(
        0, "an547 and the host give the same bits for 2 samples\n", ""
    )
    bad = Agreement("an547", 1, (Difference(0, 1, 1, 4, (0, 2), 1.0, 2.0),))
    monkeypatch.setattr(run_on, "agree", lambda *args: bad)
    assert deuteron("run", "--on", "an547", "--compare", build) == Result(
        1,
        "sample 0  output 1  1 of 4 elements differ, first at [0, 2]: 1 on an547, 2 on the host\n"
        "an547 and the host differ\n",
        "",
    )


def test_runs_that_there_are_not(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    def refused(*args: str | Path) -> str:
        result = deuteron("run", *args)
        assert (result.code, result.out) == (2, "")
        return result.err

    assert refused(build, "--on", "an505", "--compare", "pytorch") == (
        "error: a board is compared with the host\n\nhint: use `--compare host`\n"
    )
    assert refused(firmware, "--on", "an505", "--compare", "host") == (
        f"error: `{firmware}` holds firmware, which does not run on the host\n\n"
        "hint: give the directory of the build that it was made from\n"
    )
    assert refused(firmware, "--on", "an547") == (
        f"error: `{firmware}` is firmware for the board `an505`, not for `an547`\n\n"
        "hint: run it with `--on an505`, or build it for `an547`\n"
    )
    assert refused(build / "model.pte", "--on", "an505") == (
        f"error: `{build / 'model.pte'}` is a file: what runs on a board is a directory\n\n"
        "hint: give one that `deuteron build` or `deuteron firmware` has written\n"
    )
    assert refused(build, "--compare", "host") == (
        "error: this runs on the host already\n\nhint: name a board with `--on`\n"
    )
    assert (
        refused(build, "--time-out", "3") == "error: `--time-out` is for emulators\n\nhint: name a board with `--on`\n"
    )
    assert refused(build, "--on", "an505", "--target", "imxrt700") == (
        f"error: `{build}` has been compiled for its target already\n\nhint: leave out `--target`\n"
    )
