"""Campaigns of commands on the workers of a scheduler: the same comes of them as without one."""

import json
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from benches import differential, fuzzing
from conformance import __main__ as suites
from conformance import part as parts
from conformance.backends import BACKENDS
from conformance.suite import Job, Result, Suite
from rich.console import Console

from deuteron.errors import InputError
from deuteron.sweeps.campaign import PYTHON, REPORT, CampaignCommand, CommandResult, campaign

WRITES = "import sys; print(sys.argv[2]); open(sys.argv[1], 'w').write(sys.argv[2]); sys.exit(int(sys.argv[2]) % 2)"


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a scheduler with two workers, in this process."""
    distributed: Any = import_module("distributed")
    options = {"dashboard_address": None, "scheduler_kwargs": {"dashboard": False}}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, **options) as cluster:
        yield cluster.scheduler_address


def commands(folder: Path, count: int) -> list[CampaignCommand]:
    return [CampaignCommand(f"p{n}", (PYTHON, "-c", WRITES, REPORT, f"{n}"), folder) for n in range(count)]


def test_parts_have_the_same_results_wherever_they_run(scheduler: str, tmp_path: Path) -> None:
    there = {part.name: ended for part, ended in campaign(commands(tmp_path, 5), scheduler)}
    here = {part.name: ended for part, ended in campaign(commands(tmp_path, 5), None, 1)}
    assert there == here == {f"p{n}": CommandResult(n % 2, f"{n}\n", "", f"{n}") for n in range(5)}


def test_a_part_that_breaks_off(tmp_path: Path) -> None:
    broken = CampaignCommand("p0", (PYTHON, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"), tmp_path)
    silent = CampaignCommand("p1", (PYTHON, "-c", ""), tmp_path)
    told: list[str] = []
    for part, ended in campaign((broken, silent), None, 1):
        with pytest.raises(InputError) as error:
            ended.checked(part)
        told.append(str(error.value))
    assert told == ["part p0 ended with 3: why", "part p1 ended with 0"]


@pytest.mark.full
def test_random_graphs_on_workers(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(differential, "PART", 2)
    assert [part.command[4:] for part in differential.parts(range(7, 12), budgets=False)] == [
        ("--seed", "7", "--graphs", "2"),
        ("--seed", "9", "--graphs", "2"),
        ("--seed", "11", "--graphs", "1"),
    ]
    monkeypatch.setattr(differential, "PART", 4)
    file, here = tmp_path / "there.json", differential.Totals()
    assert differential.main(["--graphs", "4", "--json", str(file), "--scheduler", scheduler]) == 0
    for seed in range(4):
        here.add(seed, differential.check_seed(seed))
    there = differential.Totals()
    there.add_report(file.read_text())
    assert there == here
    assert "4 graphs, " in capsys.readouterr().out


def test_the_failures_of_workers_are_told() -> None:
    totals = differential.Totals()
    for seed in (3, 8):
        totals.add_report(
            json.dumps(
                {
                    "graphs": 2,
                    "striped": 1,
                    "kernels": {"copy_s8": seed},
                    "operators": {"add": {"count": 1, "elements": 4, "compared": 4, "apart": 1, "largest": seed}},
                    "failures": {str(seed): "driver: an output: differs"},
                }
            )
        )
    assert (totals.graphs, totals.striped, totals.kernels) == (4, 2, {"copy_s8": 11})
    assert totals.operators == {"add": differential.OpTally(2, 8, 8, 2, 8)}
    failure = differential.Failure(differential.Kind.DRIVER, "an output: differs")
    assert totals.failures == {3: failure, 8: failure}


FUZZED = """import sys
count, first = int(sys.argv[1]), int(sys.argv[2])
if first <= 13 < first + count:
    sys.exit("13 is unlucky")
print(f"runs {count} refused {count - 1} ran 1")
"""


def test_a_fuzzer_on_workers(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part with a finding is narrowed down to its seed here."""
    (tmp_path / "fuzz.py").write_text(FUZZED)

    class Target(fuzzing.Target):
        def command(self, count: int, first: int) -> list[str]:
            return [sys.executable, str(tmp_path / "fuzz.py"), str(count), str(first)]

    chunks = {1: 4, 5: 4, 9: 4, 13: 2}
    tallies: list[fuzzing.Tally] = []
    for address in (scheduler, None):
        tallies.append(fuzzing.Tally())
        assert len([*fuzzing.fuzzed(Target("fuzz"), chunks, address, tallies[-1])]) == 4
    assert tallies[0] == tallies[1]
    assert tallies[0].outcomes == {"refused": 9, "ran": 4}
    assert tallies[0].findings == [(13, "13 is unlucky\n")]


def test_a_suite_on_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker gets its tests from a file, and reports them line by line; both are read here."""

    def ended(suite: Suite, name: str, jobs: Sequence[Job]) -> Iterator[Result]:
        assert (suite.backend.name, suite.tosa, suite.runner) == ("cortex_m", False, tmp_path / "runner")
        yield from (Result(f"{name} {job.test} {job.lift_xfail}", "passed", 1.5) for job in jobs)

    def run_here(
        given: Sequence[CampaignCommand], scheduler: str, shared: Sequence[Path]
    ) -> Iterator[tuple[CampaignCommand, CommandResult]]:
        assert (scheduler, shared) == ("tcp://there", [suite.work])
        for part in given:
            assert part.command[:3] == (PYTHON, "-m", "conformance.part")
            parts.main(*part.command[3:5], str(tmp_path / "report"))
            yield part, CommandResult(0, "", "", (tmp_path / "report").read_text())

    monkeypatch.setattr(Suite, "run", ended)
    monkeypatch.setattr(suites.campaign, "campaign", run_here)
    monkeypatch.setattr(suites, "TESTS_PER_WORKER", 2)
    suite = Suite(BACKENDS["cortex_m"], tmp_path / "work", tmp_path / "runner", tmp_path)
    suite.work.mkdir(parents=True)
    results = suites.Results({}, tmp_path / "results.jsonl", Console(quiet=True))
    jobs = [Job("a", lift_xfail=False), Job("b", lift_xfail=True), Job("c", lift_xfail=False)]
    suites.run_elsewhere(suite, jobs, "tcp://there", results)
    assert [*results.results] == ["0000 a False", "0000 b True", "0002 c False"]
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    assert [Result(**row) for row in rows] == [*results.results.values()]
