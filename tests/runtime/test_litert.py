"""LiteRT's interpreter."""

from dataclasses import replace

import numpy as np
import pytest
from tests.tflite.cortex_m import signal_models
from tests.tflite.cortex_m.detection_models import detection
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


def test_the_signal_library_of_tflite_micro_is_refused() -> None:
    source = signal_models.MODELS["window"](np.random.default_rng(0))
    with pytest.raises(InputError, match="LiteRT has no SignalWindow") as caught:
        Litert(encode(source))
    assert caught.value.hint == "only TFLite Micro has it; run the file without a comparison with LiteRT"


def test_detections_behind_the_last_are_zero() -> None:
    source = detection("FLOAT32")(np.random.default_rng(0))
    litert = Litert(encode(source))
    boxes, scores = (source.tensors[i].shape for i in source.inputs)
    *_, first = litert.run([np.zeros(boxes, np.float32), np.ones(scores, np.float32)])
    *values, count = litert.run([np.zeros(boxes, np.float32), np.zeros(scores, np.float32)])
    assert first.any()
    assert not count.any()
    assert not any(y.any() for y in values), "LiteRT leaves those of the run before"
