"""LiteRT's interpreter."""

from dataclasses import replace

import numpy as np
import pytest
from tests.tflite.cortex_m.recurrent_models import MODELS

from deuteron.errors import InputError
from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode


def test_a_state_that_litert_writes_beyond_is_refused() -> None:
    source = MODELS["svdf"](np.random.default_rng(0))
    Litert(encode(source))
    tensors = tuple(replace(t, dtype="INT8") if t.is_variable else t for t in source.tensors)
    with pytest.raises(InputError, match="LiteRT has no SVDF with an int8 state") as caught:
        Litert(encode(replace(source, tensors=tensors)))
    assert caught.value.where == "op 0 SVDF"
