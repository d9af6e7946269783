"""Pytest plugin inside the processes that run the suite: selects tests, records results, takes marks away.

Two environment variables tell it what to do, one or the other:

- `DEUTERON_CONFORMANCE_COLLECT`: file to write the id of every test to, one JSON string per line; of those alone that
  expect to fail for a reason with the words of `DEUTERON_CONFORMANCE_MARKED`, if there are any;
- `DEUTERON_CONFORMANCE_RUN`: directory with `select.jsonl`, one `{"id": .., "lift_xfail": ..}` per test. Results are
  appended to `results.jsonl` there; `current` holds the id of the test that is running. A simulator's stand-in adds a
  line to `programs` for each program that it ran.

`DEUTERON_CONFORMANCE_TOSA` is a directory, if it is set, which gets the TOSA program and the compiled partition of each
call of ExecuTorch's Ethos-U backend: `conformance/tosa.py` runs both.

A file that cannot be imported stands for its tests, whose ids are unknown: it is listed, and fails when it is run.
"""

import hashlib
import json
import os
import unittest
from collections.abc import Generator
from pathlib import Path

import pytest

from deuteron.errors import DeuteronError
from deuteron.npu.neutron.sdk import Session

COLLECT = os.environ.get("DEUTERON_CONFORMANCE_COLLECT")
MARKED = os.environ.get("DEUTERON_CONFORMANCE_MARKED", "")
RUN = os.environ.get("DEUTERON_CONFORMANCE_RUN")
# The suite marks these classes so that pytest leaves them to unittest; here pytest runs them like everything else.
HIDDEN_FROM_PYTEST = "__test__"
TOSA = os.environ.get("DEUTERON_CONFORMANCE_TOSA")
REPORTS = pytest.StashKey[list[pytest.TestReport]]()
BROKEN: list[pytest.CollectReport] = []


def pytest_configure() -> None:
    """Makes ExecuTorch's Ethos-U backend keep what it compiles, where that is asked for."""
    if not TOSA:
        return
    from executorch.backends.arm.arm_vela import VelaCompileResult  # noqa: TID251 - outside the product
    from executorch.backends.arm.ethosu import EthosUCompileSpec  # noqa: TID251
    from executorch.backends.arm.ethosu.backend import EthosUBackend  # noqa: TID251

    compile_tosa = EthosUBackend._compile_tosa_flatbuffer  # noqa: SLF001 - it has no public place to look into

    def compile_and_keep(tosa_flatbuffer: bytes, compile_spec: EthosUCompileSpec) -> VelaCompileResult:
        result = compile_tosa(tosa_flatbuffer, compile_spec)
        name = hashlib.sha256(result.processed_bytes + tosa_flatbuffer).hexdigest()[:32]
        for content, suffix in ((tosa_flatbuffer, "tosa"), (result.processed_bytes, "partition")):
            (Path(TOSA) / f"{name}.{suffix}").write_bytes(content)
        with (Path(TOSA) / "tests.jsonl").open("a", encoding="utf-8") as file:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            file.write(json.dumps({"partition": name, "test": test}) + "\n")
        return result

    EthosUBackend._compile_tosa_flatbuffer = staticmethod(compile_and_keep)  # noqa: SLF001


def pytest_pycollect_makeitem(obj: object) -> None:
    """Lets pytest see the classes that the suite keeps for `python -m unittest`."""
    if isinstance(obj, type) and issubclass(obj, unittest.TestCase) and vars(obj).get(HIDDEN_FROM_PYTEST) is False:
        setattr(obj, HIDDEN_FROM_PYTEST, True)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Notes a file that cannot be imported."""
    if report.failed:
        BROKEN.append(report)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Writes the ids, or keeps the selected tests."""
    if COLLECT:
        ids = [*(item.nodeid for item in items if _is_marked(item)), *(report.nodeid for report in BROKEN)]
        Path(COLLECT).write_text("".join(f"{json.dumps(test)}\n" for test in ids), encoding="utf-8")
    if RUN:
        rows = [json.loads(line) for line in (Path(RUN) / "select.jsonl").read_text(encoding="utf-8").splitlines()]
        lift = {row["id"]: row["lift_xfail"] for row in rows}
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in lift])
        items[:] = [item for item in items if item.nodeid in lift]
        for item in items:
            if lift[item.nodeid]:
                item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "xfail"]
        for report in BROKEN:
            if report.nodeid in lift:
                _append({"test": report.nodeid, "outcome": "failed", "error": _last_line(report)})


def _is_marked(item: pytest.Item) -> bool:
    """Return True if a test is one of those to collect."""
    return not MARKED or any(MARKED in mark.kwargs.get("reason", "") for mark in item.iter_markers("xfail"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Runs a test, and appends its result when it has one: a process that dies leaves the id in `current`."""
    if not RUN:
        return (yield)
    current = Path(RUN) / "current"
    current.write_text(item.nodeid, encoding="utf-8")
    _take_converter_error()
    (Path(RUN) / "programs").unlink(missing_ok=True)
    item.stash[REPORTS] = []
    result = yield
    _append(_record(item))
    current.write_text("", encoding="utf-8")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps the reports of set-up, call and tear-down."""
    report = yield
    if REPORTS in item.stash:
        item.stash[REPORTS].append(report)
    return report


def _append(row: dict[str, object]) -> None:
    """Add a result to the file of them."""
    with (Path(RUN or ".") / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def _last_line(report: pytest.CollectReport) -> str:
    """Return the last line of an import error."""
    lines = [line.removeprefix("E ").strip() for line in str(report.longrepr).splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _record(item: pytest.Item) -> dict[str, object]:
    reports = item.stash[REPORTS]
    worst = next((report for report in reports if report.failed), None)
    worst = worst or next((report for report in reports if report.skipped), reports[-1])
    outcome = "xfailed" if worst.skipped and hasattr(worst, "wasxfail") else worst.outcome
    return {
        "test": item.nodeid,
        "outcome": outcome,
        "seconds": round(sum(report.duration for report in reports), 2),
        "error": _first_line(worst) if outcome != "passed" else "",
        # Only of a test that went wrong: a test may well expect a conversion to fail.
        "converter": _take_converter_error() if outcome != "passed" else "",
        "unittest": isinstance(item, pytest.Function) and issubclass(item.cls or object, unittest.TestCase),
        "programs": _programs(),
    }


def _programs() -> int:
    """How many programs a simulator's stand-in ran for the current test."""
    path = Path(RUN or ".") / "programs"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else 0


def _first_line(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # skipped: file, line, reason
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if crash is not None and line == "AssertionError":  # of an `assert` without words
        return f"{line} at {Path(crash.path).name}:{crash.lineno}"
    return line


def _take_converter_error() -> str:
    """Return the converter's error since the last call; it runs in separate processes and leaves a file."""
    try:
        Session(Path(RUN or ".")).raise_failure()
    except DeuteronError as error:
        # An unexpected exception comes with its traceback, whose last line says what it was.
        place = f"{error.where}: " if error.where else ""
        return f"{type(error).__name__}: {place}{error.message.splitlines()[-1]}"
    return ""
