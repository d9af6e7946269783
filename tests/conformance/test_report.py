"""Every test is counted once; failures with the same cause are counted together."""

from io import StringIO

from conformance import report
from conformance.deviations import Deviation, Reason
from conformance.suite import Result
from rich.console import Console

NETWORK = Deviation("*", 1, Reason.NETWORK, "Downloads.")
DEFECT = Deviation("*", 1, Reason.VENDOR_DEFECT, "Wrong.")


def test_each_test_stands_in_one_column() -> None:
    results = {
        "f.py::good": Result("f.py::good", "passed"),
        "f.py::skips": Result("f.py::skips", "skipped"),
        "f.py::bad": Result("f.py::bad", "failed", error="no"),
        "f.py::dies": Result("f.py::dies", "crashed"),
        "f.py::lifted": Result("f.py::lifted", "passed"),
        "f.py::still_wrong": Result("f.py::still_wrong", "failed"),
    }
    tests = [*results, "f.py::network", "f.py::later"]
    found = report.account(
        tests, results, {"f.py::network": NETWORK, "f.py::lifted": DEFECT, "f.py::still_wrong": DEFECT}
    )
    assert found == report.Account(
        passed=("f.py::good", "f.py::skips"),
        lifted=("f.py::lifted",),
        failed=("f.py::bad", "f.py::dies", "f.py::still_wrong"),
        deviating=("f.py::network",),
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
    report.show(Console(file=stream, width=120), [test], results, report.account([test], results, {}))
    assert test in stream.getvalue()
    assert "no [bold] idea" in stream.getvalue()


def test_the_page_has_each_file_each_deviation_and_each_failure() -> None:
    results = {
        "f.py::good": Result("f.py::good", "passed"),
        "g.py::bad": Result("g.py::bad", "failed", error="no | yes"),
    }
    tests = (*results, "g.py::network")
    found = report.account(tests, results, {"g.py::network": NETWORK})
    lines = report.markdown(tests, results, found, [NETWORK]).splitlines()
    for line in (
        "| f.py | 1 |  |  |  |  | 1 |",
        "| g.py |  |  | 1 | 1 |  | 2 |",
        "| all | 1 | 0 | 1 | 1 | 0 | 3 |",
        "| `*` | network | 1 | Downloads. |",
        "| `g.py::bad` | failed: no / yes |",
    ):
        assert line in lines
