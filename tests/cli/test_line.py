"""Boards at the end of a line, whose place a device in this process takes: what commands say, write and keep."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.board import harness_device
from tests.board.conftest import firmware
from tests.board.harness_device import Device, FaultyLine
from tests.board.host import HostFirmware
from tests.board.test_state import stream
from tests.runtime.crafted_programs import Crafted, number, placed, truth
from tests.runtime.crafted_programs import state as state_value

from deuteron import api
from deuteron.board import build_directory as directories
from deuteron.board import image
from deuteron.board.harness.client import Client
from deuteron.board.harness.program import BoardRun
from deuteron.board.harness.protocol import ALL_STEPS, Identity, RunResult
from deuteron.board.host_executor import HostExecutor
from deuteron.builds import manifest as manifests
from deuteron.views.run import line as lines
from deuteron.views.run.line import OnLine
from deuteron.views.run.line_report import Ran

from .conftest import Result

__all__ = ["firmware"]  # a fixture

Run = Callable[..., Result]
ON = ("--on", "serial:/dev/board")


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of a program with state, from its `.pte` file: `y = x + a + b; a = x + a; b = x`."""
    values = (
        number(1), placed(0), state_value(16, "inner.a"), placed(32), state_value(48, "b"), placed(64), truth(False),
    )  # fmt: skip
    calls = (
        ("call", "aten::add.out", 1, 2, 0, 3, 3),
        ("call", "aten::add.out", 3, 4, 0, 5, 5),
        ("call", "aten::copy_", 2, 3, 6, 2),
        ("call", "aten::copy_", 4, 1, 6, 4),
    )
    program = Crafted(values, calls, inputs=[1], outputs=[5], arena=80)
    path = tmp_path_factory.mktemp("line") / "summing.pte"
    path.write_bytes(program.data())
    return directories.build_directory(path, "cortex-m33")


@pytest.fixture(scope="module")
def board(build: Path, firmware: HostFirmware, tmp_path_factory: pytest.TempPathFactory) -> Device:
    sha256 = manifests.read(build).files[manifests.PROGRAM].sha256
    folder = tmp_path_factory.mktemp("device") / "device"
    return Device(firmware, image.bundle_of(build), folder, program=bytes.fromhex(sha256))


@pytest.fixture
def device(board: Device, monkeypatch: pytest.MonkeyPatch) -> Device:
    """The device, and what the commands open in its place."""
    board.start()
    board.restart_at(harness_device.NEVER)
    monkeypatch.setattr(lines, "open_line", lambda name, baud: FaultyLine(board))

    class Fast(Client):
        def __init__(self, line: FaultyLine, run_seconds: float = 60) -> None:
            super().__init__(line, seconds=2, start_seconds=2, run_seconds=run_seconds, first_wait=1e-3)

    monkeypatch.setattr(lines, "Client", Fast)
    return board


def inputs(folder: Path, count: int) -> tuple[list[list[np.ndarray]], Path]:
    """Samples, and a file with them."""
    samples = [[x.reshape(4)] for x in stream(count)]
    np.save(folder / "x.npy", np.stack([sample[0] for sample in samples]))
    return samples, folder / "x.npy"


def on_host(build: Path, samples: list[list[np.ndarray]], resets: tuple[int, ...]) -> np.ndarray:
    host = HostExecutor(image.bundle_of(build))
    outputs: list[np.ndarray] = []
    for i, sample in enumerate(samples):
        if i in resets:
            host.reset()
        outputs.append(host.run(sample)[0])
    return np.stack(outputs)


@pytest.mark.parametrize("resets", [(0,), (0, 3)])
def test_a_state_lasts_also_when_windows_run_in_turn(build: Path, device: Device, resets: tuple[int, ...]) -> None:
    """As with `--stream --stream INPUT=OUTPUT`: the board has the results of the host, also after restarts."""
    samples, _ = inputs(build.parent, 6)
    subject = api.subject(build, on="serial:/dev/board")
    subject.resets = resets

    def restarting():
        for i, sample in enumerate(samples):
            device.restart_at(1 if i in (2, 4) else harness_device.NEVER)
            yield sample

    ran = [outputs[0] for outputs in subject.run_in_turn(restarting())]
    assert np.stack(ran).tobytes() == on_host(build, samples, resets).tobytes()
    assert np.stack([run[0] for run in subject.run(samples)]).tobytes() == np.stack(ran).tobytes()
    assert "the board restarted 0 times" not in subject.text()


def test_outputs_of_finished_samples_are_written(
    build: Path, device: Device, tmp_path: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples, x = inputs(tmp_path, 8)

    class Restarting(lines.Client):
        def run(self, **options: object) -> RunResult:
            if device.runs - before >= 5:
                device.restart_at(0)
            return super().run(**options)

    monkeypatch.setattr(lines, "Client", Restarting)
    before = device.runs
    y = tmp_path / "y.npy"
    result = deuteron("run", build, *ON, "--input", x, "--output", y)
    assert result.code == 1
    assert result.err.startswith(f"wrote `{y}` with the 5 finished samples\n")
    assert "the board restarted 4 times, last in sample 5; 5 of 8 samples had finished" in result.err
    assert np.load(y).tobytes() == on_host(build, samples[:5], tuple(range(5))).tobytes()


def test_a_search_that_fails_keeps_the_comparison(
    build: Path, device: Device, tmp_path: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs differ, and the board restarts in each search: the report has the outputs, and exit status 1."""
    _, x = inputs(tmp_path, 2)
    device.damage_at(1, 3)

    class Restarting(lines.Client):
        def run(self, **options: object) -> RunResult:
            if options["stop"] != ALL_STEPS:
                device.restart_at(0)
            return super().run(**options)

    monkeypatch.setattr(lines, "Client", Restarting)
    try:
        result = deuteron("run", build, *ON, "--input", x, "--compare", "host")
    finally:
        device.damage_at(harness_device.NEVER, 0)
    assert (result.code, result.err) == (1, "")
    assert "the search for the first step that differs has failed: test line: the board restarted 4 times" in result.out
    assert "sample 0" in result.out


def test_a_reset_after_the_last_sample_is_refused(build: Path, tmp_path: Path, deuteron: Run) -> None:
    _, x = inputs(tmp_path, 3)
    words = "run", build, "--input", x, "--stream", "--reset"
    result = deuteron(*words, "3")
    assert (result.code, result.err) == (
        2,
        "error: `--reset 3` is after the last sample: there are 3 samples\n\n"
        "hint: give the number of a sample, 0 to 2\n",
    )


def test_a_comparison_reports_restarts(build: Path, device: Device, tmp_path: Path, deuteron: Run) -> None:
    _, x = inputs(tmp_path, 3)
    words = "run", build, *ON, "--input", x, "--compare", "host"
    device.restart_at(1)
    result = deuteron(*words)
    assert result.code == 0
    assert re.search(r"same bits for 3 samples\nline: .* sent again; the board restarted 1 time$", result.out.strip())
    device.restart_at(1)
    assert json.loads(deuteron(*words, "--json").out)["restarts"] == 1
    device.restart_at(harness_device.NEVER)
    assert "line:" not in deuteron(*words).out


def test_a_comparison_reports_the_samples_on_the_board(
    build: Path, device: Device, tmp_path: Path, deuteron: Run
) -> None:
    _, x = inputs(tmp_path, 3)
    result = deuteron("run", build, *ON, "--input", x, "--compare", "host", "-v")
    assert result.code == 0
    assert [line for line in result.err.splitlines() if line.startswith("running: ")] == [
        f"running: {i}/3 on host" for i in (1, 2, 3)
    ]


def test_the_blocks_of_large_tensors_are_reported(monkeypatch: pytest.MonkeyPatch, build: Path, device: Device) -> None:
    monkeypatch.setattr(lines, "_LARGE", 8)
    said: list[tuple[str, int, int]] = []
    subject = api.subject(build, on="serial:/dev/board")
    assert isinstance(subject, OnLine)
    subject.run([[x.reshape(4)] for x in stream(2)], lambda *step: said.append(step))
    assert said == [
        step
        for i in range(2)
        for step in (
            ("on host", i, 2),
            ("on host: input 0, 16 of 16 B", i, 2),
            ("on host: output 0, 16 of 16 B", i, 2),
            ("on host: events 0, 96 of 96 B", i, 2),
        )
    ]


def test_a_profile_has_a_time_limit(
    build: Path, device: Device, tmp_path: Path, deuteron: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a run that hangs names an option that the command has."""

    class Hanging(lines.Client):
        def run(self, **options: object) -> RunResult:
            device.sends = 0
            return super().run(**options)

    monkeypatch.setattr(lines, "Client", Hanging)
    try:
        result = deuteron("profile", build, *ON, "--time-out", "0.25", "-o", tmp_path / "profile")
    finally:
        device.sends = 1 << 16
    assert result.code == 1
    assert "the board did not end a run within 0.25 s" in result.err
    assert "raise the limit with `--time-out`" in result.err


@pytest.mark.parametrize("words", [(), ("--on", "host"), ("--on", "sim")])
def test_a_time_limit_is_for_boards(build: Path, deuteron: Run, words: tuple[str, ...]) -> None:
    result = deuteron("profile", build, *words, "--time-out", "1")
    assert result.code == 2
    assert re.search(r"`--time-out` is for boards, and the profile is of `(host|sim)`", result.err)


def test_events_that_did_not_fit_are_named(build: Path, device: Device) -> None:
    subject = api.subject(build, on="serial:/dev/board")
    assert isinstance(subject, OnLine)
    subject.run([[x.reshape(4)] for x in stream(1)])
    assert "executor, and" not in subject.text()
    ran = subject._ran
    assert ran is not None
    lost = BoardRun((), RunResult(0, 6, 0, 1000, 0, 2, 4), ((1, 0, 0, 10), (1, 1, 10, 20)))
    subject._ran = Ran((), ran.identity, [lost], 0, 0)
    assert "980  executor, and 4 steps without an event\n" in subject.text()
    assert subject.to_json()["counts"]["runs"][0]["lost_events"] == 4  # type: ignore[index]


def test_times_that_are_not_known_are_named(build: Path, device: Device) -> None:
    subject = api.subject(build, on="serial:/dev/board")
    assert isinstance(subject, OnLine)
    subject.run([[x.reshape(4)] for x in stream(1)])
    assert "warning" not in subject.text()
    ran = subject._ran
    assert ran is not None
    identity: Identity = ran.identity
    long = BoardRun((), RunResult(0, 6, 0, 0, 0, 0, 0, (1 << 32) / identity.ticks_hz), ())
    subject._ran = Ran((), identity, [long], 0, 0)
    assert "warning: times are not known: the run took 4294967.3 s by the host's clock" in subject.text()
