"""Calibration of models with state in several sequences, each from the initial state."""

import pytest
import torch
from tests.frontend.state.test_capture_state import made, stream

from deuteron.builds.manifest import Source
from deuteron.frontend.eager import capture
from deuteron.frontend.eager.variables import Variable, stepped
from deuteron.frontend.inputs import First, Inputs, check_calibration
from deuteron.frontend.quality.calibration_subset import CalibrationSubset


def steps(sizes: list[float]) -> list[Inputs]:
    values = [(torch.ones(1), torch.full((1, 2), size)) for size in sizes]
    return [First(values[0]), *values[1:]]


@pytest.mark.parametrize(
    ("sequences", "grows"),
    [
        ([[float(n) for n in range(16)]], True),
        ([[1.0] * 16], False),
        ([[1.0] * 12 + [1.2] * 4], False),
        ([[0.0, 9.0], [1.0] * 12 + [1.3] * 4], True),
        ([[float(n) for n in range(4)]], False),
    ],
)
def test_a_state_that_grows_to_the_end_of_the_calibration_is_reported(sequences: list[list[float]], grows: bool):
    subset = CalibrationSubset([Variable("h", torch.zeros(1, 2))])
    assert len(list(subset.observe(iter([x for one in sequences for x in steps(one)])))) == sum(map(len, sequences))
    found = [text for text in subset.findings((torch.ones(1),)) if "still grows" in text]
    assert bool(found) is grows
    assert len(subset.batches) == len(sequences[0])
    if grows:
        assert found[0].startswith("the variable `h` reaches ")


def test_a_state_far_outside_of_its_range_is_reported_with_its_line():
    source = Source("models/net.py", 7, "m.h.add_(x)", "")
    subset = CalibrationSubset([Variable("h", torch.zeros(1, 2), source)])
    assert list(subset.observe(iter(steps([1.0, 4.0, 2.0]))))
    assert list(subset.clipped({0: (-3.3, 3.2)})) == []
    (found,) = subset.clipped({0: (-2.0, 1.9)})
    assert found.startswith(
        "the variable `h`, at net.py:7: `m.h.add_(x)`, reaches 4 in calibration, and its range ends at 2: runs clamp it"
    )


def test_each_sequence_starts_from_the_initial_state():
    observed, graph = capture.captured(made("added"), stream(2))
    once = list(stepped(graph, stream(3), observed.variables))
    batches = [First(x) if i == 0 else x for _ in range(2) for i, x in enumerate(stream(3))]
    twice = list(stepped(graph, batches, observed.variables))
    assert [type(x) is First for x in twice] == [True, False, False] * 2
    for ours, wanted in zip(twice, once * 2, strict=True):
        assert all(map(torch.equal, ours, wanted))


def test_a_list_of_tuples_is_a_sequence():
    x, y = torch.zeros(1, 2), torch.ones(1, 2)
    found = list(check_calibration([[(x,), (y,)], [(y,)], (x,), [y]], (x,)))
    assert [type(one) is First for one in found] == [True, False, True, False, False]
    assert [type(one) is First for one in check_calibration(found, (x,))] == [True, False, True, False, False]
