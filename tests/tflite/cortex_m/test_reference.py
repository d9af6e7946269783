"""Random models of one operator each give the bytes of LiteRT's reference kernels."""

import os
import zlib

import numpy as np
import pytest
from tests.cortex_m.bench import Bench
from tests.tflite.cortex_m import models, more_models, movement_models, plain_models
from tests.tflite.cortex_m.running import compare

MODELS = {**models.MODELS, **movement_models.MODELS, **more_models.MODELS, **plain_models.MODELS}
CASES = int(os.environ.get("DEUTERON_TFLITE_CASES", "5"))
"""Random models per operator and type; a long run asks for hundreds."""


@pytest.mark.parametrize("name", MODELS)
def test_equals_litert(bench: Bench, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        compare(bench, MODELS[name](rng), rng)


NEAR = {**more_models.NEAR, **plain_models.NEAR}


@pytest.mark.parametrize("name", NEAR)
def test_is_near_litert(bench: Bench, name: str) -> None:
    for case in range(CASES):
        rng = np.random.default_rng([zlib.crc32(name.encode()), case])
        compare(bench, NEAR[name](rng), rng, steps=2)


def test_gelu_is_near_litert(bench: Bench) -> None:
    """Below zero it is the difference of two numbers near 1, of which one comes from the host's library."""
    for case in range(CASES):
        rng = np.random.default_rng(case)
        compare(bench, plain_models.gelu(rng), rng, absolute=1e-6)
