"""How the bench of semantics judges."""

import numpy as np
import pytest
import semantic_judge as judge
from benches import semantics
from semantic_cases import CASES
from semantic_cases.case import VECTOR, Case, Written, dense
from semantic_judge import Row, Verdict

from deuteron.errors import InputError, UnsupportedError

WANTED = np.linspace(-1, 1, 64, dtype=np.float32)
NEAR = [WANTED + np.float32(0.01)]


def test_cases_have_names_of_their_own() -> None:
    assert len(CASES) == len({case.name for case in CASES}) >= 700


@pytest.mark.parametrize("name", ["state.counter", "numbers.bool_times_int", "aliasing.chain_of_views"])
def test_a_case_gives_the_same_each_time(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    samples = case.samples(2, seed=1)
    first, second = ([judge._run(module, x) for x in samples] for module in (case.module(), case.module()))
    assert all(
        bool((x == y).all()) for one, other in zip(first, second, strict=True) for x, y in zip(one, other, strict=True)
    )


@pytest.mark.parametrize(
    ("actual", "reported", "warnings", "verdict"),
    [
        (WANTED + 0.01, 40.0, (), Verdict.AGREES),
        (WANTED + 0.2, 40.0, (), Verdict.WRONG),
        (WANTED + 0.2, 12.0, (), Verdict.POOR),
        (WANTED + 0.2, 40.0, ("output 0 has 9.0 dB",), Verdict.POOR),
        (np.where(np.arange(64) == 5, 2, WANTED), 40.0, (), Verdict.WRONG),
        (np.where(np.arange(64) == 5, np.nan, WANTED), 40.0, (), Verdict.WRONG),
    ],
)
def test_floats(actual: np.ndarray, reported: float, warnings: tuple[str, ...], verdict: Verdict) -> None:
    assert judge._floats(actual, WANTED, NEAR, reported, warnings)[0] is verdict


def test_integers_may_differ_where_noise_changes_them() -> None:
    wanted = np.arange(64)
    moved = np.where(wanted < 8, wanted + 1, wanted)
    assert judge._integers(moved, wanted, [moved], (), is_float=True)[0] is Verdict.AGREES
    assert judge._integers(moved, wanted, [wanted], (), is_float=True)[0] is Verdict.WRONG
    assert judge._integers(moved, wanted, [wanted], ("a warning",), is_float=True)[0] is Verdict.POOR
    one = np.where(wanted == 3, 9, wanted)
    assert judge._integers(one, wanted, [wanted], (), is_float=True)[0] is Verdict.AGREES
    assert judge._integers(one, wanted, [wanted], (), is_float=False)[0] is Verdict.WRONG


def test_a_refusal_has_a_line_and_a_hint_and_no_raw_text() -> None:
    good = UnsupportedError("`aten::x` is not taken", where="net.py:3", hint="write it with others")
    assert judge._refusal(good)[0] is Verdict.REFUSED
    assert judge._refusal(UnsupportedError("no", hint="do"))[1] == "(no line) no hint: do"
    assert judge._refusal(InputError("no", where="net.py:3"))[1] == "(no hint) net.py:3: no"
    raw = InputError("PyTorch cannot export this: KeyError", where="net.py:3", hint="do")
    assert judge._refusal(raw)[0] is Verdict.UNCLEAR


def test_a_bound_that_is_broken_is_a_problem() -> None:
    rows = [Row("a.a", "x", "agrees")] * 12 + [Row("a.b", "x", "refused", "t")]
    assert [*semantics.problems(rows, 13)] == []
    assert [*semantics.problems([*rows, rows[-1]], 15)] == [
        "2 of 14 builds are refused, more than 8%",
        "1 builds are left",
    ]
    assert [*semantics.problems([Row("a.b", "x", "traceback", "t")], 1)] == ["a.b on x: traceback: t"]


@pytest.mark.slow
def test_cases_are_built_and_judged() -> None:
    sound = Case("a.sound", lambda: Written(lambda m, x: (m.f(x) > 0) * 3, {"f": dense}), (VECTOR,))
    assert judge.row(sound, "cortex-m55").verdict == Verdict.AGREES
    broken = Case("a.broken", lambda: Written(lambda m, x: x @ x, {}), (VECTOR,))
    assert judge.row(broken, "cortex-m55").verdict == Verdict.BROKEN
