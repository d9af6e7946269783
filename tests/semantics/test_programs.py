"""A slice of `benches/semantics_random.py`, and what its check finds."""

import pytest
from hypothesis import HealthCheck, assume, given, settings
from tests.semantics.check import check, runs, unclear
from tests.semantics.programs import Program, programs

from deuteron.errors import UnsupportedError
from deuteron.frontend.quantize import promotion

RANDOM = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[*HealthCheck])


@settings(RANDOM, max_examples=10)
@given(programs())
def test_rewritten_graphs_compute_what_modules_do(program: Program) -> None:
    assume(runs(program))
    assert check(program, "cortex-m55") == ""


@pytest.mark.full
@settings(RANDOM, max_examples=40)
@given(programs())
def test_more_rewritten_graphs_compute_what_modules_do(program: Program) -> None:
    assume(runs(program))
    assert check(program, "cortex-m55") == ""


@pytest.mark.parametrize(
    "lines",
    [("v = (x > 0) * 3",), ("self.n += 1", "v = x * self.n"), ("v = x[0]", "v += 1", "v = x * 1"), ("v = x[:, 8:]",)],
)
def test_a_module_is_right_or_refused_with_its_line(lines: tuple[str, ...]) -> None:
    assert check(Program(lines, "v"), "cortex-m55") == ""


def test_a_refusal_has_a_line_and_a_hint() -> None:
    assert unclear(UnsupportedError("no", where="net.py:3", hint="do")) == ""
    assert unclear(UnsupportedError("no", hint="do")) == "a refusal names no line: no\n\nhint: do"
    assert unclear(UnsupportedError("no", where="net.py:3")) == "a refusal has no hint: net.py:3: no"


def test_a_wrong_rewrite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion, "write", lambda model: model.graph.eliminate_dead_code())
    assert check(Program(("v = (x > 0) * 3",), "v"), "cortex-m55") != ""


def test_modules_that_do_not_run_are_left_out() -> None:
    assert runs(Program(("v = x + 1",), "v"))
    assert not runs(Program(("v = x.absent()",), "v"))
    assert not runs(Program(("v = x / 0",), "v"))
