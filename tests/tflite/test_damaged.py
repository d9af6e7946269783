"""Damaged TFLite files are refused by a clear error or taken; `benches/fuzz_tflite.py` runs many more of them."""

from contextlib import suppress

import numpy as np
import pytest
from tests import full
from tests.tflite.damaged import SEEDS, damaged

from deuteron.errors import DeuteronError, FormatError
from deuteron.runtime.tflite_model import prepare
from deuteron.tflite.cortex_m import lower
from deuteron.tflite.decode import Decoder
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel


@pytest.mark.parametrize("first", full.first(range(0, 3000, 500), 3))
def test_damage_is_refused_or_taken(first: int) -> None:
    refused = 0
    for seed in range(first, first + 500):
        try:
            model = prepare(damaged(np.random.default_rng(seed), SEEDS)).model
            for index in range(len(model.operators)):
                lower(model, index)
        except DeuteronError:
            refused += 1
    assert 0 < refused < 500


@pytest.mark.parametrize(
    "seed", [5004957, 5020320, 5026236, 5027169, 6000367, 6010837, 6011387, 6037826, 6131854, 6170270, 6302448]
)
def test_found_damage_is_refused_or_taken(seed: int) -> None:
    """Pads of an odd count, tiny scales, sizes of zero or beyond int32, and shapes that disagree with a layer."""
    with suppress(DeuteronError):
        model = prepare(damaged(np.random.default_rng(seed), SEEDS)).model
        for index in range(len(model.operators)):
            lower(model, index)


def test_tensors_that_name_missing_buffers() -> None:
    """Buffer 0 is always empty, and a file may leave it out."""
    decoder = Decoder(encode(FlatModel("net", (), (), (), ())))
    decoder.buffers.clear()
    assert decoder.content(0) is None
    with pytest.raises(FormatError, match="buffer 3 where there are 0 buffers"):
        decoder.content(3)
