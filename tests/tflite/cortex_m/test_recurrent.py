"""Operators that keep a state give the bytes of LiteRT's reference kernels, step by step."""

import os
import zlib

import numpy as np
import pytest
from tests.cortex_m.bench import Bench
from tests.tflite.cortex_m.recurrent_models import MODELS
from tests.tflite.cortex_m.running import compare_stream

CASES = int(os.environ.get("DEUTERON_TFLITE_CASES", "8"))
"""Random models per operator; a long run asks for hundreds."""


@pytest.mark.parametrize("name", MODELS)
def test_streams_equal_litert(bench: Bench, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        compare_stream(bench, MODELS[name](rng), rng, steps=60)
