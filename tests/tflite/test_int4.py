"""Int4 weights of convolutions in TFLite files stay packed in bundles for a Cortex-M, with LiteRT's bytes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.tflite.test_normalize import Net, q

from deuteron.board import image
from deuteron.board.build_directory import build_directory
from deuteron.board.host_executor import HostExecutor
from deuteron.board.packed_weights import layers
from deuteron.runtime.litert import Litert
from deuteron.tflite.encode import encode
from deuteron.tflite.quantization import Quant

OUTPUTS, KERNEL, INPUTS, SIZE = 10, 3, 6, 8


@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m33"])
def test_int4_weights_of_convolutions_stay_packed(target: str, tmp_path: Path) -> None:
    generator, net = np.random.default_rng(0), Net()
    x = net.tensor((1, SIZE, SIZE, INPUTS), "INT8", q(0.1, 3))
    shape = (OUTPUTS, KERNEL, KERNEL, INPUTS)
    values = generator.integers(-7, 8, shape).ravel()
    packed = ((values[::2] & 15) | ((values[1::2] & 15) << 4)).astype(np.uint8).tobytes()
    scales = tuple(float(np.float32(0.01 + 0.001 * i)) for i in range(OUTPUTS))
    weights = net.tensor(shape, "INT8", Quant(scales, (0,) * OUTPUTS, 0), packed)
    net.tensors[weights] = replace(net.tensors[weights], dtype="INT4")
    y = net.tensor((1, SIZE, SIZE, OUTPUTS), "INT8", q(0.2, -2))
    bias = net.tensor((OUTPUTS,), "INT32", None, np.arange(OUTPUTS, dtype="<i4").tobytes())
    net.op("CONV_2D", [x, weights, bias], [y], "Conv2DOptions", StrideH=1, StrideW=1)
    model, path = net.model([x], [y]), tmp_path / "int4.tflite"
    path.write_bytes(encode(model))
    bundle = image.bundle_of(build_directory(path, target))
    assert [(layer.int8_bytes, layer.bytes) for layer in layers(bundle)] == [(values.size, len(packed))]
    executor, reference = HostExecutor(bundle), Litert(encode(model))
    for _ in range(5):
        sample = generator.integers(-128, 128, (1, SIZE, SIZE, INPUTS)).astype(np.int8)
        np.testing.assert_array_equal(executor.run([sample])[0], reference.run([sample])[0])
