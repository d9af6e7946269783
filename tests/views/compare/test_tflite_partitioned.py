"""Outputs of files that the NPU runs in part, compared with LiteRT's: the rule for a difference, and its size."""

import numpy as np
import pytest
from tests.npu.neutron.tflite.partitioned_files import SHAPE, Net

from deuteron.npu.neutron.tflite_partitioner import convert_mixed
from deuteron.views.compare import tflite_partitioned
from deuteron.views.compare.tflite_partitioned import MixedOutput


@pytest.mark.filterwarnings("error")
def test_values_that_are_not_finite_are_compared_too():
    net = Net()
    a = net.real(net.relu(0))
    zero = net.add("SUB", a, a, dtype="FLOAT32", kind="SubOptions", FusedActivationFunction=0)
    data = net.data(net.add("LOG", zero, dtype="FLOAT32"), net.add("LOG", net.real(0), dtype="FLOAT32"))
    converted = convert_mixed(data, "imxrt700")
    assert converted is not None
    compared = tflite_partitioned.compare(data, converted, [[np.arange(-64, 64, dtype=np.int8).reshape(SHAPE)]])
    assert [(out.elements, out.mismatches, out.largest) for out in compared.outputs] == [(128, 0, 0), (128, 0, 0)]
    assert "  output `t4`: 0 of 128 differ\n  output `t6`: 0 of 128 differ\n" in compared.text()


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_on_one_side_is_counted_by_itself():
    nan, inf = np.nan, np.inf
    output = MixedOutput("y")
    ours, theirs = np.array([nan, nan, inf, inf, -inf, 1.0, 2.0]), np.array([nan, 1.0, inf, -inf, 0.0, 1.0, 2.5])
    output.add(ours[1:5], theirs[1:5])
    assert output.text().startswith("output `y`: 3 of 4 differ, 3 where one is NaN or infinite;")
    output.add(ours, theirs)
    assert output.text().startswith("output `y`: 7 of 11 differ, the largest by 0.5, 6 where one is NaN or infinite;")


def test_best_scores_are_counted_by_row():
    output = MixedOutput("y")
    theirs = np.array([[1, 5, 3], [7, 2, 2]], np.int8)
    output.add(np.array([[1, 4, 3], [1, 2, 2]], np.int8), theirs)
    output.add(theirs, theirs)
    assert output.text() == "output `y`: 2 of 12 differ, the largest by 6; best score the same in 3 of 4"
    one = MixedOutput("z")
    one.add(np.array([[1]]), np.array([[2]]))
    assert one.text() == "output `z`: 1 of 1 differ, the largest by 1", "a row of one value has no best score"


@pytest.mark.parametrize(
    ("ours", "theirs", "largest"),
    [
        (np.array([2**63 - 1], np.int64), np.array([2**63 - 2], np.int64), 1),
        (np.array([0], np.uint64), np.array([2**64 - 1], np.uint64), 2**64 - 1),
        (np.array([True, False]), np.array([True, True]), 1),
    ],
)
def test_whole_numbers_lose_no_bit(ours: tflite_partitioned.Array, theirs: tflite_partitioned.Array, largest: int):
    output = MixedOutput("y")
    output.add(ours, theirs)
    assert (output.mismatches, output.largest) == (1, largest)
