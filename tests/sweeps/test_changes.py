"""Changes between two runs of a sweep, failures in one of them, and commands that make figures again."""

import json
import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.sweeps.conftest import POINTS

from deuteron import api
from deuteron.builds import manifest as manifests
from deuteron.cli.app import app
from deuteron.cli.printer import Printer
from deuteron.errors import InputError, OptionError
from deuteron.npu.neutron.program import NeutronProgram
from deuteron.npu.timeline import Hazard
from deuteron.sweeps import dataset, lowering, run, worker
from deuteron.sweeps.pareto import Table
from deuteron.sweeps.worker import Row
from deuteron.views.simulate import simulate_build

TARGET = ["imxrt700"]


@pytest.fixture(scope="module")
def builds(whole: Path) -> dict[str, Path]:
    """The builds of the sweep, by model."""
    rows = [row for row in dataset.rows(whole) if row["fits"]]
    return {str(row["model"]): whole / str(row["command"]).split()[2] for row in rows}


def swept(directory: Path, *models: Path, **axes: Any) -> list[Row]:
    """The rows of a sweep in this process."""
    api.sweep({"models": [str(path) for path in models], "targets": TARGET, **axes}, directory, workers=1)
    return dataset.rows(directory)


def test_models_that_change_and_one_that_was_not_there(folder: Path, builds: dict[str, Path], tmp_path: Path) -> None:
    model, late, directory = tmp_path / "a.tflite", tmp_path / "late.tflite", tmp_path / "sweep"
    shutil.copy(folder / "small.tflite", model)
    before = swept(directory, model, late)
    small, large = (simulate_build(builds[f"{name}.tflite"]).cycles for name in ("small", "large"))
    assert [(row["number"], row["cycles"]) for row in before] == [(0, small), (1, None)]
    assert before[1]["why"] == f"`{late}` does not exist"
    shutil.copy(folder / "large.tflite", model)
    shutil.copy(folder / "small.tflite", late)
    assert [(row["number"], row["cycles"]) for row in swept(directory, model, late)] == [(0, large), (1, small)]


def test_a_build_that_is_made_again_in_its_place(builds: dict[str, Path], tmp_path: Path) -> None:
    build = tmp_path / "mine"
    for name in ("small.tflite", "large.tflite"):
        shutil.rmtree(build, ignore_errors=True)
        shutil.copytree(builds[name], build)
        (row,) = swept(tmp_path / name, build, sram_budget=["1Mi"])
        assert row["cycles"] == simulate_build(builds[name], sram_budget=1 << 20).cycles


def test_presets_and_packages_make_another_deuteron(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__init__.py").touch()
    preset = tmp_path / "chip.toml"
    preset.write_text("clock = 1")
    monkeypatch.setattr(lowering.deuteron, "__file__", str(tmp_path / "__init__.py"))
    seen = {lowering.fingerprint.__wrapped__()}
    preset.write_text("clock = 2")
    seen.add(lowering.fingerprint.__wrapped__())
    monkeypatch.setattr(lowering.metadata, "version", lambda _: "9.9")
    seen.add(lowering.fingerprint.__wrapped__())
    assert len(seen) == 3


def test_what_goes_wrong_once_is_no_row(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is a row, and stays; anything else ends the sweep after all other points, and is tried again."""
    told = {"kind": "InputError", "message": "RuntimeError: not now", "where": "net.py"}
    started: list[str] = []

    def build(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        started.append(command[-1])
        Path(command[command.index("build") - 1]).write_text(json.dumps(told))
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(subprocess, "run", build)
    models = tmp_path / "net.py:net", folder / "small.tflite"
    for count in (1, 2):
        with pytest.raises(InputError) as error:
            swept(tmp_path / "sweep", *models)
        assert str(error.value) == (
            f"`{models[0]}` on `imxrt700` could not be evaluated: net.py: RuntimeError: not now\n\n"
            "hint: all other points are written: fix this, and run the same command again to continue"
        )
        assert [row["number"] for row in dataset.rows(tmp_path / "sweep")] == [1]
        assert len(started) == count
    told |= {"kind": "UnsupportedError", "message": "nothing runs it"}
    for _ in range(2):
        assert swept(tmp_path / "sweep", *models)[0]["why"] == "net.py: nothing runs it"
    assert len(started) == 3


@pytest.mark.full
def test_names_that_are_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hint = "hint: `models` and `evaluate` name files"
    for name, told in {
        "x" * 300: f"`'{'x' * 59}` cannot be read: File name too long",
        "a\0b": "`'a\\x00b'` cannot be read: it has a null byte",
    }.items():
        with pytest.raises(InputError) as error:
            api.sweep({"models": name, "targets": TARGET}, "sweep", workers=1)
        assert str(error.value) == f"{told}\n\n{hint}"
        shutil.rmtree("sweep")
    with pytest.raises(InputError) as error:
        api.sweep({"models": "-h", "targets": TARGET}, "sweep", workers=1)
    assert error.value.message == (
        "`-h` on `imxrt700` could not be evaluated: `-h` is neither an example model nor of the form `file.py:function`"
    )


def test_an_unsound_program_does_not_fit(
    builds: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker._planned.cache_clear()
    monkeypatch.setattr(NeutronProgram, "hazards", lambda *_: (Hazard(0, "weights are overwritten"),))
    (row,) = swept(tmp_path / "sweep", builds["small.tflite"])
    worker._planned.cache_clear()
    assert (row["fits"], row["cycles"]) == (False, None)
    assert str(row["why"]).startswith("the program is wrong: ")
    assert "weights are overwritten" in str(row["why"])


@pytest.mark.full
def test_commands_give_the_figures_again(
    folder: Path,
    builds: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those of a TFLite file, a build, a build in a folder of the name `builds`, and a program in its build."""
    places = [tmp_path / "mine", tmp_path / "builds" / "other", tmp_path / "around"]
    for place in places:
        shutil.copytree(builds["large.tflite"], place)
    models = [folder / "large.tflite", *places[:2], places[2] / "model.pte"]
    asked: dict[str, Any] = {"fetch_constants_to_sram": ["always"], "effort": ["fast"], "weights_budget": ["4Ki"]}
    directory = tmp_path / "sweep"
    asked |= {"flash_bandwidth": ["20MB/s"], "clock": ["150M"]}
    for number, axes in enumerate((dict[str, Any](), asked)):
        rows = swept(directory / str(number), *models, **axes)
        assert all(row["fits"] for row in rows), [row["why"] for row in rows]
        monkeypatch.chdir(directory / str(number))
        for row in rows:
            capsys.readouterr()
            arguments = [*shlex.split(str(row["command"]))[1:], "--json"]
            assert app.main(arguments, prog_name="deuteron", standalone_mode=False, obj=Printer()) == 0
            told = json.loads(capsys.readouterr().out)
            assert told["cycles"] == row["cycles"]
    assert rows[0]["fetched_bytes"]
    assert not Path(str(rows[1]["command"]).split()[2]).is_absolute()


def test_a_cpu_alone(builds: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build for a chip with an NPU that runs nothing there: the chip's clock counts; no command tells a time."""
    manifest = replace(manifests.read(builds["small.tflite"]), partitions=())
    monkeypatch.setattr(worker, "_opened", lambda _: manifest)
    monkeypatch.setattr(worker, "_cpu_cycles", lambda _: 324_000)
    (row,) = swept(tmp_path / "known", builds["small.tflite"])
    assert (row["latency_us"], row["bound"], row["command"]) == (1000.0, "CPU", None)
    (row,) = swept(tmp_path / "asked", builds["small.tflite"], clock=["64800k"])
    assert row["latency_us"] == 5000.0
    (row,) = swept(tmp_path / "budget", builds["small.tflite"], sram_budget=["1Mi"])
    assert (row["latency_us"], row["ignored"]) == (1000.0, "sram_budget")


def test_times_that_are_not_whole_compete_among_themselves(whole: Path, tmp_path: Path) -> None:
    (tmp_path / dataset.POINTS).mkdir()
    shutil.copy(whole / dataset.NAME, tmp_path)
    base = next(row for row in dataset.rows(whole) if row["fits"])
    times = [(300.0, 600.0), (400.0, None), (500.0, None), (300.0, 700.0)]
    rows: list[Row] = [
        {**base, "number": number, "npu_us": npu, "cpu_us": cpu, "latency_us": None if cpu is None else npu + cpu}
        for number, (npu, cpu) in enumerate(times)
    ]
    dataset.append(tmp_path, "0.parquet", rows)
    shown = api.sweep_table(tmp_path)
    assert [row["number"] for row in shown.best] == [0, 1]
    assert [line.split()[1] for line in shown.lines() if line[:8].strip().isdigit()] == ["900.0", ">400.0"]
    assert api.sweep_table(tmp_path, at_most=500).best == ()
    for limit, said in ((-3000, "-3"), (0, "0"), (float("nan"), "nan")):
        with pytest.raises(OptionError) as caught:
            api.sweep_table(tmp_path, at_most=limit)
        assert str(caught.value) == (
            f"`--at-most` is {said} ms, it must be above 0\n\nhint: give the maximum time of a run"
        )


def test_points_without_a_time_hide_none_that_have_one(whole: Path, tmp_path: Path) -> None:
    """A CPU alone with an unknown clock or operators takes no time on an NPU, which is not a short time."""
    (tmp_path / dataset.POINTS).mkdir()
    shutil.copy(whole / dataset.NAME, tmp_path)
    base = next(row for row in dataset.rows(whole) if row["fits"]) | {"cpu_us": None, "latency_us": None}
    alone: Row = {"npu_us": 0.0, "bound": "CPU", "target": "cortex-m55", "sram_bytes": 1, "flash_bytes": 1}
    points: list[Row] = [
        {"npu_us": 400.0},
        {**alone, "cycles": 500},
        {**alone, "cycles": 600},  # slower, whatever the clock is
        {**alone, "cycles": 400, "target": "cortex-m33", "sram_bytes": 2},
        {**alone, "cycles": None},
        {"npu_us": 300.0, "cpu_us": 9.0, "latency_us": 309.0},
    ]
    rows: list[Row] = [{**base, "number": number, **point} for number, point in enumerate(points)]
    dataset.append(tmp_path, "0.parquet", rows)
    shown = api.sweep_table(tmp_path)
    assert [row["number"] for row in shown.best] == [5, 0, 3, 1, 4]
    lines = [*shown.lines()]
    assert [line.split()[1] for line in lines if line[:8].strip().isdigit()] == ["309.0", ">400.0", "-", "-", "-"]
    assert lines[2:5] == [
        "1 point that fits has the time of the NPU alone (>), as a CPU operator has no cycle count or, with an "
        "Ethos-U, the CPU's clock is unknown: it is compared with such alone",
        "3 points that fit have no time, as the clock of cortex-m55, cortex-m33 is unknown (give `clock`): they are "
        "compared with such on the same target alone",
        "1 point that fits has no time, as a CPU operator has no cycle count: it is compared with such on the same "
        "target alone",
    ]
    assert [*api.sweep_table(tmp_path, at_most=1).lines()][2:5] == lines[2:5]


def test_what_is_ignored_is_told_of_those_that_ignore_it(whole: Path) -> None:
    base = next(row for row in dataset.rows(whole) if row["fits"])
    points = [("cpu", "sram_budget"), ("npu", ""), ("mixed", "sram_budget"), ("mixed", "")]
    rows: list[Row] = [
        {**base, "number": number, "model": model, "ignored": ignored, "sram_budget": number}
        for number, (model, ignored) in enumerate(points)
    ]

    def told(*numbers: int) -> list[str]:
        shown = tuple(rows[number] for number in numbers)
        return [line for line in Table("d", shown, shown, None).lines() if "nothing there" in line]

    assert told(0) == ["imxrt700: without sram budget, which changes nothing there"]
    assert told(0, 1) == ["cpu on imxrt700: without sram budget, which changes nothing there"]
    assert told(0, 1, 2, 3) == [
        "cpu on imxrt700, some points of mixed on imxrt700: without sram budget, which changes nothing there"
    ]
    rows[1] |= {"fits": False, "why": "it is not"}  # says nothing of what it would have ignored
    assert Table("d", (rows[0], rows[1]), (rows[0],), None).ignored() == {"sram_budget": ["imxrt700"]}


def test_shards_are_not_larger_than_a_worker_can_lose(
    folder: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leftovers of a killed process are removed from the builds; each shard is on the disk before it has its name."""
    monkeypatch.setattr(run, "LARGEST", 3)
    (tmp_path / "sweep" / "builds" / ".left" / "build").mkdir(parents=True)
    synced: list[int] = []
    monkeypatch.setattr(dataset.os, "fsync", synced.append)
    api.sweep(folder / "sweep.toml", tmp_path / "sweep", workers=1)
    shards = dataset.written(tmp_path / "sweep")
    assert len(shards) > 2 * len(dataset.written(whole))
    assert len(synced) == len(shards) + 1
    kept = [{**row, "command": None} for row in dataset.rows(tmp_path / "sweep")]
    assert kept == [{**row, "command": None} for row in dataset.rows(whole)]
    assert len(kept) == POINTS
    assert not (tmp_path / "sweep" / "builds" / ".left").exists()
