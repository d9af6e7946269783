"""PyTorch as the oracle of every operator: in float32 as users evaluate it, and exactly in float64.

The float32 result dequantizes the inputs, computes and quantizes, as a quantized PyTorch model does;
`npu.neutron.ir.rounding_tolerance` bounds where float32's error may change its rounding. The float64 result is not
rounded: its nearest integer is the result that every kernel must give.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from deuteron.errors import InternalError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.tflite.quantization import Quant

Array = npt.NDArray[np.generic]
F64 = npt.NDArray[np.float64]
Values = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class OracleResult:
    """PyTorch's results of one operator on given inputs, in units of the stored int8 output.

    Attributes:
        quantized: the float32 quantize/dequantize result.
        exact: the float64 result before rounding, clamped to the operator's range.
        slack: distance from half-way within which the fixed-point factors and tables of `spec/rounding.md` may still
            round the exact value the other way.
    """

    quantized: npt.NDArray[np.int8]
    exact: F64
    slack: float

    def misrounded(self, stored: Array) -> npt.NDArray[np.bool_]:
        """Return the mask of results in `stored` that are not the correctly rounded exact value."""
        return np.abs(self.exact - stored.astype(np.float64)) > 0.5 + self.slack


def oracle_result(op: ops.Op, graph: Graph, values: Values) -> OracleResult:
    """Return PyTorch's results of `op`, whose inputs are in `values` by tensor name."""
    target = graph.type(op.outputs[0])
    lo, hi = ops.clamp_of(op).lo, ops.clamp_of(op).hi
    with torch.no_grad():
        single = _Operands(graph, values, torch.float32).evaluate(op)
        double = _Operands(graph, values, torch.float64).evaluate(op)
    scale, zero_point = target.q.scale, target.q.zero_point
    # As torch.ops.quantized_decomposed.quantize_per_tensor: times the float32 inverse, half to even.
    stored = torch.clamp(torch.round(single * (1.0 / scale)) + zero_point, lo, hi)
    exact = torch.clamp(double / scale + zero_point, lo, hi)
    return OracleResult(stored.to(torch.int8).numpy(), exact.numpy(), _slack(op, graph))


class _Operands:
    """The inputs of one operator as real numbers of one precision."""

    def __init__(self, graph: Graph, values: Values, dtype: torch.dtype) -> None:
        self.graph = graph
        self.values = values
        self.dtype = dtype

    def stored(self, name: str) -> Tensor:
        """Return the tensor's integers; a copy, because torch would share memory with read-only arrays."""
        return torch.tensor(self.values[name])

    def real(self, name: str) -> Tensor:
        """Return the dequantized tensor."""
        kind = self.graph.type(name)
        return dequantize(self.stored(name), kind.q, self.dtype)

    def bias(self, op: ops.Op) -> Tensor:
        """Return the bias, whose scale is the product of the scales of input and weights."""
        x, weights = (self.graph.type(name).q for name in op.inputs[:2])
        scales = torch.tensor(weights.scales, dtype=self.dtype) * torch.tensor(x.scale, dtype=self.dtype)
        return self.stored(op.inputs[2]).to(self.dtype) * scales

    def evaluate(self, op: ops.Op) -> Tensor:
        """Return the operator's real result in the output's shape."""
        target = self.graph.type(op.outputs[0])
        x = self.real(op.inputs[0])
        match op:
            case ops.Conv2D() | ops.DepthwiseConv2D():
                return self._convolution(op, x)
            case ops.FullyConnected():
                weights = self.real(op.inputs[1])
                rows = x.reshape(-1, weights.shape[1])
                return functional.linear(rows, weights, self.bias(op)).reshape(target.shape)
            case ops.TransposeConv():
                return self._transpose_conv(op, x, target)
            case ops.BatchMatMul():
                y = self.real(op.inputs[1])
                return torch.matmul(x.mT if op.adj_x else x, y.mT if op.adj_y else y)
            case ops.BinaryOp():
                return _BINARY[type(op)](x, self.real(op.inputs[1]))
            case ops.AveragePool2D():
                return _average_pool(op, x)
            case ops.MaxPool2D():
                padded = functional.pad(_nchw(x), _torch_pads(op.pads), value=-math.inf)
                return _nhwc(functional.max_pool2d(padded, op.window, op.stride))
            case ops.ReductionOp():
                return _REDUCTIONS[type(op)](x, op.axes).reshape(target.shape)
            case ops.ResizeBilinear():
                return _resize(op, x, target.shape[1:3])
            case ops.Softmax():
                return torch.softmax(x * op.beta, -1)
            case ops.Unary():
                return _FUNCTIONS[op.function](x)
            case ops.LeakyRelu():
                return functional.leaky_relu(x, op.alpha)
            case ops.Quantize():
                return x
            case ops.Lookup():
                entries = torch.tensor(op.entries, dtype=torch.int8)
                return dequantize(entries[self.stored(op.inputs[0]).long() + 128], target.q, self.dtype)
            case _:
                return self._movement(op, x, target)

    def _convolution(self, op: ops.Conv2D | ops.DepthwiseConv2D, x: Tensor) -> Tensor:
        weights = self.real(op.inputs[1])
        depthwise = isinstance(op, ops.DepthwiseConv2D)
        kernel = weights.permute(3, 0, 1, 2) if depthwise else weights.permute(0, 3, 1, 2)
        padded = functional.pad(_nchw(x), _torch_pads(op.pads))
        groups = x.shape[3] if depthwise else 1
        return _nhwc(functional.conv2d(padded, kernel, self.bias(op), op.stride, 0, op.dilation, groups))

    def _transpose_conv(self, op: ops.TransposeConv, x: Tensor, target: TensorType) -> Tensor:
        kernel = self.real(op.inputs[1]).permute(3, 0, 1, 2)
        full = functional.conv_transpose2d(_nchw(x), kernel, None, op.stride)
        cropped = functional.pad(full, [-pad for pad in _torch_pads(op.pads)])
        return _nhwc(cropped) + self.bias(op)

    def _movement(self, op: ops.Op, x: Tensor, target: TensorType) -> Tensor:
        """Return the result of operators that only move elements."""
        match op:
            case ops.Pad():
                flat = [n for pair in reversed(op.paddings) for n in pair]
                return functional.pad(x, flat, value=(op.value - target.q.zero_point) * target.q.scale)
            case ops.MirrorPad():
                for axis, (before, after) in enumerate(op.paddings):
                    size = x.shape[axis]
                    order = [*range(before, 0, -1), *range(size), *range(size - 2, size - 2 - after, -1)]
                    x = x.index_select(axis, torch.tensor(order))
                return x
            case ops.ResizeNearest():
                return _nhwc(functional.interpolate(_nchw(x), target.shape[1:3], mode="nearest"))
            case ops.Reshape():
                return x.reshape(target.shape)
            case ops.Transpose():
                return x.permute(op.perm)
            case ops.Concat():
                return torch.cat([self.real(name) for name in op.inputs], op.axis)
            case ops.Slice():
                return x[tuple(slice(b, b + n) for b, n in zip(op.begin, target.shape, strict=True))]
            case _:
                raise InternalError(f"operator {type(op).__name__} has no PyTorch reference")


_BINARY: Mapping[type[ops.Op], Callable[[Tensor, Tensor], Tensor]] = {
    ops.Add: torch.add,
    ops.Sub: torch.sub,
    ops.Mul: torch.mul,
    ops.Maximum: torch.maximum,
    ops.Minimum: torch.minimum,
    ops.Prelu: lambda x, alpha: torch.where(x >= 0, x, x * alpha),
}

_REDUCTIONS: Mapping[type[ops.Op], Callable[[Tensor, tuple[int, ...]], Tensor]] = {
    ops.Mean: torch.mean,
    ops.Sum: torch.sum,
    ops.ReduceMax: torch.amax,
    ops.ReduceMin: torch.amin,
}

_FUNCTIONS: Mapping[ops.Function, Callable[[Tensor], Tensor]] = {
    ops.Function.ABS: torch.abs,
    ops.Function.EXP: torch.exp,
    ops.Function.HARD_SWISH: functional.hardswish,
    ops.Function.LOG: torch.log,
    ops.Function.LOGISTIC: torch.sigmoid,
    ops.Function.RELU: functional.relu,
    ops.Function.RELU6: functional.relu6,
    ops.Function.RELU_0_TO_1: lambda x: functional.hardtanh(x, 0.0, 1.0),
    ops.Function.RELU_N1_TO_1: functional.hardtanh,
    ops.Function.RSQRT: torch.rsqrt,
    ops.Function.TANH: torch.tanh,
}


def dequantize(stored: Tensor, quant: Quant, dtype: torch.dtype) -> Tensor:
    """Return (stored - zero point) * scale in `dtype`, per tensor or per channel."""
    shape = [1] * stored.dim()
    if quant.axis is not None:
        shape[quant.axis] = -1
    zero_points = torch.tensor(quant.zero_points, dtype=dtype).reshape(shape if quant.axis is not None else [])
    scales = torch.tensor(quant.scales, dtype=dtype).reshape(shape if quant.axis is not None else [])
    return (stored.to(dtype) - zero_points) * scales


def _average_pool(op: ops.AveragePool2D, x: Tensor) -> Tensor:
    """Return the sum over each window divided by the number of its elements inside the map."""
    padded = functional.pad(_nchw(x), _torch_pads(op.pads))
    inside = functional.pad(torch.ones_like(x[:1, :, :, :1]).permute(0, 3, 1, 2), _torch_pads(op.pads))
    sums = functional.avg_pool2d(padded, op.window, op.stride, divisor_override=1)
    return _nhwc(sums / functional.avg_pool2d(inside, op.window, op.stride, divisor_override=1))


def _resize(op: ops.ResizeBilinear, x: Tensor, size: tuple[int, ...]) -> Tensor:
    """Bilinear interpolation; implements the form without half pixels or aligned corners, which PyTorch lacks."""
    if op.half_pixel_centers or op.align_corners:
        return _nhwc(functional.interpolate(_nchw(x), size, mode="bilinear", align_corners=op.align_corners))
    for axis, out in zip((1, 2), size, strict=True):
        last = x.shape[axis] - 1
        at = torch.clamp(torch.arange(out, dtype=x.dtype) * (x.shape[axis] / out), max=last)
        low = at.floor().long()
        share = (at - low).reshape([-1 if i == axis else 1 for i in range(4)])
        x = x.index_select(axis, low) * (1 - share) + x.index_select(axis, torch.clamp(low + 1, max=last)) * share
    return x


def _slack(op: ops.Op, graph: Graph) -> float:
    """Return the error of the fixed-point arithmetic before its rounding, in units of the stored output."""
    if isinstance(op, ops.Softmax):
        depth = graph.type(op.inputs[0]).shape[-1]
        return 2.0**-17 + (depth + 1) * 2.0**-31 / graph.type(op.outputs[0]).q.scale
    return 2.0**-20


def _nchw(x: Tensor) -> Tensor:
    return x.permute(0, 3, 1, 2)


def _nhwc(x: Tensor) -> Tensor:
    return x.permute(0, 2, 3, 1)


def _torch_pads(pads: ops.Pads) -> list[int]:
    return [pads.left, pads.right, pads.top, pads.bottom]
