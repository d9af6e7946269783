"""Converts `ir.Graph` to a stock int8 TFLite model for LiteRT and other tools, one operator per IR op.

The exception is a padding other than SAME, which becomes a PADV2 operator before the op.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.shapes import window_count
from deuteron.npu.neutron.ir.types import DType, Tensor
from deuteron.npu.neutron.tflite.attributes import ACTIVATIONS, same_pads
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import CUSTOM, TABLE, FlatModel, FlatOperator, FlatTensor

_ACTIVATION_CODES = {"NONE": 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
_SAME, _VALID = 0, 1
_DTYPES = {
    DType.INT8: "INT8",
    DType.UINT8: "UINT8",
    DType.INT16: "INT16",
    DType.INT32: "INT32",
    DType.INT64: "INT64",
    DType.FLOAT32: "FLOAT32",
    DType.BOOL: "BOOL",
}
_BINARY = {
    ops.Add: ("ADD", "AddOptions"),
    ops.Sub: ("SUB", "SubOptions"),
    ops.Mul: ("MUL", "MulOptions"),
    ops.Maximum: ("MAXIMUM", "MaximumMinimumOptions"),
    ops.Minimum: ("MINIMUM", "MaximumMinimumOptions"),
    ops.Prelu: ("PRELU", ""),
}
_REDUCTIONS: Mapping[type[ops.ReductionOp], str] = {
    ops.Mean: "MEAN",
    ops.Sum: "SUM",
    ops.ReduceMax: "REDUCE_MAX",
    ops.ReduceMin: "REDUCE_MIN",
}

_Windowed = ops.Conv2D | ops.DepthwiseConv2D | ops.AveragePool2D | ops.MaxPool2D


def emit(graph: Graph) -> bytes:
    """Return the graph as a TFLite flatbuffer; tensors keep their names.

    Raises:
        UnsupportedError: a clamp or a padding that TFLite cannot express.
    """
    return _Emitter(graph).finish()


class _Emitter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors = [_flat(tensor) for tensor in graph.tensors]
        self.index: Mapping[str, int] = {tensor.name: i for i, tensor in enumerate(graph.tensors)}
        self.operators: list[FlatOperator] = []

    def finish(self) -> bytes:
        for op in self.graph.ops:
            self.emit(op)
        return encode(
            FlatModel(
                name=self.graph.name,
                tensors=tuple(self.tensors),
                inputs=tuple(self.index[name] for name in self.graph.inputs),
                outputs=tuple(self.index[name] for name in self.graph.outputs),
                operators=tuple(self.operators),
            )
        )

    def emit(self, op: ops.Op) -> None:
        match op:
            case ops.Conv2D():
                self.add(op, "CONV_2D", "Conv2DOptions", self.window(op) | _dilation(op))
            case ops.DepthwiseConv2D():
                options = self.window(op) | _dilation(op) | {"DepthMultiplier": op.multiplier}
                self.add(op, "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", options)
            case ops.AveragePool2D():
                self.need_one_quantization(op)
                self.add(op, "AVERAGE_POOL_2D", "Pool2DOptions", self.window(op) | _filter(op))
            case ops.MaxPool2D():
                self.add(op, "MAX_POOL_2D", "Pool2DOptions", self.window(op) | _filter(op))
            case ops.FullyConnected():
                self.add(op, "FULLY_CONNECTED", "FullyConnectedOptions", self.fully_connected(op))
            case ops.TransposeConv():
                self.transpose_conv(op)
            case ops.BatchMatMul(adj_x=False, adj_y=True) if op.clamp != ops.Clamp() and self.is_matrix(op):
                options = {"WeightsFormat": 0, "KeepNumDims": True} | self.activation(op)
                self.add(op, "FULLY_CONNECTED", "FullyConnectedOptions", options)
            case ops.BatchMatMul():
                if op.clamp != ops.Clamp():
                    raise UnsupportedError("TFLite's matrix product has no fused activation", where=_where(op))
                self.add(op, "BATCH_MATMUL", "BatchMatMulOptions", {"AdjX": op.adj_x, "AdjY": op.adj_y})
            case ops.Add() | ops.Sub() | ops.Mul():
                self.add(op, *_BINARY[type(op)], self.activation(op))
            case ops.Maximum() | ops.Minimum():
                self.need_one_quantization(op)
                self.add(op, *_BINARY[type(op)])
            case ops.Prelu():
                self.add(op, *_BINARY[type(op)])
            case ops.ReductionOp():
                keep = len(self.shape(op.inputs[0])) == len(self.shape(op.outputs[0]))
                self.add(op, _REDUCTIONS[type(op)], "ReducerOptions", {"KeepDims": keep}, axes=op.axes)
            case ops.ResizeBilinear() | ops.ResizeNearest():
                self.resize(op)
            case _:
                self.emit_movement(op)

    def emit_movement(self, op: ops.Op) -> None:
        match op:
            case ops.MirrorPad():
                self.mirror_pad(op)
            case ops.Pad():
                self.pad(self.index[op.inputs[0]], self.index[op.outputs[0]], op.paddings, op.value)
            case ops.Reshape():
                self.add(op, "RESHAPE", "ReshapeOptions", shape=self.shape(op.outputs[0]))
            case ops.Softmax(beta=beta):
                self.add(op, "SOFTMAX", "SoftmaxOptions", {"Beta": beta})
            case ops.Transpose(perm=perm):
                self.add(op, "TRANSPOSE", "TransposeOptions", perm=perm)
            case ops.Concat(axis=axis):
                self.add(op, "CONCATENATION", "ConcatenationOptions", {"Axis": axis, "FusedActivationFunction": 0})
            case ops.Slice(begin=begin):
                self.add(op, "SLICE", "SliceOptions", begin=begin, size=self.shape(op.outputs[0]))
            case ops.Quantize():
                self.add(op, "QUANTIZE", "QuantizeOptions")
            case ops.Unary(function=function):
                self.add(op, function.name, "")
            case ops.LeakyRelu(alpha=alpha):
                self.add(op, "LEAKY_RELU", "LeakyReluOptions", {"Alpha": alpha})
            case ops.Lookup(entries=entries):
                self.add(op, CUSTOM, "")
                options = bytes(entry & 255 for entry in entries)
                self.operators[-1] = replace(self.operators[-1], custom_code=TABLE, custom_options=options)
            case _:
                raise UnsupportedError(f"operator {type(op).__name__} has no TFLite form", where=_where(op))

    def add(
        self,
        op: ops.Op,
        name: str,
        kind: str,
        options: Mapping[str, int | float] | None = None,
        **constants: tuple[int, ...],
    ) -> None:
        """Add an operator with the op's operands, and `constants` as further int32 inputs."""
        inputs = [self.index[tensor] for tensor in op.inputs]
        if isinstance(op, _Windowed) and self.padding(op) is None:
            inputs[0] = self.pad_in_front(op)
        inputs += [self.constant(f"{op.outputs[0]}/{role}", values) for role, values in constants.items()]
        outputs = tuple(self.index[tensor] for tensor in op.outputs)
        self.operators.append(FlatOperator(name, tuple(inputs), outputs, kind, options or {}))

    def window(self, op: _Windowed) -> dict[str, int | float]:
        """Stride, padding and activation."""
        code = self.padding(op)
        padding = {"Padding": _VALID if code is None else code}
        return padding | {"StrideH": op.stride[0], "StrideW": op.stride[1]} | self.activation(op)

    def padding(self, op: _Windowed) -> int | None:
        """SAME or VALID, None for other pads."""
        if op.pads == ops.Pads():
            return _VALID
        _, height, width, _ = self.shape(op.inputs[0])
        match op:
            case ops.Conv2D() | ops.DepthwiseConv2D():
                _, *kernel, _ = self.shape(op.inputs[1])
                same = same_pads((height, width), (kernel[0], kernel[1]), op.stride, op.dilation)
            case ops.AveragePool2D() | ops.MaxPool2D():
                same = same_pads((height, width), op.window, op.stride)
        return _SAME if op.pads == same else None

    def pad_in_front(self, op: _Windowed) -> int:
        """Index of a padded copy of input 0, for VALID padding of the op."""
        if isinstance(op, ops.AveragePool2D):
            raise UnsupportedError(f"average pooling with {op.pads}; TFLite has SAME and VALID", where=_where(op))
        source = self.index[op.inputs[0]]
        x = self.tensors[source]
        n, height, width, c = x.shape
        pads = op.pads
        value = -128 if isinstance(op, ops.MaxPool2D) else self.graph.type(op.inputs[0]).q.zero_point
        shape = (n, pads.top + height + pads.bottom, pads.left + width + pads.right, c)
        padded = self.tensor(FlatTensor(f"{op.outputs[0]}/padded", shape, x.dtype, x.quant))
        self.pad(source, padded, ((0, 0), (pads.top, pads.bottom), (pads.left, pads.right), (0, 0)), value)
        return padded

    def pad(self, source: int, target: int, paddings: tuple[ops.Pair, ...], value: int) -> None:
        """A PADV2 operator between two tensors."""
        out = self.tensors[target]
        flat = tuple(pad for pair in paddings for pad in pair)
        inputs = (
            source,
            self.constant(f"{out.name}/paddings", flat, (len(paddings), 2)),
            self.tensor(FlatTensor(f"{out.name}/value", (1,), "INT8", out.quant, value.to_bytes(1, signed=True))),
        )
        self.operators.append(FlatOperator("PADV2", inputs, (target,), "PadV2Options"))

    def mirror_pad(self, op: ops.MirrorPad) -> None:
        flat = tuple(pad for pair in op.paddings for pad in pair)
        paddings = self.constant(f"{op.outputs[0]}/paddings", flat, (len(op.paddings), 2))
        operands = (self.index[op.inputs[0]], paddings), (self.index[op.outputs[0]],)
        self.operators.append(FlatOperator("MIRROR_PAD", *operands, "MirrorPadOptions", {"Mode": 0}))

    def resize(self, op: ops.ResizeBilinear | ops.ResizeNearest) -> None:
        size = self.shape(op.outputs[0])[1:3]
        if isinstance(op, ops.ResizeNearest):
            flags = {"AlignCorners": 0, "HalfPixelCenters": 0}
            self.add(op, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", flags, size=size)
        else:
            flags = {"AlignCorners": op.align_corners, "HalfPixelCenters": op.half_pixel_centers}
            self.add(op, "RESIZE_BILINEAR", "ResizeBilinearOptions", flags, size=size)

    def transpose_conv(self, op: ops.TransposeConv) -> None:
        """The output's shape comes first; the padding is that of a convolution back to the input's size."""
        _, *kernel, _ = self.shape(op.inputs[1])
        size, result = self.shape(op.inputs[0])[1:3], self.shape(op.outputs[0])
        same = same_pads((result[1], result[2]), (kernel[0], kernel[1]), op.stride)
        before = (op.pads.top, op.pads.left)
        windows = tuple(window_count(*axis) for axis in zip(result[1:3], kernel, op.stride, strict=True))
        if before == (0, 0) and windows == size:
            padding = _VALID
        elif before == (same.top, same.left):
            padding = _SAME
        else:
            raise UnsupportedError(
                f"transposed convolution with {op.pads}; TFLite has SAME and VALID", where=_where(op)
            )
        x, weights, bias = (self.index[name] for name in op.inputs)
        options = {"Padding": padding, "StrideH": op.stride[0], "StrideW": op.stride[1]}
        inputs = (self.constant(f"{op.outputs[0]}/shape", result), weights, x, bias)
        outputs = (self.index[op.outputs[0]],)
        operator = ("TRANSPOSE_CONV", inputs, outputs, "TransposeConvOptions", options | self.activation(op))
        self.operators.append(FlatOperator(*operator))

    def fully_connected(self, op: ops.FullyConnected) -> dict[str, int | float]:
        x, weights, out = (self.shape(name) for name in (op.inputs[0], op.inputs[1], op.outputs[0]))
        keep = out == (*x[:-1], weights[0]) and x[-1] == weights[1]
        if not keep and len(out) != 2:
            raise UnsupportedError(f"fully connected from {list(x)} to {list(out)}", where=_where(op))
        return {"WeightsFormat": 0, "KeepNumDims": keep} | self.activation(op)

    def is_matrix(self, op: ops.Op) -> bool:
        """Return True if the result is a matrix, not a stack of them."""
        return len(self.shape(op.outputs[0])) == 2

    def need_one_quantization(self, op: ops.AveragePool2D | ops.Maximum | ops.Minimum) -> None:
        """Refuse a change of quantization that interpreters would silently ignore."""
        if any(self.graph.type(name).q != self.graph.type(op.outputs[0]).q for name in op.inputs):
            what = "average pooling" if isinstance(op, ops.AveragePool2D) else "maximum and minimum"
            raise UnsupportedError(f"TFLite's {what} cannot change the quantization", where=_where(op))

    def activation(self, op: ops.ClampedOp) -> dict[str, int | float]:
        quant = self.graph.type(op.outputs[0]).q
        for name, code in _ACTIVATION_CODES.items():
            if ACTIVATIONS[name](quant) == op.clamp:
                return {"FusedActivationFunction": code}
        raise UnsupportedError(
            f"clamp {op.clamp.lo}..{op.clamp.hi} is none of {', '.join(_ACTIVATION_CODES)}", where=_where(op)
        )

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.type(name).shape

    def constant(self, name: str, values: tuple[int, ...], shape: tuple[int, ...] | None = None) -> int:
        """Index of a new int32 constant, a vector unless `shape` says otherwise."""
        data = np.array(values, "<i4").tobytes()
        return self.tensor(FlatTensor(name, (len(values),) if shape is None else shape, "INT32", None, data))

    def tensor(self, tensor: FlatTensor) -> int:
        """Index of a new tensor that is not in the graph."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1


def _flat(tensor: Tensor) -> FlatTensor:
    return FlatTensor(tensor.name, tensor.type.shape, _DTYPES[tensor.type.dtype], tensor.type.quant, tensor.data)


def _dilation(op: ops.Conv2D | ops.DepthwiseConv2D) -> dict[str, int | float]:
    return {"DilationHFactor": op.dilation[0], "DilationWFactor": op.dilation[1]}


def _filter(op: ops.AveragePool2D | ops.MaxPool2D) -> dict[str, int | float]:
    return {"FilterHeight": op.window[0], "FilterWidth": op.window[1]}


def _where(op: ops.Op) -> str:
    return f"{type(op).__name__} `{op.outputs[0]}`"
