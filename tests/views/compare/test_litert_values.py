"""Values that LiteRT leaves open: results that it does not write, and float functions of its host's library."""

import numpy as np
from tests.tflite.graph_check import built

from deuteron.runtime.litert import Litert
from deuteron.tflite.custom_options import DETECTION
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import CUSTOM, FlatModel, FlatOperator, FlatTensor
from deuteron.views.compare.litert_values import (
    FLOAT_STEPS,
    as_written,
    float_bound,
    float_steps,
    is_float_function,
    smallest_step_of,
)


def test_detections_behind_the_last_are_zero() -> None:
    op = FlatOperator(CUSTOM, (), (0, 1, 2, 3), custom_code=DETECTION)
    model = FlatModel("net", (), (), (3, 1), (op,))
    values = [np.array([2], np.float32), np.array([[1, 2, 7, 7]], np.float32)]
    count, classes = as_written(model, model.outputs, values)
    assert (count.tolist(), classes.tolist()) == ([2], [[1, 2, 0, 0]])
    assert values[1].tolist() == [[1, 2, 7, 7]]


def test_float_functions_are_compared_in_steps_of_float32() -> None:
    tensors = (FlatTensor("x", (1,), "FLOAT32", None), FlatTensor("y", (1,), "INT8", None))
    model = FlatModel("net", tensors, (), (), ())
    kinds = [is_float_function(model, FlatOperator(name, (), (out,))) for name, out in (("TANH", 0), ("TANH", 1))]
    assert kinds == [True, False]
    assert not is_float_function(model, FlatOperator("ADD", (), (0,)))
    one = np.array([1, -2, 0], np.float32)
    assert float_steps(one, np.nextafter(one, np.float32(9))).tolist() == [1, 1, 1]


def test_small_results_of_gelu_are_compared_in_steps_of_its_operand() -> None:
    x = np.linspace(-6, 6, 401, dtype=np.float32).reshape(1, -1)
    for approximate in (0, 1):
        ends = [FlatTensor(name, x.shape, "FLOAT32") for name in ("x", "y")]
        op = FlatOperator("GELU", (0,), (1,), "GeluOptions", {"Approximate": approximate})
        source = FlatModel("m", tuple(ends), (0,), (1,), (op,))
        theirs = Litert(encode(source)).run([x])[0]
        ours = np.asarray(built("cortex-m55")(source, [x])[0])
        assert float_steps(ours, theirs).max() > FLOAT_STEPS
        assert float_steps(ours, theirs, smallest_step_of(op)).max() <= float_bound(op)
