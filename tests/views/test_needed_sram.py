"""The SRAM that commands name is what the bundle of the build needs, also for programs with state."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tflite.cortex_m.models import constant, tensor
from tests.tflite.cortex_m.recurrent_models import svdf

from deuteron import api
from deuteron.board import image
from deuteron.board.build_directory import build_directory
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatOperator
from deuteron.tflite.quantization import Quant


def svdf_and_layer(path: Path) -> Path:
    """Write a file with an SVDF, whose state is 1,600 B, and a layer that an NPU computes after it."""
    rng = np.random.default_rng(1)
    model = svdf(rng, 1, 16, 8, 2, 50)
    weights = constant("weights", rng.integers(-127, 128, (4, 8)), "INT8", Quant((2.0**-7,), (0,)))
    result = tensor("scores", (1, 4), "INT8", Quant((1.0,), (0,)))
    first = len(model.tensors)
    layer = FlatOperator("FULLY_CONNECTED", (*model.outputs, first), (first + 1,), "FullyConnectedOptions")
    tensors = (*model.tensors, weights, result)
    path.write_bytes(encode(replace(model, tensors=tensors, operators=(*model.operators, layer), outputs=(first + 1,))))
    return path


@pytest.mark.parametrize("target", ["cortex-m55", "ethos-u55-128"])
def test_the_sram_of_a_program_with_state_is_that_of_its_bundle(tmp_path: Path, target: str) -> None:
    api.build_model(str(svdf_and_layer(tmp_path / "m.tflite")), target=target, output=tmp_path / "m")
    bundle, planned = image.bundle_of(tmp_path / "m"), api.plan(tmp_path / "m")
    named = [int(size.replace(",", "")) for size in re.findall(r"([\d,]+) B", planned.summary())]
    needed = sum(memory.bytes for memory in bundle.memories)
    assert needed in (named[-1], sum(named))
    assert planned.to_json()["state"] == bundle.state_bytes
    assert bundle.state_bytes >= (2 if bundle.delegates else 1) * 1600


def test_a_state_is_no_part_of_the_scratch_of_a_partition(tmp_path: Path) -> None:
    """Vela does not get the state of operators, which has its own memory; a stream has LiteRT's outputs."""
    path = svdf_and_layer(tmp_path / "m.tflite")
    subject = api.subject(path, target="ethos-u55-128")
    (part,) = api.read_manifest(build_directory(path, "ethos-u55-128")).partitions
    assert part.scratch_bytes < 100
    assert subject.compare(subject.draw(4, 0)).passed
