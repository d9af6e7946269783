"""The command line: which tests are selected, and what is said when something is missing."""

import json
import sys
from pathlib import Path

import pytest
from conformance import __main__ as command
from conformance import deviations
from conformance.backends import BACKENDS, Backend
from conformance.suite import Job, Suite

TESTS = tuple(f"f{number % 3}.py::test[{number}]" for number in range(20))


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A suite that is collected already and runs nothing; the command's working directory."""
    (tmp_path / "runner").touch()
    monkeypatch.setattr(Suite, "install_packages", lambda _: None)
    monkeypatch.setattr(Suite, "collect", lambda _: TESTS)
    monkeypatch.setattr(Suite, "run", _run)
    monkeypatch.setattr(command.deviations, "load", lambda _: ())
    return tmp_path


def _run(_: Suite, name: str, jobs: list[Job]) -> object:
    return iter([command.Result(job.test, "failed" if "[7]" in job.test else "passed", 1.0) for job in jobs])


def call(monkeypatch: pytest.MonkeyPatch, directory: Path, *arguments: str) -> int:
    paths = ["--work", str(directory / "work"), "--runner", str(directory / "runner")]
    monkeypatch.setattr(sys, "argv", ["conformance", *paths, *arguments])
    return command.main()


def recorded(directory: Path) -> list[str]:
    lines = (directory / "work/nxp/results.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["test"] for line in lines]


def test_shards_are_the_whole_suite(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed: list[str] = []
    for shard in ("1/3", "2/3", "3/3"):
        assert call(monkeypatch, suite, "--list", "--shard", shard) == 0
        listed += capsys.readouterr().out.splitlines()
    assert sorted(listed) == sorted(TESTS)


def test_parts_of_ids(suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, suite, "--list", "-k", "[7]", "-k", "f2.py::test[2]") == 0
    assert capsys.readouterr().out.splitlines() == ["f2.py::test[2]", "f1.py::test[7]"]


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b"])
def test_a_shard_that_is_none(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shard: str
) -> None:
    assert call(monkeypatch, suite, "--list", "--shard", shard) == 2
    assert capsys.readouterr().err == f"error: --shard is I/N with I from 1 to N, not `{shard}`\n"


def test_a_runner_that_is_not_built(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (suite / "runner").unlink()
    assert call(monkeypatch, suite) == 2
    assert capsys.readouterr().err == f"error: no runner `{suite}/runner`\n\nhint: run `make native`\n"


def test_only_an_ethos_u_has_tosa(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, suite, "--tosa") == 2
    assert capsys.readouterr().err == (
        "error: `--tosa` is for Ethos-U programs, and the tests of `nxp` compile none\n\n"
        "hint: add `--backend ethos_u` or `--backend ethos_u85`\n"
    )


@pytest.mark.parametrize("options", [(), ("--resume",), ("--report",)], ids=["run", "resumed", "reported"])
def test_a_comparison_of_nothing_fails(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(Suite, "install_images", lambda _: None)
    selected = ("--backend", "ethos_u", "-k", "[3]")
    assert call(monkeypatch, suite, *selected) == 0
    (suite / "work/ethos_u/compiled").mkdir()
    (suite / "work/ethos_u/compiled/stale.partition").touch()
    assert call(monkeypatch, suite, *selected, "--tosa", *options) == 1
    assert capsys.readouterr().out.endswith(
        "nothing was compared with TOSA's reference model: no selected test compiled anything for an Ethos-U with "
        "`--tosa`\n"
    )


def test_resuming_and_running_failures_again(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(monkeypatch, suite, "--shard", "1/2", "--jobs", "1") == 0
    assert recorded(suite) == list(TESTS[::2])
    assert call(monkeypatch, suite, "--resume", "--jobs", "1") == 1, "one of the others fails"
    assert recorded(suite) == [*TESTS[::2], *TESTS[1::2]]
    assert call(monkeypatch, suite, "--failed") == 1
    assert recorded(suite)[-1] == TESTS[7]
    assert call(monkeypatch, suite, "-k", "[3]") == 0
    assert recorded(suite) == [TESTS[3]], "without --resume it begins anew"


def test_failures_that_are_as_they_have_to_be_are_not_run_again(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = deviations.Deviation("*test[7]", 1, deviations.Reason.FAILS, "One step.")
    monkeypatch.setattr(command.deviations, "load", lambda _: (fails,))
    assert call(monkeypatch, suite, "--jobs", "1") == 0
    assert call(monkeypatch, suite, "--failed", "--jobs", "1") == 0
    assert recorded(suite) == list(TESTS)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=list(BACKENDS))
def test_the_slice_is_run_without_collecting_the_suite(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], backend: Backend
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(Suite, "install_packages", lambda _: None)
    monkeypatch.setattr(Suite, "collect", lambda _: pytest.fail("collected"))
    assert call(monkeypatch, suite, "--list", "--slice", "--backend", backend.name) == 0
    listed = capsys.readouterr().out.splitlines()
    assert 10 < len(listed) == len({*listed}) < 100
    known = deviations.load(backend.folder / "deviations.toml")
    assert [test for test in listed for entry in known if entry.matches(test)] == []


@pytest.mark.parametrize(("jobs", "sizes"), [("1", [20]), ("2", [10, 10]), ("3", [7, 7, 6])])
def test_all_processes_get_as_much(suite: Path, monkeypatch: pytest.MonkeyPatch, jobs: str, sizes: list[int]) -> None:
    seen: list[tuple[str, int]] = []

    def run(_: Suite, name: str, jobs: list[Job]) -> object:
        seen.append((name, len(jobs)))
        return _run(_, name, jobs)

    monkeypatch.setattr(Suite, "run", run)
    call(monkeypatch, suite, "--jobs", jobs)
    assert [size for _, size in sorted(seen)] == sizes


def test_a_report_changes_nothing(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call(monkeypatch, suite, "-k", "[3]")
    assert call(monkeypatch, suite, "--report") == 1, "most tests have no result"
    assert recorded(suite) == [TESTS[3]]
