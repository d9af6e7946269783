"""Scales of channels that Vela writes with 32 bits: they are unsigned."""

import numpy as np
import pytest
from tests.tflite.cortex_m.models import Quant, constant, f32, model, tensor
from tests.tflite.cortex_m.running import random_inputs
from tests.tflite.graph_check import built

from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode


def test_a_scale_of_two_to_the_power_of_31() -> None:
    """Vela resizes between pixels by layers with the scale 1/16, here just below it; it rounds that and adds 1."""
    pytest.importorskip("ethosu.vela")
    q = Quant((f32(0.1),), (3,))
    options = {"AlignCorners": 0, "HalfPixelCenters": 1}
    x, y = tensor("x", (1, 4, 4, 3), "INT8", q), tensor("y", (1, 8, 8, 3), "INT8", q)
    source = model("RESIZE_BILINEAR", [x, constant("s", [8, 8])], [y], "ResizeBilinearOptions", options)
    inputs = random_inputs(source, np.random.default_rng(0))
    (ours,) = built("ethos-u55-128")(source, inputs)
    np.testing.assert_array_equal(ours, Litert(encode(source)).run(inputs)[0])
