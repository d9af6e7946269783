"""The allowed range against a float32 evaluation that dequantizes, computes and quantizes as PyTorch does."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from tests.npu.neutron.ir.cases import CASES, case

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.interpret import run
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.ir.rounding_tolerance import allowed_range
from deuteron.npu.neutron.ir.verify import SAME_QUANTIZATION
from deuteron.views.compare.torch_oracle import oracle_result

Array = npt.NDArray[np.generic]
F32 = npt.NDArray[np.float32]

MOVING = [kind for kind in SAME_QUANTIZATION if kind is not ops.ResizeBilinear]

SUMS = (
    ops.Conv2D,
    ops.DepthwiseConv2D,
    ops.FullyConnected,
    ops.Add,
    ops.Mul,
    ops.AveragePool2D,
    ops.Mean,
    ops.Softmax,
    ops.Quantize,
)
"""Operators that are evaluated here as well, sums one by one; PyTorch evaluates all of them."""


def float32_reference(op: ops.Op, graph: Graph, values: Mapping[str, Array]) -> npt.NDArray[np.int8]:
    """The stored output, every step rounded to float32 and sums taken one by one."""
    real = [_dequantize(graph, name, values[name]) for name in op.inputs]
    out = graph.type(op.outputs[0])
    result = _real(op, real, out.shape)
    steps = np.rint(result * np.float32(1.0 / out.q.scale)).astype(np.float64) + out.q.zero_point
    clamp = getattr(op, "clamp", ops.Clamp())
    return np.clip(steps, clamp.lo, clamp.hi).astype(np.int8)


def _dequantize(graph: Graph, name: str, stored: Array) -> F32:
    quant = graph.type(name).q
    scales = np.array(quant.scales, np.float32)
    if quant.axis is not None:
        scales = scales.reshape([-1 if i == quant.axis else 1 for i in range(stored.ndim)])
    return (stored.astype(np.int32) - quant.zero_points[0]).astype(np.float32) * scales


def _real(op: ops.Op, real: list[F32], shape: tuple[int, ...]) -> F32:
    match op:
        case ops.Conv2D() | ops.DepthwiseConv2D():
            return _windows(op, *real, shape=shape)
        case ops.FullyConnected():
            x, w, b = real
            acc = np.zeros((x.shape[0], w.shape[0]), np.float32)
            for k in range(x.shape[1]):
                acc += x[:, k : k + 1] * w[:, k]
            return acc + b
        case ops.Add():
            return real[0] + real[1]
        case ops.Mul():
            return real[0] * real[1]
        case ops.AveragePool2D():
            ones = np.ones((1, *op.window, 1), np.float32)
            pool = ops.DepthwiseConv2D(inputs=("x",), outputs=("y",), stride=op.stride, pads=op.pads)
            weights = np.repeat(ones, real[0].shape[3], axis=3)
            sums = _windows(pool, real[0], weights, np.zeros(1, np.float32), shape=shape)
            counts = _windows(pool, np.ones_like(real[0]), weights, np.zeros(1, np.float32), shape=shape)
            return sums / counts
        case ops.Mean():
            return real[0].mean(axis=op.axes, dtype=np.float32).reshape(shape)
        case ops.Softmax():
            x = real[0] * np.float32(op.beta)
            e = np.exp(x - x.max(axis=-1, keepdims=True))
            return e / e.sum(axis=-1, keepdims=True)
        case ops.Quantize():
            return real[0]
        case _:
            raise AssertionError(op)


def _windows(op: ops.Conv2D | ops.DepthwiseConv2D, x: F32, w: F32, b: F32, *, shape: tuple[int, ...]) -> F32:
    depthwise = isinstance(op, ops.DepthwiseConv2D)
    x = np.repeat(x, op.multiplier, axis=3) if depthwise else x
    pads = op.pads
    x = np.pad(x, ((0, 0), (pads.top, pads.bottom), (pads.left, pads.right), (0, 0)))
    acc = np.zeros(shape, np.float32)
    for i in range(w.shape[1]):
        for j in range(w.shape[2]):
            top, left = i * op.dilation[0], j * op.dilation[1]
            rows = slice(top, top + (shape[1] - 1) * op.stride[0] + 1, op.stride[0])
            columns = slice(left, left + (shape[2] - 1) * op.stride[1] + 1, op.stride[1])
            taps = x[:, rows, columns, :]
            if depthwise:
                acc += taps * w[0, i, j]
            else:
                for c in range(w.shape[3]):
                    acc += taps[..., c : c + 1] * w[:, i, j, c]
    return acc + b


@pytest.mark.parametrize("kind", SUMS, ids=lambda kind: kind.__name__)
def test_the_float32_reference_stays_in_the_range(kind: type[ops.Op]) -> None:
    ties = elements = 0
    for seed in range(40):
        graph, inputs = case(kind, seed)
        (op,) = graph.ops
        values = run(graph, inputs)
        low, high = allowed_range(op, graph, values)
        assert (low <= values["y"]).all()
        assert (values["y"] <= high).all()
        assert (high.astype(int) - low <= 1).all()
        reference = float32_reference(op, graph, values)
        np.testing.assert_array_less(low.astype(int) - 1, reference, f"seed {seed}")
        np.testing.assert_array_less(reference, high.astype(int) + 1, f"seed {seed}")
        ties += int((low != high).sum())
        elements += low.size
    same_scales_make_ties = kind in (ops.AveragePool2D, ops.Mean)
    assert ties < elements * (0.25 if same_scales_make_ties else 0.01)


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_pytorch_stays_in_the_range_and_finds_no_result_misrounded(kind: type[ops.Op]) -> None:
    for seed in range(40):
        graph, inputs = case(kind, seed)
        (op,) = graph.ops
        values = run(graph, inputs)
        low, high = allowed_range(op, graph, values)
        found = oracle_result(op, graph, values)
        assert (low <= found.quantized).all(), f"seed {seed}"
        assert (found.quantized <= high).all(), f"seed {seed}"
        assert not found.misrounded(values["y"]).any(), f"seed {seed}"


@pytest.mark.parametrize("kind", MOVING, ids=lambda kind: kind.__name__)
def test_moved_values_have_no_ties(kind: type[ops.Op]) -> None:
    graph, inputs = case(kind, 0)
    values = run(graph, inputs)
    low, high = allowed_range(graph.ops[0], graph, values)
    np.testing.assert_array_equal(low, values["y"])
    np.testing.assert_array_equal(high, values["y"])


def test_a_tie_allows_both_neighbours_and_a_clamp_takes_one_away() -> None:
    text = """
        graph g {
          input %x: i8[1,2] q(0.5:0)
          input %z: i8[1,2] q(0.5:0)
          %y: i8[1,2] q(1.0:10) = add(%x, %z)
          output %y
        }
    """
    inputs = [np.array([[1, 2]], np.int8), np.array([[2, 2]], np.int8)]
    graph = parse_graph(text)
    low, high = allowed_range(graph.ops[0], graph, run(graph, inputs))
    assert (low.tolist(), high.tolist()) == ([[11, 12]], [[12, 12]])
    graph = parse_graph(text.replace("%z)", "%z) clamp=(12,127)"))
    low, high = allowed_range(graph.ops[0], graph, run(graph, inputs))
    assert (low.tolist(), high.tolist()) == ([[12, 12]], [[12, 12]])


def test_a_value_near_a_boundary_but_beyond_the_bound_is_no_tie() -> None:
    text = """
        graph g {{
          input %x: i8[1] q(0.5:0)
          %y: i8[1] q({}:0) = quantize(%x)
          output %y
        }}
    """
    for scale, is_tie in ((1.0, True), (1.000001, True), (1.00001, False)):
        graph = parse_graph(text.format(scale))
        low, high = allowed_range(graph.ops[0], graph, run(graph, [np.array([1], np.int8)]))
        assert (low != high).all() == is_tie
