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
    assert output.text() == "output `y`: 3 of 4 differ, 3 where one is NaN or infinite"
    output.add(ours, theirs)
    assert output.text() == "output `y`: 7 of 11 differ, the largest by 0.5, 6 where one is NaN or infinite"


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
