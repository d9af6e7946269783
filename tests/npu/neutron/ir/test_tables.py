"""Tables of functions against PyTorch's own dequantize, function and quantize, for every stored input."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the quantized operators)
from torch.nn import functional

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.rounding_tolerance import allowed_range
from deuteron.npu.neutron.ir.tables import Tabled, function_table
from deuteron.npu.neutron.ir.types import DType, Tensor, TensorType
from deuteron.tflite.quantization import Quant

STORED = np.arange(-128, 128, dtype=np.int8)
ZERO_POINTS = (-128, 127, 0, -7, 90)
QUANTIZATIONS = 60

X = {"inputs": ("x",), "outputs": ("y",)}
FUNCTIONS: dict[str, tuple[Tabled, Callable[[torch.Tensor], torch.Tensor]]] = {
    "abs": (ops.Unary(function=ops.Function.ABS, **X), torch.abs),
    "exp": (ops.Unary(function=ops.Function.EXP, **X), torch.exp),
    "hard_swish": (ops.Unary(function=ops.Function.HARD_SWISH, **X), functional.hardswish),
    "log": (ops.Unary(function=ops.Function.LOG, **X), torch.log),
    "logistic": (ops.Unary(function=ops.Function.LOGISTIC, **X), torch.sigmoid),
    "relu": (ops.Unary(function=ops.Function.RELU, **X), torch.relu),
    "relu6": (ops.Unary(function=ops.Function.RELU6, **X), functional.relu6),
    "relu_0_to_1": (ops.Unary(function=ops.Function.RELU_0_TO_1, **X), lambda x: torch.clamp(x, 0, 1)),
    "relu_n1_to_1": (ops.Unary(function=ops.Function.RELU_N1_TO_1, **X), functional.hardtanh),
    "rsqrt": (ops.Unary(function=ops.Function.RSQRT, **X), torch.rsqrt),
    "tanh": (ops.Unary(function=ops.Function.TANH, **X), torch.tanh),
    "leaky_relu 0.01": (ops.LeakyRelu(alpha=0.01, **X), functional.leaky_relu),
    "leaky_relu -0.5": (ops.LeakyRelu(alpha=-0.5, **X), lambda x: functional.leaky_relu(x, -0.5)),
    "leaky_relu 1.5": (ops.LeakyRelu(alpha=1.5, **X), lambda x: functional.leaky_relu(x, 1.5)),
    "quantize": (ops.Quantize(**X), lambda x: x),
}


def affine(rng: np.random.Generator, lowest: float, highest: float) -> Quant:
    return Quant((float(np.float32(2.0 ** rng.uniform(lowest, highest))),), (int(rng.choice(ZERO_POINTS)),))


def one_op(op: Tabled, source: Quant, target: Quant) -> Graph:
    tensors = tuple(Tensor(n, TensorType((256,), DType.INT8, q)) for n, q in (("x", source), ("y", target)))
    return Graph("g", tensors, ("x",), ("y",), (op,))


def pytorch(function: Callable[[torch.Tensor], torch.Tensor], source: Quant, target: Quant) -> np.ndarray:
    """Return the result of a quantized PyTorch model for every stored input."""
    kind = (-128, 127, torch.int8)
    stored, operators = torch.tensor(STORED), torch.ops.quantized_decomposed
    real = operators.dequantize_per_tensor(stored, source.scale, source.zero_point, *kind)
    return operators.quantize_per_tensor(function(real), target.scale, target.zero_point, *kind).numpy()


def test_every_function_is_here() -> None:
    named = {op.function for op, _ in FUNCTIONS.values() if isinstance(op, ops.Unary)}
    assert named == set(ops.Function)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_entry_is_pytorchs_but_for_ties(name: str) -> None:
    op, reference = FUNCTIONS[name]
    rng = np.random.default_rng(sorted(FUNCTIONS).index(name))
    ties = 0
    for _ in range(QUANTIZATIONS):
        source, target = affine(rng, -9, 3), affine(rng, -9, 3)
        graph = one_op(op, source, target)
        values = run(graph, [STORED])
        low, high = allowed_range(op, graph, values)
        found = pytorch(reference, source, target)
        assert ((low <= found) & (found <= high)).all(), (source, target)
        ties += int((low != high).sum())
        np.testing.assert_array_equal(values["y"][low == high], found[low == high])
    assert ties <= QUANTIZATIONS


@pytest.mark.parametrize("zero_point", ZERO_POINTS)
def test_where_a_function_has_no_value_or_an_infinite_one(zero_point: int) -> None:
    source, target = Quant((0.5,), (-100,)), Quant((0.25,), (zero_point,))
    below, at = STORED < -100, STORED == -100
    for name, pole in (("log", -128), ("rsqrt", 127)):
        op, reference = FUNCTIONS[name]
        table = function_table(op, one_op(op, source, target))
        assert set(table[below]) == {0}
        assert table[at] == pole
        np.testing.assert_array_equal(table, pytorch(reference, source, target))


def test_an_exponential_beyond_every_float_saturates() -> None:
    op, reference = FUNCTIONS["exp"]
    source, target = Quant((16.0,), (0,)), Quant((0.5,), (-9,))  # up to e^2032; float64 ends at e^709
    table = function_table(op, one_op(op, source, target))
    assert (table[129:] == 127).all()
    assert (table[:128] == -9).all()
    np.testing.assert_array_equal(table, pytorch(reference, source, target))
