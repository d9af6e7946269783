"""The deviations file: patterns, counts, and what the reviewed list may hold."""

from pathlib import Path

import pytest
from conformance.backends import BACKENDS, Backend
from conformance.deviations import Deviation, Reason, assign, load

from deuteron.errors import InputError

FILE = Path("reviewed.toml")


def deviation(tests: str, count: int, reason: Reason = Reason.NETWORK) -> Deviation:
    return Deviation(tests, count, reason, "Because.")


def test_brackets_stand_for_themselves_and_stars_for_anything() -> None:
    entry = deviation("f.py::test[a*, (1, 2)]", 1)
    assert entry.matches("f.py::test[abc, (1, 2)]")
    assert not entry.matches("f.py::testa")


def test_each_test_gets_its_entry() -> None:
    first, second = deviation("f.py::*", 2), deviation("g.py::b", 1, Reason.VENDOR_DEFECT)
    assert assign(["f.py::a", "f.py::b", "g.py::a", "g.py::b"], [first, second], FILE) == {
        "f.py::a": first,
        "f.py::b": first,
        "g.py::b": second,
    }
    assert not first.runs
    assert second.runs


def test_an_entry_that_matches_more_than_it_says() -> None:
    with pytest.raises(InputError, match=r"`f\.py::\*` matches 2 tests, and the file says 1") as caught:
        assign(["f.py::a", "f.py::b"], [deviation("f.py::*", 1)], FILE)
    assert caught.value.hint == "look at what changed in the suite, then correct the entry"


def test_an_entry_that_matches_nothing() -> None:
    with pytest.raises(InputError, match=r"`gone` matches 0 tests, and the file says 1"):
        assign(["f.py::a"], [deviation("gone", 1)], FILE)


def test_two_entries_for_one_test() -> None:
    with pytest.raises(InputError, match=r"test `f\.py::a` is named by two deviations"):
        assign(["f.py::a"], [deviation("f.py::*", 1), deviation("*::a", 1)], FILE)


def test_an_unknown_reason(tmp_path: Path) -> None:
    path = tmp_path / "deviations.toml"
    path.write_text('[[deviation]]\ntests = "a"\ncount = 1\nreason = "weather"\nwhy = "Rain."\n')
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path}: unknown reason `weather` of `a`\n\n"
        "hint: reasons are network, vendor-defect, runner, vendor-lowering, expected, fails, other"
    )


@pytest.mark.parametrize(
    ("reason", "runs", "lifts", "good"),
    [
        (Reason.NETWORK, False, False, ("passed", "skipped")),
        (Reason.RUNNER, True, True, ("passed", "skipped")),
        (Reason.EXPECTED, True, False, ("xfailed",)),
        (Reason.FAILS, True, False, ("failed",)),
    ],
)
def test_what_a_reason_asks_for(reason: Reason, runs: bool, lifts: bool, good: tuple[str, ...]) -> None:
    entry = deviation("a", 1, reason)
    assert (entry.runs, entry.lifts, entry.good) == (runs, lifts, good)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=list(BACKENDS))
def test_the_reviewed_lists(backend: Backend) -> None:
    entries = load(backend.folder / "deviations.toml")
    assert all(entry.why.endswith(".") and len(entry.why) > 20 for entry in entries)
    assert sum(entry.count for entry in entries if entry.reason in (Reason.OTHER, Reason.FAILS)) <= 10
