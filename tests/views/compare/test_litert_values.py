"""Values that LiteRT leaves open: results that it does not write, and float functions of its host's library."""

import numpy as np
import pytest
from tests.tflite.graph_check import built

from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.views.compare.litert_values import (
    float_bound,
    float_steps,
    is_float_function,
    smallest_steps_of,
)
from deuteron.views.compare.result_counts import Array
from deuteron.views.compare.tflite_operators import TensorResult


def test_float_functions_are_compared_in_steps_of_float32() -> None:
    tensors = (FlatTensor("x", (1,), "FLOAT32", None), FlatTensor("y", (1,), "INT8", None))
    model = FlatModel("net", tensors, (), (), ())
    kinds = [is_float_function(model, FlatOperator(name, (), (out,))) for name, out in (("TANH", 0), ("TANH", 1))]
    assert kinds == [True, False]
    assert not is_float_function(model, FlatOperator("ADD", (), (0,)))
    one = np.array([1, -2, 0], np.float32)
    assert float_steps(one, np.nextafter(one, np.float32(9))).tolist() == [1, 1, 1]


@pytest.mark.parametrize("approximate", [0, 1])
def test_gelu_is_within_its_bound_and_near_numbers_are_not(approximate: int) -> None:
    tiny = np.geomspace(1e-30, 0.1, 300)
    x = np.concatenate([np.linspace(-15, 15, 3001), tiny, -tiny]).astype(np.float32).reshape(1, -1)
    ends = [FlatTensor(name, x.shape, "FLOAT32") for name in ("x", "y")]
    op = FlatOperator("GELU", (0,), (1,), "GeluOptions", {"Approximate": approximate})
    source = FlatModel("m", tuple(ends), (0,), (1,), (op,))
    theirs: Array = Litert(encode(source)).run([x])[0]
    ours: Array = np.asarray(built("cortex-m55")(source, [x])[0])
    least = smallest_steps_of(op, x)
    assert float_steps(ours, theirs, least).max() <= float_bound(op)
    wrong: Array = np.multiply(theirs, np.float32(1 + 1e-5))  # about 100 steps of the results
    # 1 + tanh has no digits left for small results of large operands.
    is_seen = (np.abs(x) < 1) & (x != 0) if approximate else np.abs(theirs) > 1e-30
    assert (float_steps(wrong, theirs, least)[is_seen] > float_bound(op)).all()


@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(np.nan, 1), (1, np.nan), (np.inf, 1), (1, -np.inf), (np.inf, -np.inf), (np.nan, np.inf)]
)
def test_values_that_are_not_finite_must_be_in_the_same_places(steps: int, ours: float, theirs: float) -> None:
    result = TensorResult("op 0 EXP", "y", steps=steps, is_float=True)
    result.add(0, np.array([1, np.nan, np.inf], np.float32), np.array([1, np.nan, np.inf], np.float32))
    assert (result.mismatches, result.is_broken) == (0, False)
    result.add(1, np.array([3, ours, 1], np.float32), np.array([3, theirs, np.nextafter(np.float32(1), 2)], np.float32))
    assert result.is_broken
    assert result.sentence == (
        "op 0 EXP, output `y`: 2 of 6 values differ from LiteRT's, by up to 1 steps of float32, 1 where one is NaN or "
        "infinite; the first in sample 1 at [1]"
    )
