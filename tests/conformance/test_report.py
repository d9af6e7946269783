"""Every test is counted once; failures with the same cause are counted together."""

import json
from io import StringIO

from conformance import report
from conformance.backends import CORTEX_M, ETHOS_U, NXP
from conformance.deviations import Deviation, Reason
from conformance.suite import Result
from rich.console import Console

NETWORK = Deviation("*", 1, Reason.NETWORK, "Downloads.")
DEFECT = Deviation("*", 1, Reason.VENDOR_DEFECT, "Wrong.")
FAILS = Deviation("*", 1, Reason.FAILS, "One step.")


def test_each_test_stands_in_one_column() -> None:
    results = {
        "f.py::good": Result("f.py::good", "passed"),
        "f.py::skips": Result("f.py::skips", "skipped"),
        "f.py::bad": Result("f.py::bad", "failed", error="no"),
        "f.py::dies": Result("f.py::dies", "crashed"),
        "f.py::lifted": Result("f.py::lifted", "passed"),
        "f.py::still_wrong": Result("f.py::still_wrong", "failed"),
        "f.py::has_to_fail": Result("f.py::has_to_fail", "failed"),
        "f.py::fails_no_more": Result("f.py::fails_no_more", "passed"),
    }
    tests = [*results, "f.py::network", "f.py::later"]
    found = report.account(
        tests,
        results,
        {
            "f.py::network": NETWORK,
            "f.py::lifted": DEFECT,
            "f.py::still_wrong": DEFECT,
            "f.py::has_to_fail": FAILS,
            "f.py::fails_no_more": FAILS,
        },
    )
    assert found == report.Account(
        passed=("f.py::good", "f.py::skips"),
        lifted=("f.py::lifted",),
        failed=("f.py::bad", "f.py::dies", "f.py::still_wrong", "f.py::fails_no_more"),
        deviating=("f.py::has_to_fail", "f.py::network"),
        missing=("f.py::later",),
    )


def test_our_converter_is_the_cause_before_the_test_itself() -> None:
    result = Result(
        "t", "failed", error="RuntimeError: exit code 1", converter="UnsupportedError: op 3 CONV_2D, output `a`: no"
    )
    assert report.cause(result) == "UnsupportedError: op N CONV_2D, output `..`: no"


def test_sizes_and_directories_do_not_make_causes_differ() -> None:
    one = Result("t", "failed", error="AssertionError: max diff 0.0046 in /a/b/results_npu")
    two = Result("u", "failed", error="AssertionError: max diff 1e-05 in /c/results_npu")
    assert report.cause(one) == report.cause(two) == "failed: AssertionError: max diff N in results_npu"


def test_ids_with_brackets_are_printed_as_they_are() -> None:
    test = "f.py::test[dim=0]"
    results = {test: Result(test, "failed", 2.0, "no [bold] idea")}
    stream = StringIO()
    report.show(Console(file=stream, width=120), NXP, [test], results, report.account([test], results, {}))
    assert test in stream.getvalue()
    assert "no [bold] idea" in stream.getvalue()


def test_the_page_has_each_folder_each_deviation_and_each_failure() -> None:
    results = {
        "ops/f.py::good": Result("ops/f.py::good", "passed"),
        "models/g.py::bad": Result("models/g.py::bad", "failed", error="no | yes"),
    }
    tests = (*results, "models/g.py::network")
    found = report.account(tests, results, {"models/g.py::network": NETWORK})
    lines = report.markdown(NXP, tests, results, found, [NETWORK]).splitlines()
    for line in (
        "# ExecuTorch's own NXP tests",
        "1 of 3 tests pass (33.3 %).",
        "| ops | 1 |  |  |  |  | 1 |",
        "| models |  |  | 1 | 1 |  | 2 |",
        "| all | 1 |  | 1 | 1 |  | 3 |",
        "| `*` | network | 1 | Downloads. |",
        "| `models/g.py::bad` | failed: no / yes |",
    ):
        assert line in lines


def test_a_part_of_a_suite_is_called_one_and_counted_by_configuration() -> None:
    passed = ("f.py::test_u65_INT", "f.py::test_u55_INT[a]", "f.py::test_16a8w_u55_INT[a]")
    results = {test: Result(test, "passed") for test in passed}
    tests = (*results, "f.py::test_u55_INT_a8w4", "f.py::test_u55_INT_a16w8", "f.py")
    found = report.account(tests, results, {})
    lines = report.markdown(ETHOS_U, tests, results, found, (), ("1 partition", "  1 of them")).splitlines()
    for line in (
        "3 of 6 tests pass (50.0 %), 100.0 % of the 3 that were run: this is a part of the suite.",
        "1 partition.",
        "1 of them.",
        "| ethos-u55-128, int8 | 1 |  |  |  |  | 1 |",
        "| ethos-u55-128, inputs of 16 bits | 1 |  |  |  | 1 | 2 |",
        "| ethos-u55-128, weights of 4 bits |  |  |  |  | 1 | 1 |",
        "| ethos-u65-256 | 1 |  |  |  |  | 1 |",
        "| all | 3 |  |  |  | 3 | 6 |",
    ):
        assert line in lines


def test_programs_that_ran_instead_of_a_simulation_are_counted() -> None:
    results = {"f.py::a": Result("f.py::a", "passed", programs=2), "f.py::b": Result("f.py::b", "passed")}
    found = report.account(list(results), results, {})
    assert report.summary(CORTEX_M, list(results), results, found) == (
        "2 of 2 tests pass (100.0 %); 1 of them ran 2 programs, each on the host and on an emulated board."
    )


def test_json_says_where_each_test_stands() -> None:
    results = {"f.py::good": Result("f.py::good", "passed", 1.5)}
    tests = (*results, "f.py::later")
    found = report.account(tests, results, {})
    page = json.loads(report.to_json(CORTEX_M, results, found))
    assert page["backend"] == "cortex_m"
    assert page["counts"] == {"passed": 1, "lifted": 0, "failed": 0, "deviating": 0, "missing": 1}
    assert [(row["test"], row["column"]) for row in page["tests"]] == [
        ("f.py::good", "passed"),
        ("f.py::later", "missing"),
    ]
