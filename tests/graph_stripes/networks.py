"""int8 TFLite networks that branch, and random ones: inputs of tests and of `benches/ethosu_small.py`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deuteron.tflite.flat_model import FlatModel, FlatOperator, FlatTensor
from deuteron.tflite.quantization import Quant

SAME, VALID = 0, 1
RELU = 1


class Network:
    """Adds operators to a model; tensors are numbers."""

    def __init__(self, shape: Sequence[int], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.tensors: list[FlatTensor] = []
        self.operators: list[FlatOperator] = []
        self.input = self.tensor(shape)

    def tensor(self, shape: Sequence[int], quant: Quant | None = None, name: str = "") -> int:
        """A tensor of int8."""
        self.tensors.append(FlatTensor(name or f"t{len(self.tensors)}", tuple(shape), "INT8", quant or self.quant()))
        return len(self.tensors) - 1

    def quant(self) -> Quant:
        """A quantization near one step."""
        return Quant((float(np.float32(self.rng.uniform(0.02, 0.05))),), (int(self.rng.integers(-20, 20)),))

    def constant(self, values: Any, dtype: str, quant: Quant | None = None) -> int:
        """A constant."""
        array = np.ascontiguousarray(values, dtype.lower())
        self.tensors.append(FlatTensor(f"c{len(self.tensors)}", array.shape, dtype, quant, array.tobytes()))
        return len(self.tensors) - 1

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Its shape."""
        return self.tensors[tensor].shape

    def add(
        self,
        name: str,
        inputs: Sequence[int],
        shape: Sequence[int],
        kind: str,
        options: Mapping[str, Any],
        like: int = -1,
    ) -> int:
        """An operator; `like` is a tensor whose quantization the result has."""
        result = self.tensor(shape, self.tensors[like].quant if like >= 0 else None)
        self.operators.append(FlatOperator(name, tuple(inputs), (result,), kind, dict(options)))
        return result

    def layer(
        self,
        x: int,
        channels: int,
        kernel: int = 3,
        stride: int = 1,
        pad: int = SAME,
        act: int = RELU,
        dilation: int = 1,
    ) -> int:
        """A convolution; a depthwise one for 0 channels."""
        _, height, width, depth = self.shape(x)
        count, span = channels or depth, (kernel - 1) * dilation + 1
        sides = [-(-n // stride) if pad == SAME else (n - span) // stride + 1 for n in (height, width)]
        sizes = (channels, kernel, kernel, depth) if channels else (1, kernel, kernel, depth)
        fan = kernel * kernel * (depth if channels else 1)
        scales = tuple(float(np.float32(s)) for s in self.rng.uniform(0.6, 1.4, count) / (64 * fan**0.5))
        weights = self.constant(
            self.rng.integers(-127, 128, sizes), "INT8", Quant(scales, (0,) * count, 0 if channels else 3)
        )
        source = self.tensors[x].quant
        assert source is not None
        products = tuple(float(np.float32(source.scale) * np.float32(s)) for s in scales)
        bias = self.constant(self.rng.integers(-500, 500, count), "INT32", Quant(products, (0,) * count, 0))
        options = {
            "Padding": pad, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": act,
            "DilationWFactor": dilation, "DilationHFactor": dilation,
        }  # fmt: skip
        if channels:
            return self.add("CONV_2D", (x, weights, bias), (1, *sides, count), "Conv2DOptions", options)
        options["DepthMultiplier"] = 1
        return self.add("DEPTHWISE_CONV_2D", (x, weights, bias), (1, *sides, count), "DepthwiseConv2DOptions", options)

    def pool(self, x: int, kernel: int = 2, stride: int = 2, kind: str = "MAX", pad: int = VALID) -> int:
        """A pool."""
        _, height, width, depth = self.shape(x)
        sides = [-(-n // stride) if pad == SAME else (n - kernel) // stride + 1 for n in (height, width)]
        options = {
            "Padding": pad, "StrideW": stride, "StrideH": stride, "FilterWidth": kernel, "FilterHeight": kernel,
            "FusedActivationFunction": 0,
        }  # fmt: skip
        return self.add(f"{kind}_POOL_2D", (x,), (1, *sides, depth), "Pool2DOptions", options, x)

    def sum(self, a: int, b: int) -> int:
        """An addition."""
        return self.add("ADD", (a, b), self.shape(a), "AddOptions", {"FusedActivationFunction": 0})

    def concat(self, *parts: int) -> int:
        """A concatenation along the channels, of parts with the quantization of the first."""
        for part in parts[1:]:
            self.requantize(part, parts[0])
        shape = (*self.shape(parts[0])[:3], sum(self.shape(part)[3] for part in parts))
        options = {"Axis": 3, "FusedActivationFunction": 0}
        return self.add("CONCATENATION", parts, shape, "ConcatenationOptions", options, parts[0])

    def requantize(self, tensor: int, like: int) -> None:
        """Give a tensor the quantization of another one, if only layers and sums write and read it."""
        old = self.tensors[tensor]
        self.tensors[tensor] = FlatTensor(old.name, old.shape, old.dtype, self.tensors[like].quant)

    def resize(self, x: int, times: int = 2, kind: str = "NEAREST_NEIGHBOR", centres: bool = False) -> int:
        """A larger map."""
        _, height, width, depth = self.shape(x)
        sizes = self.constant([height * times, width * times], "INT32")
        options = {"AlignCorners": False, "HalfPixelCenters": centres}
        name = f"RESIZE_{kind}"
        kinds = {"NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions", "BILINEAR": "ResizeBilinearOptions"}
        return self.add(name, (x, sizes), (1, height * times, width * times, depth), kinds[kind], options, x)

    def transposed(self, x: int, channels: int, kernel: int = 2, stride: int = 2) -> int:
        """A transposed convolution."""
        _, height, width, depth = self.shape(x)
        shape = (1, height * stride, width * stride, channels)
        scale = float(np.float32(1 / (64 * (kernel * depth**0.5))))
        weights = self.constant(
            self.rng.integers(-127, 128, (channels, kernel, kernel, depth)), "INT8", Quant((scale,), (0,))
        )
        source = self.tensors[x].quant
        assert source is not None
        product = Quant((float(np.float32(source.scale) * np.float32(scale)),), (0,))
        bias = self.constant(self.rng.integers(-500, 500, channels), "INT32", product)
        options = {"Padding": SAME, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": 0}
        size = self.constant(shape, "INT32")
        return self.add("TRANSPOSE_CONV", (size, weights, x, bias), shape, "TransposeConvOptions", options)

    def pads(self, x: int, top: int, bottom: int, side: int) -> int:
        """Explicit pads."""
        _, height, width, depth = self.shape(x)
        sizes = self.constant([[0, 0], [top, bottom], [side, side], [0, 0]], "INT32")
        return self.add("PAD", (x, sizes), (1, height + top + bottom, width + 2 * side, depth), "PadOptions", {}, x)

    def head(self, x: int, classes: int = 10) -> int:
        """The mean of a map, and a fully connected layer."""
        axes = self.constant([1, 2], "INT32")
        mean = self.add("MEAN", (x, axes), (1, self.shape(x)[3]), "ReducerOptions", {"KeepDims": False})
        weights = self.constant(
            self.rng.integers(-127, 128, (classes, self.shape(x)[3])), "INT8", Quant((1 / 128,), (0,))
        )
        options = {"FusedActivationFunction": 0, "WeightsFormat": 0, "KeepNumDims": False}
        return self.add("FULLY_CONNECTED", (mean, weights, -1), (1, classes), "FullyConnectedOptions", options)

    def model(self, *outputs: int) -> FlatModel:
        """The model."""
        return FlatModel("main", tuple(self.tensors), (self.input,), outputs, tuple(self.operators))


def resnet(side: int = 224, width: int = 16) -> FlatModel:
    """ResNet-8 of MLPerf Tiny, for larger images."""
    net = Network((1, side, side, 3), 1)
    x = net.layer(net.input, width)
    for stage, channels in enumerate((width, 2 * width, 4 * width)):
        stride = 1 if stage == 0 else 2
        inner = net.layer(net.layer(x, channels, 3, stride), channels, 3, act=0)
        x = net.sum(inner, x if stride == 1 else net.layer(x, channels, 1, stride, act=0))
    return net.model(net.head(x))


def unet(side: int = 128, width: int = 12) -> FlatModel:
    """A U-Net of three levels."""
    net = Network((1, side, side, 3), 2)
    one = net.layer(net.layer(net.input, width), width)
    two = net.layer(net.layer(net.pool(one), 2 * width), 2 * width)
    low = net.layer(net.layer(net.pool(two), 4 * width), 4 * width)
    x = net.concat(net.transposed(low, 2 * width), two)
    x = net.layer(net.layer(x, 2 * width), 2 * width)
    x = net.concat(net.transposed(x, width), one)
    return net.model(net.layer(net.layer(net.layer(x, width), width), 2, 1, act=0))


_V2 = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(side: int = 224, stages: Sequence[tuple[int, int, int, int]] = _V2, stem: int = 32) -> FlatModel:
    """MobileNetV2: inverted residuals by expansion, channels, repetitions and stride."""
    net = Network((1, side, side, 3), 3)
    x = net.layer(net.input, stem, 3, 2)
    for times, channels, count, stride in stages:
        for number in range(count):
            depth = net.shape(x)[3]
            inner = net.layer(x, depth * times, 1) if times > 1 else x
            inner = net.layer(net.layer(inner, 0, 3, stride if number == 0 else 1), channels, 1, act=0)
            x = net.sum(inner, x) if number else inner
    return net.model(net.head(net.layer(x, 4 * net.shape(x)[3], 1)))


def efficientnet_lite(side: int = 160) -> FlatModel:
    """An EfficientNet-Lite: inverted residuals with windows of 3 and 5."""
    net = Network((1, side, side, 3), 4)
    x = net.layer(net.input, 24, 3, 2)
    for times, channels, count, stride, kernel in (
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 2, 1, 5),
    ):  # fmt: skip
        for number in range(count):
            inner = net.layer(x, net.shape(x)[3] * times, 1) if times > 1 else x
            inner = net.layer(net.layer(inner, 0, kernel, stride if number == 0 else 1), channels, 1, act=0)
            x = net.sum(inner, x) if number else inner
    return net.model(net.head(x))


def yolo(side: int = 192) -> FlatModel:
    """A detector: split-and-join blocks, and heads of two sizes."""
    net = Network((1, side, side, 3), 5)

    def block(x: int, channels: int) -> int:
        left, right = net.layer(x, channels // 2, 1), net.layer(x, channels // 2, 1)
        return net.layer(
            net.concat(left, net.sum(net.layer(net.layer(right, channels // 2), channels // 2), right)), channels, 1
        )

    x = block(net.layer(net.layer(net.input, 16, 3, 2), 32, 3, 2), 32)
    middle = block(net.layer(x, 64, 3, 2), 64)
    low = block(net.layer(middle, 96, 3, 2), 96)
    small = net.layer(net.layer(low, 96), 18, 1, act=0)
    joined = block(net.concat(net.resize(net.layer(low, 64, 1)), middle), 64)
    return net.model(small, net.layer(joined, 18, 1, act=0))


def pyramid(side: int = 160) -> FlatModel:
    """A feature pyramid: sums of levels that are made larger."""
    net = Network((1, side, side, 3), 6)
    levels = [net.layer(net.layer(net.input, 16, 3, 2), 24)]
    for channels in (32, 48, 64):
        levels.append(net.layer(net.layer(levels[-1], channels, 3, 2), channels))
    x = net.layer(levels[-1], 24, 1, act=0)
    outputs = [net.layer(x, 24)]
    for level in levels[-2::-1]:
        x = net.sum(net.resize(x), net.layer(level, 24, 1, act=0))
        outputs.append(net.layer(x, 24))
    return net.model(*outputs)


NETWORKS = {
    "mobilenet_v2_224": mobilenet_v2,
    "resnet8_224": resnet,
    "unet_128": unet,
    "efficientnet_lite_160": efficientnet_lite,
    "yolo_192": yolo,
    "pyramid_160": pyramid,
}
"""The networks of the bench."""


def random_network(seed: int) -> FlatModel:
    """A random network that branches and joins."""
    rng = np.random.default_rng(seed)
    net = Network((1, int(rng.integers(12, 40)), int(rng.integers(8, 20)), int(rng.integers(1, 9))), seed)
    live = [net.layer(net.input, int(rng.integers(4, 20)))]
    for _ in range(int(rng.integers(4, 12))):
        x = live[int(rng.integers(len(live)))]
        _, height, width, depth = net.shape(x)
        mates = [y for y in live if y != x and net.shape(y)[1:3] == (height, width)]
        alike = [y for y in mates if net.shape(y) == net.shape(x)]
        kind = int(rng.integers(11))
        if kind < 3:
            kernel = int(rng.choice([1, 3, 5]))
            stride, dilation = (int(rng.integers(1, 3)), 1) if rng.random() < 0.8 else (1, 2)
            fits = min(height, width) > (kernel - 1) * dilation
            channels = 0 if rng.random() < 0.4 else int(rng.integers(4, 24))
            live.append(
                net.layer(
                    x, channels, kernel, stride, VALID if fits and rng.random() < 0.3 else SAME, dilation=dilation
                )
            )
        elif kind == 3 and min(height, width) > 3:
            pad = SAME if rng.random() < 0.4 else VALID
            pool = ("MAX", "AVERAGE")[int(rng.integers(2))]
            live.append(net.pool(x, int(rng.integers(2, 4)), int(rng.integers(1, 3)), pool, pad))
        elif kind in (4, 5) and alike:
            live.append(net.sum(x, alike[int(rng.integers(len(alike)))]))
        elif kind == 6 and mates:
            layers = [net.layer(y, int(rng.integers(4, 12)), 1) for y in (x, mates[0])]
            live.append(net.concat(*layers))
        elif kind == 7 and height < 40:
            name = ("NEAREST_NEIGHBOR", "BILINEAR")[int(rng.integers(2))]
            live.append(net.resize(x, 2, name, bool(rng.integers(2))))
        elif kind == 8 and height < 40:
            live.append(net.transposed(x, int(rng.integers(4, 12)), int(rng.choice([2, 3, 4]))))
        elif kind == 9:
            live.append(net.pads(x, int(rng.integers(3)), int(rng.integers(3)), int(rng.integers(2))))
        else:
            live.append(net.sum(x, net.layer(x, depth, 3)))
    read = {i for op in net.operators for i in op.inputs}
    ends = [i for op in net.operators for i in op.outputs if i not in read]
    if rng.random() < 0.5:
        ends[-1] = net.head(ends[-1])
    return net.model(*ends)
