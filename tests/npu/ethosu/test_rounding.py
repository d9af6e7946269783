"""Why layers and resizes from TFLite may be one step from LiteRT's: that rounds once, Vela's commands twice."""

import itertools
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.npu.ethosu import vela
from tests.npu.neutron.tflite import cases
from tests.tflite.cortex_m.models import constant, model, tensor
from tests.tflite.graph_check import built

from deuteron.npu.ethosu import blob
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.tflite.emit import emit
from deuteron.runtime.ethosu import Partition
from deuteron.tflite.encode import encode
from deuteron.tflite.quantization import Quant
from deuteron.views.compare import litert

LAYERS = (4, 6, *range(11, 24))
SEED = 4
"""Weights and inputs of a layer whose results the two roundings give differently."""


def scaled(sums: npt.NDArray[np.int64], scale: float, *, twice: bool) -> npt.NDArray[np.int64]:
    """Sums times a scale below 1, which is 31 bits and a shift, to the nearest; the last of two halves away from 0."""
    fraction, exponent = math.frexp(scale)
    products = sums * round(fraction * 2**31)
    if not twice:
        return (products + (1 << (30 - exponent))) >> (31 - exponent)
    high = (products + (1 << 30)) >> 31
    return (high + (1 << (-exponent - 1)) - (high < 0)) >> -exponent


def defined(graph: Graph, values: npt.NDArray[np.int8], *, twice: bool) -> npt.NDArray[np.int64]:
    """Return the result of a layer with one rounding or two."""
    (layer,) = graph.ops
    assert isinstance(layer, ops.FullyConnected)
    x, w, b = (graph.tensor(name) for name in layer.inputs)
    y = graph.type(layer.outputs[0]).q
    sums = (values.astype(np.int64) - x.type.q.zero_point) @ w.array().T.astype(np.int64) + b.array()
    results = scaled(sums, x.type.q.scale * w.type.q.scale / y.scale, twice=twice) + y.zero_point
    return np.clip(results, layer.clamp.lo, layer.clamp.hi).ravel()


def drawn(graph: Graph, sample: int) -> npt.NDArray[np.int8]:
    """Values of the layer's input."""
    return np.random.default_rng(sample).integers(-128, 128, graph.type(graph.inputs[0]).shape, np.int8)


def test_litert_rounds_once() -> None:
    different = 0
    for seed, sample in itertools.product(LAYERS, range(3)):
        graph = cases.fully_connected(np.random.default_rng(seed))
        values = drawn(graph, sample)
        once, twice = (defined(graph, values, twice=rounds) for rounds in (False, True))
        (result,) = litert.run(emit(graph), [values])
        assert np.array_equal(result.ravel(), once)
        different += not np.array_equal(once, twice)
    assert different > 3


def test_vela_rounds_twice(tmp_path: Path) -> None:
    graph = cases.fully_connected(np.random.default_rng(SEED))
    values = drawn(graph, 0)
    payload = vela.compiled(emit(graph), "ethos-u55-128", tmp_path)
    assert payload is not None
    (result,) = Partition(blob.parse(payload, "layer"), "layer").run([values.tobytes()])
    once, twice = (defined(graph, values, twice=rounds) for rounds in (False, True))
    assert not np.array_equal(once, twice)
    assert np.array_equal(np.frombuffer(result, np.int8), twice)


@pytest.mark.parametrize(("target", "rounded"), [("ethos-u55-128", 1), ("ethos-u65-256", 1), ("ethos-u85-256", 0)])
def test_a_quarter_in_a_bilinear_resize_is_rounded_twice(target: str, rounded: int) -> None:
    """As a half of a half: the mean of 0, 0, 0 and 1 is 1 where commands round each half."""
    pytest.importorskip("ethosu.vela")
    quant = Quant((0.5,), (0,))
    x, y = tensor("x", (1, 2, 2, 1), "INT8", quant), tensor("y", (1, 4, 4, 1), "INT8", quant)
    source = model("RESIZE_BILINEAR", [x, constant("size", (4, 4))], [y], "ResizeBilinearOptions", {})
    values = np.array([0, 0, 0, 1], np.int8).reshape(1, 2, 2, 1)
    (result,) = built(target)(source, [values])
    (wanted,) = litert.run(encode(source), [values])
    assert wanted[0, 1, 1, 0] == 0
    assert result.reshape(4, 4)[1, 1] == rounded


def test_the_quotient_of_the_scales_of_abs_is_float64() -> None:
    """The first of two roundings is a tie for 44 of 0.078125; with the float64 quotient it is below."""
    pytest.importorskip("ethosu.vela")
    quants = Quant((0.00390625,), (-128,)), Quant((float(np.float32(0.05)),), (3,))
    x, y = (tensor(name, (1, 1, 1, 1), "INT8", quant) for name, quant in zip("xy", quants, strict=True))
    source = model("ABS", [x], [y], "AbsOptions", {})
    values = np.array([44 - 128], np.int8).reshape(1, 1, 1, 1)
    (wanted,) = litert.run(encode(source), [values])
    assert wanted.item() == 3 + 4
    assert [built(target)(source, [values])[0].item() for target in ("cortex-m55", "ethos-u55-128")] == [3 + 4, 3 + 3]
