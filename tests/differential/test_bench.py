"""The bench around the check: every seed once, whatever becomes of the processes; the table and the JSON."""

import json
import os
from pathlib import Path

import pytest
from benches import differential
from tests.differential.check import Checked, Failure, Kind

CRASHES = 3


def work(seed: int) -> Checked:
    if seed == CRASHES:
        os.abort()
    checked = Checked()
    checked.kernels.append(str(seed))
    return checked


@pytest.mark.parametrize("jobs", [1, 3])
def test_every_seed_has_one_result_even_when_a_process_dies(jobs: int) -> None:
    found = dict(differential.results(range(10), jobs, work))
    assert sorted(found) == list(range(10))
    assert found.pop(CRASHES).failures == [Failure(Kind.CRASH, "the process ended with SIGABRT")]
    assert all(checked.kernels == [str(seed)] and not checked.failures for seed, checked in found.items())


def test_a_run_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "differential.json"
    assert differential.main(["--graphs", "12", "--seed", "40", "--json", str(path)]) == 0
    text = capsys.readouterr().out
    assert "measured against LiteRT, operator by operator" in text
    assert "12 graphs, " in text
    assert ", 0 failures; " in text
    results = json.loads(path.read_text())
    assert (results["graphs"], results["first_seed"], results["failures"]) == (12, 40, {})
    assert sum(results["kernels"].values()) > 50
    assert set(results["operators"]["conv2d"]) == {"count", "elements", "compared", "apart", "largest"}
