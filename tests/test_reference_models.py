"""Reference models on 32 inputs each: NPU, interpreter, PyTorch and LiteRT within bounds.

The largest of the six is left to `make bench-compare-pytorch`.
"""

from pathlib import Path

import numpy as np
import pytest
from benches.compare_pytorch import inputs
from tests import full, store
from tests.differential import provenance
from tests.npu.neutron.tflite import litert

from deuteron import api
from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.tflite import reader
from deuteron.runtime.host import HostRunner
from deuteron.views.compare.pytorch import compare

SAMPLES = 32
LITERT_SAMPLES = 2
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "name",
    full.only([e.name for e in api.REFERENCES if e.name != "mobilenet_v2"], "digits", "ds_cnn", "deep_autoencoder"),
)
def test_a_reference_model_agrees_with_pytorch_and_litert(name: str):
    (example,) = (example for example in api.REFERENCES if example.name == name)
    directory = store.model(example.name)
    found = compare(directory, inputs(example, SAMPLES))
    assert found.failures() == ()
    assert found.samples == SAMPLES
    assert sum(p.elements for p in found.partitions) == SAMPLES * np.prod(example.output_shape)
    assert all(op.elements for op in found.operators)

    tflite = (directory / "npu_0.tflite").read_bytes()
    graph = reader.read(tflite)
    quant = graph.type(graph.inputs[0]).q
    conversion = convert(tflite, "imxrt700")
    assert conversion.plan.scratch_bytes == conversion.plan.packing.bound
    for (sample,) in inputs(example, LITERT_SAMPLES):
        stored = np.clip(np.rint(sample / quant.scale) + quant.zero_point, -128, 127).astype(np.int8)
        values = interpret.run(graph, [stored])
        assert [*provenance.problems(graph, conversion, values)] == []
        for op in graph.ops:
            ours = values[op.outputs[0]].astype(int)
            theirs = litert.run_op(graph, op, values).astype(int)
            assert np.abs(ours - theirs).max() <= 1, op


def test_digits_lose_less_than_one_point_of_accuracy_on_the_npu(tmp_path: Path):
    import digits  # benches.compare_pytorch puts the example models on the path

    training, held_back = digits.data()
    assert len(held_back.labels) >= 360
    model = digits.fit(training)
    api.build(
        model,
        (held_back.images[:1],),
        calibration=digits.calibration(training),
        output=tmp_path / "digits",
    )
    runner = HostRunner(tmp_path / "digits" / "model.pte")
    labels = held_back.labels.numpy()
    on_npu = np.array([runner.run((image.numpy(),))[0].argmax() for image in held_back.images.split(1)])
    in_float = model(held_back.images).argmax(1).numpy()
    assert np.mean(in_float == labels) > 0.97
    assert np.mean(on_npu == labels) >= np.mean(in_float == labels) - 0.01
