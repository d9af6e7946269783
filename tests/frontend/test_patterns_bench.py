"""A slice of the bench of ordinary patterns, and what it calls a problem."""

from dataclasses import replace

import pytest
from benches import patterns
from tests import full

ROW = patterns.Row("p", "imxrt700cm", partitions=1, agrees=True, sqnr=30.0)


def test_a_row_is_as_it_must_be_or_says_what_is_not() -> None:
    assert ROW.problem == ""
    assert replace(ROW, refused="`aten::x` is not taken").problem == "is refused: `aten::x` is not taken"
    assert replace(ROW, refused="KeyError", crashed=True).problem == "fails: KeyError"
    assert replace(ROW, agrees=False).problem == "does not agree with its reference"
    assert replace(ROW, sqnr=24.94).problem == "has 24.9 dB"


def test_there_are_enough_patterns_of_different_names() -> None:
    assert len(patterns.PATTERNS) == len({pattern.name for pattern in patterns.PATTERNS}) >= 150


NORMS = ("deuteron::normalise", "deuteron::normalise")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "partitions", "on_cpu"), full.first([("efficientnet", 1, ()), ("encoder_layer", 2, NORMS)], 1)
)
@pytest.mark.full
def test_a_block_is_whole_but_for_norms(name: str, partitions: int, on_cpu: tuple[str, ...]) -> None:
    (pattern,) = (pattern for pattern in patterns.PATTERNS if pattern.name == name)
    row = patterns.row(pattern, "imxrt700cm")
    assert (row.problem, row.partitions, row.on_cpu) == ("", partitions, on_cpu)
