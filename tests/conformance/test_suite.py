"""Processes that run a suite: here a small one, with everything that can happen to a test."""

from dataclasses import replace
from pathlib import Path

import pytest
from conformance.backends import NXP
from conformance.suite import Job, Result, Suite

from deuteron.errors import InternalError

FILE = """
import os, time, unittest
import pytest

def test_good(): pass
def test_bad(): raise ValueError("first line\\nsecond line")
def test_silent(): raise AssertionError
def test_dies(): os._exit(7)
def test_hangs(): time.sleep(60)
def test_skips(): pytest.skip("not today")
def test_converts():
    from deuteron.errors import UnsupportedError
    from deuteron.npu.neutron.sdk import Session
    from pathlib import Path
    Session(Path(os.environ["DEUTERON_CONFORMANCE_RUN"])).record(UnsupportedError("no EXP", hint="use LOG"))
    raise RuntimeError("exit code 1")
def test_simulates():
    from pathlib import Path
    (Path(os.environ["DEUTERON_CONFORMANCE_RUN"]) / "programs").write_text("one\\ntwo\\n")
def test_paths():
    import config
    assert config.NEUTRON_TEST_PATH == os.environ["NXP_RUNNER_PATH"]
    assert config.NSYS_PATH.is_file()

@pytest.mark.xfail(strict=True, reason="vendor")
def test_marked(): pass
@pytest.mark.xfail(strict=True, reason="vendor")
def test_wrong(): assert False, "wrong"

class TestHidden(unittest.TestCase):
    __test__ = False
    def test_it(self): pass
"""


def small(folder: Path) -> Suite:
    """The suite of that file, and of one that cannot be imported; its processes load nothing that it does not use."""
    tests = folder / "tests"
    tests.mkdir()
    (tests / "test_file.py").write_text(FILE)
    (tests / "test_broken.py").write_text("import not_there\n")
    backend = replace(NXP, test_seconds=20, environment={**NXP.environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    return Suite(backend, folder / "work", folder / "runner", tests, uses_pytorch=False)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return small(tmp_path)


def run(suite: Suite, *names: str, lift: bool = False) -> dict[str, Result]:
    results = list(suite.run("0000", [Job(f"test_file.py::{name}", lift) for name in names]))
    assert len(results) == len(names)
    return {result.test.removeprefix("test_file.py::"): result for result in results}


def test_collection_finds_the_classes_kept_for_unittest(suite: Suite) -> None:
    suite.work.mkdir(parents=True)
    ids = suite.collect()
    assert len(ids) == 13
    assert ids[-2:] == ("test_file.py::TestHidden::test_it", "test_broken.py")
    (suite.directory / "test_file.py").unlink()
    assert suite.collect() == ids, "collected again although this version of ExecuTorch is known"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """The tests of one run, all of which end."""
    names = (
        "test_good", "test_bad", "test_silent", "test_skips", "test_paths", "test_wrong", "TestHidden::test_it",
        "test_marked", "test_converts", "test_simulates",
    )  # fmt: skip
    return run(small(tmp_path_factory.mktemp("suite")), *names)


def test_outcomes(results: dict[str, Result]) -> None:
    assert {name: result.outcome for name, result in results.items()} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_silent": "failed",
        "test_skips": "skipped",
        "test_paths": "passed",
        "test_wrong": "xfailed",
        "TestHidden::test_it": "passed",
        "test_marked": "failed",  # a strict mark fails a test that passes
        "test_converts": "failed",
        "test_simulates": "passed",
    }
    assert results["test_bad"].error == "ValueError: first line"
    assert results["test_silent"].error == "AssertionError at test_file.py:7"
    assert results["test_skips"].error == "Skipped: not today"
    assert results["TestHidden::test_it"].unittest
    assert not results["test_good"].unittest


def test_a_lifted_mark_makes_the_test_count(suite: Suite) -> None:
    results = run(suite, "test_marked", "test_wrong", lift=True)
    assert {name: result.outcome for name, result in results.items()} == {
        "test_marked": "passed",
        "test_wrong": "failed",
    }


def test_what_the_converter_said(results: dict[str, Result]) -> None:
    assert results["test_converts"].converter == "UnsupportedError: no EXP"
    assert results["test_converts"].error == "RuntimeError: exit code 1"
    assert results["test_good"].converter == ""


def test_tests_after_one_that_dies_still_run(suite: Suite) -> None:
    results = run(suite, "test_good", "test_dies", "test_skips")
    assert results["test_dies"] == Result("test_file.py::test_dies", "crashed", error="the process ended with 7")
    assert results["test_skips"].outcome == "skipped"


@pytest.mark.full
def test_a_test_that_hangs(suite: Suite) -> None:
    quick = replace(suite, backend=replace(NXP, test_seconds=2))
    results = run(quick, "test_hangs", "test_paths")
    assert results["test_hangs"].outcome == "timeout"
    assert results["test_paths"].outcome == "passed"


def test_a_file_that_cannot_be_imported_fails_as_a_test(suite: Suite) -> None:
    results = list(suite.run("0000", [Job("test_broken.py", lift_xfail=False), Job("test_file.py::test_good", False)]))
    assert results == [
        Result("test_broken.py", "failed", error="ModuleNotFoundError: No module named 'not_there'"),
        Result("test_file.py::test_good", "passed", seconds=results[1].seconds),
    ]


def test_programs_of_a_stand_in_are_counted_for_each_test(results: dict[str, Result]) -> None:
    assert {name: result.programs for name, result in results.items() if result.programs} == {"test_simulates": 2}


def test_tests_that_are_not_there(suite: Suite) -> None:
    with pytest.raises(InternalError, match=r"no test of `0000` gave a result; .* `test_file\.py::test_gone`"):
        list(suite.run("0000", [Job("test_file.py::test_gone", lift_xfail=False)]))
