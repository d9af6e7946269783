"""`deuteron energy`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import store
from tests.runtime import models
from tests.views.test_energy import ppk2

from deuteron.board import boards, firmware_record

from .conftest import Result

Run = Callable[..., Result]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(ppk2(3))
    return path


def test_the_table_and_json(log: Path, deuteron: Run) -> None:
    result = deuteron("energy", log, "--run", "D0", "--step", "D1", "--volts", "3")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "energy of 3 runs (measured)",
        "  run: 6.600 µJ (6.600 to 6.600)",
        "  duration: 0.090 ms (0.090 to 0.090)",
        "  power between runs: 3.000 mW",
        "",
        "            µJ  share         ms  samples  step",
        "         1.800  27.3%     0.0300        3  0",
        "         4.500  68.2%     0.0500        5  1",
        "  steps that are shorter than the time between two samples may be missing; DIR tells how many there are",
        "  2 steps with fewer than 10 samples: raise the sampling rate to tell them apart",
    ]
    data = json.loads(deuteron("energy", log, "--run", "D0", "--step", "D1", "--volts", "3", "--json").out)
    assert (data["schema"], data["kind"], data["cut_runs"], data["unclear_runs"], len(data["runs"])) == (
        2,
        "measured",
        0,
        0,
        3,
    )
    assert data["joules"] == pytest.approx(6.6e-6)
    assert [(step["title"], step["samples"]) for step in data["steps"]] == [(None, 3), (None, 5)]


def test_missing_samples_are_reported(log: Path, deuteron: Run) -> None:
    header, *rows = ppk2(20).splitlines()
    log.write_text("\n".join([header, *rows[:6], *rows[40:]]))
    result = deuteron("energy", log, "--run", "D0", "--volts", "3")
    assert (result.code, result.err) == (
        0,
        f"warning: samples are missing in 1 place of `{log}`, 1 of them in runs; the longest is 0.00035 s after "
        "5e-05 s; the last sample before each counts for it\n",
    )


def test_steps_have_the_names_of_the_firmware(log: Path, deuteron: Run) -> None:
    firmware = store.firmware(store.network(models.two, "two"), boards.load("an505"))
    names = [info.title for info in firmware_record.read(firmware).steps]
    assert len(names) > 2
    levels = [(0, 0), *[(1, 1 - i % 2) for i in range(len(names))], (0, 0)]
    named = log.with_name("named.csv")
    named.write_text("\n".join(["time (s),current (A),D0,D1", *(f"{i},1,{a},{b}" for i, (a, b) in enumerate(levels))]))
    result = deuteron("energy", named, firmware, "--run", "D0", "--step", "D1", "--volts", "3")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()[6 : 6 + len(names)]
    assert all(line.endswith(f"  1  {i}: {names[i]}") for i, line in enumerate(lines))
    result = deuteron("energy", log, firmware, "--run", "D0", "--step", "D1", "--volts", "3")
    assert (
        f"warning: `D1` does not show all steps in 3 runs of 3 (most often 2 in a run, `{firmware}` has {len(names)}), "
        "and no step is shown: a step is shorter than" in result.err
    )
    result = deuteron("energy", named, firmware, "--run", "D1", "--step", "D0", "--volts", "3")
    assert "and no step is shown: `--run` and `--step` are swapped, a step is shorter than" in result.err
    longer = [(0, 0), *[(1, 1 - i % 2) for i in range(len(names) + 1)], (0, 0)]
    log.write_text("\n".join(["time (s),current (A),D0,D1", *(f"{i},1,{a},{b}" for i, (a, b) in enumerate(longer))]))
    result = deuteron("energy", log, firmware, "--run", "D0", "--step", "D1", "--volts", "3")
    assert f"most often {len(names) + 1} in a run, `{firmware}` has {len(names)})" in result.err
    assert f"is shown: `{firmware}` is of another program, or `D1` is not the pin of steps" in result.err
    result = deuteron("energy", log, firmware, "--run", "D0", "--volts", "3")
    assert (result.code, result.out) == (2, "")
    assert "names the steps of a run\n\nhint: give their pin too: `--step COLUMN`" in result.err
