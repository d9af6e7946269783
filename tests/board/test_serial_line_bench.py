"""The first models of `benches/serial_line.py`, and what the bench says of a line that is wrong."""

from dataclasses import replace

import pytest
from benches import serial_line
from benches.serial_line import Row
from tests import full

from deuteron.errors import BoardError


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("model", full.first(serial_line.models()[2:10:2], 2), ids=lambda model: model.name)
def test_a_model_gives_the_same_over_the_line(model: serial_line.Model) -> None:
    row = serial_line.measured(model, "cortex-m55")
    assert row.problem == ""
    assert (row.outputs, row.restarts) == (True, 0)
    assert row.steps > 1
    assert row.instructions > 10_000


def test_there_are_enough_models() -> None:
    names = [model.name for model in serial_line.models()]
    assert len(names) == len(set(names)) > serial_line.MODELS


def test_the_bench_says_what_is_wrong() -> None:
    row = Row("net", "an547", steps=3, outputs=True, most=1, instructions=100)
    assert row.problem == ""
    assert replace(row, outputs=False).problem == "gives other outputs over the line"
    assert replace(row, most=2, restarts=1).problem == (
        "counts 2 more or fewer instructions in a step and restarts 1 times"
    )
    assert replace(row, refused="too large").problem == "is refused: too large"
    assert replace(row, failed="no answer").problem == "fails: no answer"


@pytest.mark.full
def test_a_model_that_is_built_and_does_not_run_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*arguments: object) -> Row:
        raise BoardError("the board did not answer", where="tcp:here:1")

    monkeypatch.setattr(serial_line, "ran", silent)
    model = next(model for model in serial_line.models() if model.name == "gated")
    row = serial_line.measured(model, "cortex-m55")
    assert (row.refused, row.problem) == ("", "fails: tcp:here:1: the board did not answer")
