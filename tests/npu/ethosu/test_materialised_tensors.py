"""Tensors that operations leave in memory: how they lie there, and TOSA files with more outputs."""

import numpy as np
import pytest
from tests.npu.ethosu.mixed_network import built

from deuteron.builds.manifest import tosa_name
from deuteron.errors import FormatError
from deuteron.npu.ethosu import tosa
from deuteron.npu.ethosu.materialised_tensors import MaterialisedTensor
from deuteron.npu.ethosu.stream import Span


def test_bricks_are_read_in_the_order_of_the_graph() -> None:
    values = np.arange(3 * 5 * 20, dtype=np.int16).reshape(1, 3, 5, 20)
    padded = np.pad(values[0], ((0, 0), (0, 0), (0, 12))).reshape(3, 5, 2, 16)
    stored = padded.transpose(0, 2, 1, 3).tobytes()
    kept = MaterialisedTensor("a", 0, 0, Span("scratch", 0, len(stored)), "int16", (1, 3, 5, 20), (3, 2, 5))
    assert np.array_equal(kept.values(stored), values)


def test_a_file_with_more_outputs_is_the_same_else() -> None:
    data = (built() / tosa_name(0)).read_bytes()
    graph = tosa.read(data, "npu_0.tosa")
    more = ("tosa_table_default", "tosa_sub_default")
    changed = tosa.read(tosa.with_outputs(data, more, "npu_0.tosa"), "npu_0.tosa")
    assert changed.outputs == (*graph.outputs, *more)
    assert (changed.inputs, changed.operators, changed.shapes) == (graph.inputs, graph.operators, graph.shapes)
    with pytest.raises(FormatError):
        tosa.with_outputs(data[: len(data) // 2], more, "npu_0.tosa")
