"""Firmware and bundles through the command line: what is written and said, and every refusal in its words."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests import store
from tests.runtime import models

from deuteron import api
from deuteron.board import firmware_record, report
from deuteron.board.flash import Flash
from deuteron.views.compare.board import Difference, HostComparison
from deuteron.views.run import board as on_board

from .conftest import Result

Run = Callable[..., Result]
pytestmark = pytest.mark.slow

FLASH = {"latency_ns": None, "bandwidth": None}


@pytest.fixture(scope="module")
def build() -> Path:
    """A build with two inputs and two outputs."""
    return store.network(models.two, "two")


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
        0, report.text(firmware_record.read(out)) + "\n", f"wrote `{out / 'firmware.elf'}` and 7 other files\n"
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
    assert (data["schema"], data["directory"], data["weights"]) == (10, str(out), "sram")
    assert data["options"] == {
        "kernels": "all", "weights": "sram", "io_copy": "dma", "stack": None, "flash": FLASH, "use_profiling": False,
        "arenas": "auto",
        "ethosu_driver": None,
        "harness": "semihost",
    }  # fmt: skip
    assert "neutron_kernel_selection.c" not in data["files"]
    result = deuteron(*more, "--diff", firmware, "--force")
    assert result.out == report.diff(firmware_record.read(firmware), firmware_record.read(out)) + "\n"


def test_a_stack_that_may_overflow_is_refused(build: Path, tmp_path: Path, deuteron: Run):
    given = ("firmware", build, "--board", "an505", "-o", tmp_path / "out", "--io-copy", "dma")
    result = deuteron(*given, "--stack", "1Ki")
    assert (result.code, result.out) == (1, "")
    assert not (tmp_path / "out").exists()
    first, deepest, *interrupts, _, hint = result.err.splitlines()
    enough = hint.rpartition(" ")[2].rstrip("`")
    assert first.startswith("error: the stack of `two` may take ")
    assert first.endswith(" B, but 1,024 B are reserved for it:")
    assert deepest.startswith("  deepest: dtn_reset ")
    assert interrupts
    assert hint == f"hint: reserve enough with `deuteron firmware ... --stack {enough}`"
    again = deuteron(*given, "--stack", enough, "--quiet")
    assert (again.code, again.err) == (0, "")
    stack = firmware_record.read(tmp_path / "out").stack
    assert first.split()[7] == f"{stack.bytes:,}"
    assert stack.bytes <= stack.available == int(enough) < stack.bytes + 8


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
    assert refused(build, "--board", "an547", "-o", out, "--io-copy", "dma") == (
        "error: the board `an547` has no DMA: only its cortex-m55 can copy inputs and outputs\n\nhint: use "
        "`--io-copy cpu`, or a board with a DMA: `an505`\n"
    )
    assert refused(build, "--board", "an505", "-o", out, "--stack", "0") == (
        "error: `--stack` is 0, it must be above 0 and below 2^32\n"
    )
    assert refused(build, "--board", "an505", "-o", firmware) == (
        f"error: `{firmware}` already exists\n\n"
        "hint: choose another output directory, or replace this one with `--force`\n"
    )
    assert refused(build, "--board", "an505", "-o", build, "--force") == (
        f"error: `{build}` has files but no `firmware.json`, so it is not replaced\n\nhint: choose another output "
        "directory, or empty this one yourself\n"
    )
    assert refused(firmware, "--board", "an505", "-o", out) == (
        f"error: `{firmware}` has no `build.json`\n\nhint: give a directory that `deuteron build MODEL -o DIR` has "
        "written\n"
    )
    assert refused(build, "--board", "an505", "-o", out, "--diff", build) == (
        f"error: `{build}` has no `firmware.json`\n\nhint: give a directory that `deuteron firmware DIR --board NAME "
        "-o OUT` has written\n"
    )


def test_the_override_in_an_image(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    elf = firmware / "firmware.elf"
    assert deuteron("kernels", "show", elf, "--check-override") == Result(
        1,
        "",
        f"error: `{elf.name}` copies inputs and outputs by the weak default, but an override of `dtn_io_copy` was "
        "requested\n\nhint: link the override as an object; or put its archive before the library, and before that "
        "`-Wl,-u,dtn_io_copy_start` or another hook that it defines: a linker takes from an archive only symbols "
        "that are still undefined\n",
    )
    assert deuteron("kernels", "show", build, "--check-override") == Result(
        2,
        "",
        f"error: `--check-override` checks an image, but `{build}` is something else: build directory\n\nhint: give "
        "the ELF file that the linker wrote\n",
    )
    out = tmp_path / "out"
    deuteron("firmware", build, "--board", "an505", "-o", out, "--io-copy", "dma", "--quiet")
    assert deuteron("kernels", "show", out, "--check-override") == deuteron("kernels", "show", out)


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
        2, "", "error: arenas cannot be in flash: programs write to them\n\nhint: choose `sram`, `external` or `tcm`\n"
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
    assert counts["flash"] == {"latency_ns": 200, "bandwidth": 400_000_000}
    shown = result.out.splitlines()[3:]
    assert shown[0] == "instructions of sample 0 on an505 (counted)"
    table = [line.split(maxsplit=1) for line in shown[1:-3]]
    events = [[f"{event['instructions']:,}", event["title"]] for event in run["events"]]
    rest = run["instructions"] - sum(event["instructions"] for event in run["events"])
    assert table == [*events, [f"{rest:,}", "executor"], [f"{run['instructions']:,}", "run"]]
    assert shown[-3] == f"once before the first run: {counts['init']:,} to check and prepare the program"
    assert shown[-1] == "flash: 200 ns, then 400,000,000 B/s"
    assert shown[-2] == f"stack: {run['stack_bytes']:,} B used of {counts['stack_bytes_available']:,} B"
    assert [event["kind"] for event in run["events"]][:2] == ["copy_in", "copy_in"]


def test_samples_on_a_board(build: Path, firmware: Path, deuteron: Run):
    counts = json.loads(deuteron("run", firmware, "--on", "an505", "--samples", "3", "--json").out)["counts"]
    totals = [run["instructions"] for run in counts["runs"]]
    assert len(totals) == 3
    shown = deuteron("run", firmware, "--on", "an505", "--samples", "3").out.splitlines()
    assert shown[-3] == f"samples 0 to 2: {min(totals):,} to {max(totals):,} a run"


def test_the_flash_of_an_emulator(build: Path, tmp_path: Path, deuteron: Run):
    out = tmp_path / "out"
    deuteron("firmware", build, "--board", "an505", "-o", out, "--flash-bandwidth", "2MB/s", "--quiet")
    assert firmware_record.read(out).flash == Flash(200, 2_000_000)

    def flash(*options: str) -> object:
        return json.loads(deuteron("run", out, "--on", "an505", *options, "--json").out)["counts"]["flash"]

    assert flash() == {"latency_ns": 200, "bandwidth": 2_000_000}
    assert flash("--flash-latency-ns", "7") == {"latency_ns": 7, "bandwidth": 2_000_000}
    shown = deuteron("run", out, "--on", "an505", "--flash-bandwidth", "0", "--flash-latency-ns", "0").out
    assert shown.splitlines()[-1] == "flash: 0 ns, then all at once"


def test_a_comparison_with_the_host(build: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch):
    assert deuteron("run", build, "--on", "an547", "--compare", "host", "--samples", "2") == Result(
        0, "an547 and the host give the same bits for 2 samples\n", ""
    )
    bad = HostComparison("an547", 1, (Difference(0, 1, 1, 4, (0, 2), 1.0, 2.0),))
    monkeypatch.setattr(on_board, "compare", lambda *args: bad)
    assert deuteron("run", "--on", "an547", "--compare", build) == Result(
        1,
        "sample 0  output 1  1 of 4 elements differ, first at [0, 2]: 1 on an547, 2 on the host\n"
        "an547 and the host differ\n",
        "",
    )


def test_a_comparison_of_firmware_with_the_host(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    given = ("run", firmware, "--on", "an505", "--compare", "host", "--build")
    assert deuteron(*given, build) == Result(0, "an505 and the host give the same bits for 1 sample\n", "")
    other = store.network(models.conv, "conv")
    ours, theirs = (api.read_manifest(path).files["model.pte"].sha256[:12] for path in (build, other))
    assert deuteron(*given, other) == Result(
        1,
        "",
        f"error: `{firmware}` was not made from `{other}`: its program has SHA-256 {ours}, that of the build has "
        f"{theirs}\n\nhint: give the build that it was made from, or build the firmware again\n",
    )


def test_runs_that_there_are_not(build: Path, firmware: Path, tmp_path: Path, deuteron: Run):
    def refused(*args: str | Path) -> str:
        result = deuteron("run", *args)
        assert (result.code, result.out) == (2, "")
        return result.err

    for reference in ("pytorch", "reference"):
        assert refused(build, "--on", "an505", "--compare", reference) == (
            f"error: a board is not compared with `{reference}`\n\n"
            "hint: use `--compare host` for the same bits, or `--compare float` for the board's error\n"
        )
    assert refused(firmware, "--on", "an505", "--compare", "host") == (
        f"error: `{firmware}` is firmware, which does not run on the host\n\n"
        "hint: give the build that it was made from with `--build DIR`\n"
    )
    assert refused(build, "--on", "an505", "--build", build) == (
        f"error: `--build` names the build of firmware, but `{build}` is a build itself\n\nhint: leave out `--build`\n"
    )
    assert refused(build, "--build", build) == ("error: `--build` is for boards\n\nhint: name a board with `--on`\n")
    assert refused(firmware, "--on", "an547") == (
        f"error: `{firmware}` is firmware for the board `an505`, not for `an547`\n\n"
        "hint: run it with `--on an505`, or build it for `an547`\n"
    )
    assert refused(build / "build.json", "--on", "an505") == (
        f"error: `{build / 'build.json'}` is a file, but a board needs a directory\n\nhint: give a directory of "
        "`deuteron build` or `deuteron firmware`\n"
    )
    assert refused(build, "--compare", "host") == (
        "error: this already runs on the host\n\nhint: name a board with `--on`\n"
    )
    assert refused(build, "--time-out", "3") == "error: `--time-out` is for boards\n\nhint: name a board with `--on`\n"
    assert refused(build, "--flash-bandwidth", "1MB/s") == (
        "error: the options about the flash are for boards\n\nhint: name a board with `--on`\n"
    )
    assert refused(build, "--on", "an505", "--flash-latency-ns", "-1") == (
        "error: `--flash-latency-ns` is -1, it must be at least 0 and below 2^32\n"
    )
    assert refused(build, "--on", "an505", "--target", "imxrt700") == (
        f"error: `{build}` is already compiled for a target\n\nhint: leave out `--target`\n"
    )


def test_what_ran_once_runs_again_and_is_compared_on_other_samples(build: Path):
    on_board = api.subject(build, on="an505")
    first, second = api.seeded_inputs(on_board.model, 1), api.seeded_inputs(on_board.model, 1, seed=1)
    outputs = on_board.run(first)
    assert all(np.array_equal(a, b) for a, b in zip(outputs[0], on_board.run(first)[0], strict=True))
    assert on_board.compare(second).passed
