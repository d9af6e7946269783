"""Dead channels: LiteRT gives the same bytes for a model with and without them."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.cortex_m.operator_library import OperatorLibrary
from tests.tflite.cortex_m.running import run
from tests.tflite.test_normalize import Net, q

from deuteron.runtime.litert import Litert
from deuteron.tflite.cortex_m.dead_channels import RemovedChannels, macs, without_dead_channels
from deuteron.tflite.encode import encode
from deuteron.tflite.flat_model import FlatModel, FlatTensor
from deuteron.tflite.quantization import Quant
from deuteron.tflite.unsigned import signed

Rng = np.random.Generator
SAME, VALID = 0, 1


class Graph(Net):
    """A random network of layers with zeroed channels, and operators that act on each channel."""

    def __init__(self, rng: Rng, dtype: str = "INT8") -> None:
        super().__init__()
        self.rng, self.dtype = rng, dtype

    def activation(self, shape: Sequence[int], quant: Quant | None = None) -> int:
        """A tensor that is computed."""
        low, high = (-20, 20) if self.dtype == "INT8" else (0, 1)
        point = int(self.rng.integers(low, high)) + (128 if self.dtype == "UINT8" else 0)
        return self.tensor(shape, self.dtype, quant or q(float(self.rng.uniform(0.02, 0.1)), point))

    def quant(self, tensor: int) -> Quant:
        """The quantization of a tensor for all of it."""
        found = self.tensors[tensor].quant
        assert found is not None
        return found

    def layer(self, name: str, x: int, outputs: int, kernel: int = 1, padding: int = VALID) -> int:
        """A layer of which some outputs have only zeros for weights, and some inputs, too."""
        rng, shape = self.rng, self.tensors[x].shape
        depthwise = name == "DEPTHWISE_CONV_2D"
        inner = (kernel, kernel) if len(shape) == 4 else ()
        sizes = (1, *inner, outputs) if depthwise else (outputs, *inner, shape[-1])
        weights = rng.integers(-127, 128, sizes).astype(np.int8)
        dead = rng.random(outputs) < rng.choice([0, 0.4, 1], p=[0.3, 0.6, 0.1])
        weights[(..., dead) if depthwise else dead] = 0
        if not depthwise:
            weights[..., rng.random(shape[-1]) < 0.2] = 0
        if self.dtype == "UINT8":
            of_weights, stored = q(0.01, 120), (weights.astype(np.int16) // 2 + 120).astype(np.uint8)
            scales = [0.01]
        else:
            scales = [float(np.float32(s)) for s in rng.uniform(0.002, 0.02, outputs)]
            stored = weights
            of_weights = Quant(
                tuple(scales), (0,) * outputs, (len(sizes) - 1 if depthwise else 0) if outputs > 1 else None
            )
        w = self.tensor(sizes, self.dtype if self.dtype == "UINT8" else "INT8", of_weights, stored.tobytes())
        products = tuple(float(np.float32(self.quant(x).scale) * np.float32(s)) for s in scales)
        wide = self.dtype == "INT16"
        values = rng.integers(-3000, 3000, outputs).astype("<i8" if wide else "<i4")
        of_bias = Quant(products, (0,) * len(products), 0 if len(products) > 1 else None)
        self.tensors.append(
            FlatTensor(f"b{len(self.tensors)}", (outputs,), "INT64" if wide else "INT32", of_bias, values.tobytes())
        )
        inputs = [x, w, len(self.tensors) - 1] if name != "FULLY_CONNECTED" or rng.random() < 0.5 else [x, w]
        activation = int(rng.choice([0, 1, 3]))
        if len(shape) == 2:
            y = self.activation((shape[0], outputs))
            return self.op(name, inputs, [y], "FullyConnectedOptions", FusedActivationFunction=activation)
        stride = int(rng.integers(1, 3))
        rows = [-(-n // stride) if padding == SAME else (n - kernel) // stride + 1 for n in shape[1:3]]
        y = self.activation((shape[0], *rows, outputs))
        options = {"Padding": padding, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": activation}
        options |= {"DilationWFactor": 1, "DilationHFactor": 1}
        if depthwise:
            options["DepthMultiplier"] = outputs // shape[-1]
        return self.op(name, inputs, [y], "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions", **options)

    def transposed(self, x: int, outputs: int) -> int:
        """A TRANSPOSE_CONV of which some outputs have only zeros for weights, and some inputs, too."""
        rng, (batches, height, width, channels) = self.rng, self.tensors[x].shape
        stride, kernel = int(rng.integers(1, 3)), int(rng.integers(1, 4))
        weights = rng.integers(-127, 128, (outputs, kernel, kernel, channels)).astype(np.int8)
        weights[rng.random(outputs) < 0.4] = 0
        weights[..., rng.random(channels) < 0.3] = 0
        shape = (batches, height * stride, width * stride, outputs)
        w = self.tensor(weights.shape, "INT8", q(0.01, 0), weights.tobytes())
        inputs = [self.constant(shape), w, x]
        if rng.integers(2):
            of_bias = q(float(np.float32(self.quant(x).scale) * np.float32(0.01)), 0)
            values = rng.integers(-3000, 3000, outputs).astype("<i4").tobytes()
            self.tensors.append(FlatTensor(f"b{len(self.tensors)}", (outputs,), "INT32", of_bias, values))
            inputs.append(len(self.tensors) - 1)
        options = {"Padding": SAME, "StrideW": stride, "StrideH": stride, "FusedActivationFunction": 0}
        return self.op("TRANSPOSE_CONV", inputs, [self.activation(shape)], "TransposeConvOptions", **options)

    def step(self, x: int, earlier: Sequence[int]) -> int:
        """One more operator."""
        rng, shape = self.rng, self.tensors[x].shape
        channels, like = shape[-1], [i for i in earlier if self.tensors[i].shape == shape and i != x]
        match int(rng.integers(11 if self.dtype == "INT8" else 4)):
            case 0 | 1:
                side, padding = min(shape[1:3]), int(rng.integers(2))
                return self.layer(
                    "CONV_2D", x, int(rng.integers(1, 9)), int(rng.integers(1, min(3, side) + 1)), padding
                )
            case 2:
                outputs = channels * int(rng.integers(1, 3))
                return self.layer("DEPTHWISE_CONV_2D", x, outputs, min(3, *shape[1:3]), int(rng.integers(2)))
            case 3 if like:
                y = self.activation(shape)
                name, kind = [("ADD", "AddOptions"), ("MUL", "MulOptions"), ("SUB", "SubOptions")][int(rng.integers(3))]
                name, kind = ("ADD", "AddOptions") if self.dtype == "UINT8" else (name, kind)
                return self.op(
                    name, [x, int(rng.choice(like))], [y], kind, FusedActivationFunction=int(rng.integers(2))
                )
            case 4:
                constant = self.tensor(
                    (channels,), "INT8", q(0.03, 2), rng.integers(-128, 128, channels).astype(np.int8).tobytes()
                )
                return self.op("ADD", [x, constant], [self.activation(shape)], "AddOptions")
            case 5:
                name = str(rng.choice(["AVERAGE_POOL_2D", "MAX_POOL_2D"]))
                y = self.activation((shape[0], *(-(-n // 2) for n in shape[1:3]), channels), self.quant(x))
                options = {"Padding": SAME, "StrideW": 2, "StrideH": 2, "FilterWidth": 2, "FilterHeight": 2}
                return self.op(name, [x], [y], "Pool2DOptions", FusedActivationFunction=int(rng.integers(2)), **options)
            case 6:
                name = str(rng.choice(["RELU", "RELU6", "LEAKY_RELU", "HARD_SWISH", "QUANTIZE"]))
                kind = {"LEAKY_RELU": "LeakyReluOptions", "QUANTIZE": "QuantizeOptions"}.get(name, "")
                return self.op(name, [x], [self.activation(shape)], kind, **({"Alpha": 0.1} if "LEAKY" in name else {}))
            case 7:
                pads = self.constant([[0, 0], [1, 0], [0, 1], [0, 0]])
                return self.op(
                    "PAD",
                    [x, pads],
                    [self.activation((shape[0], shape[1] + 1, shape[2] + 1, channels), self.quant(x))],
                    "PadOptions",
                )
            case 8 if [i for i in earlier if self.tensors[i].shape[:3] == shape[:3]]:
                others = [i for i in earlier if self.tensors[i].shape[:3] == shape[:3]]
                other = int(rng.choice(others))
                if self.quant(other) != self.quant(x):
                    other = self.op(
                        "QUANTIZE",
                        [other],
                        [self.activation(self.tensors[other].shape, self.quant(x))],
                        "QuantizeOptions",
                    )
                y = self.activation((*shape[:3], channels + self.tensors[other].shape[-1]), self.quant(x))
                return self.op("CONCATENATION", [x, other], [y], "ConcatenationOptions", Axis=3)
            case 9 if math.prod(shape) < 2000:
                return self.transposed(x, int(rng.integers(2, 9)))
            case _:
                return self.layer("CONV_2D", x, int(rng.integers(2, 9)), 1)


def random_model(rng: Rng, dtype: str = "INT8") -> FlatModel:
    """A network that ends in a fully connected layer, after a mean or a flattened map."""
    graph = Graph(rng, dtype)
    x = graph.activation((int(rng.integers(1, 3)), 6, 6, int(rng.integers(1, 5))))
    earlier = [x]
    for _ in range(int(rng.integers(2, 8))):
        earlier.append(graph.step(earlier[-1], earlier))
    y = earlier[-1]
    shape = graph.tensors[y].shape
    if dtype == "INT8" and rng.random() < 0.5:
        axes = graph.constant([1, 2])
        y = graph.op("MEAN", [y, axes], [graph.activation((shape[0], shape[3]))], "ReducerOptions", KeepDims=False)
    else:
        size = math.prod(shape[1:])
        y = graph.op(
            "RESHAPE",
            [y, graph.constant([shape[0], size])],
            [graph.activation((shape[0], size), graph.quant(y))],
            "ReshapeOptions",
        )
    return graph.model([x], [graph.layer("FULLY_CONNECTED", y, int(rng.integers(1, 6)))])


def need_the_same(
    c_operators: OperatorLibrary, model: FlatModel, rng: Rng
) -> tuple[FlatModel, tuple[RemovedChannels, ...]]:
    """The model without dead channels, whose outputs are those that LiteRT gives for the model."""
    shorter, removed = without_dead_channels(signed(model))
    litert = Litert(encode(model))
    dtype = model.tensors[model.inputs[0]].dtype.lower()
    limits = np.iinfo(dtype)
    after = Litert(encode(shorter)).run if dtype != "uint8" else lambda inputs: run(c_operators, shorter, inputs)
    for _ in range(2):
        x = rng.integers(limits.min, limits.max + 1, model.tensors[model.inputs[0]].shape).astype(dtype)
        for a, b in zip(litert.run([x]), after([x]), strict=True):
            np.testing.assert_array_equal(a, b)
    return shorter, removed


@pytest.mark.parametrize("dtype", ["INT8", "INT16", "UINT8"])
def test_random_networks_keep_their_bytes(dtype: str, c_operators: OperatorLibrary) -> None:
    gone, layers = 0, set[str]()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        model = random_model(rng, dtype)
        shorter, removed = need_the_same(c_operators, model, rng)
        fewer = macs(signed(model)) - macs(shorter)
        assert sum(each.macs - each.macs_left for each in removed) == fewer
        gone += fewer
        layers |= {each.op for each in removed}
    assert gone > 0
    assert dtype != "INT8" or "TRANSPOSE_CONV" in layers


def conv(net: Net, x: int, weights: object, bias: Sequence[int], padding: int = VALID) -> int:
    """A CONV_2D with a window of weights [outputs, height, width, inputs]."""
    values = np.asarray(weights, np.int8)
    w = net.tensor(values.shape, "INT8", q(0.01, 0), values.tobytes())
    of_bias = q(float(np.float32(0.05) * np.float32(0.01)), 0)
    net.tensors.append(
        FlatTensor(f"b{len(net.tensors)}", (len(bias),), "INT32", of_bias, np.array(bias, "<i4").tobytes())
    )
    rows, columns = net.tensors[x].shape[1:3]
    if padding == VALID:
        rows, columns = rows - values.shape[1] + 1, columns - values.shape[2] + 1
    y = net.tensor((1, rows, columns, len(values)))
    options = {"Padding": padding, "StrideW": 1, "StrideH": 1, "DilationWFactor": 1, "DilationHFactor": 1}
    return net.op("CONV_2D", [x, w, len(net.tensors) - 2], [y], "Conv2DOptions", **options)


def window(outputs: int, inputs: int, size: int = 1) -> np.ndarray:
    """Weights other than zero."""
    return np.arange(1, outputs * inputs * size * size + 1).reshape(outputs, size, size, inputs)


@pytest.mark.parametrize(
    ("value", "padding", "removed"), [(0, SAME, 1), (700, VALID, 1), (700, SAME, 0)], ids=["zero", "bias", "padded"]
)
def test_a_constant_goes_into_the_bias_unless_padding_lies_beside_it(
    value: int, padding: int, removed: int, c_operators: OperatorLibrary
) -> None:
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    weights = window(3, 2)
    weights[1] = 0
    y = conv(net, x, weights, [5, value, -9])
    model = net.model([x], [conv(net, y, window(2, 3, 3), [10, 20], padding)])
    shorter, found = need_the_same(c_operators, model, np.random.default_rng(0))
    assert shorter.tensors[y].shape[-1] == 3 - removed
    assert [each.constant for each in found] == [1, 0][: 2 * removed]


def test_a_channel_that_only_weights_of_zero_read_is_removed_through_a_residual(c_operators: OperatorLibrary) -> None:
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    a = conv(net, x, window(4, 2), [1, 2, 3, 4])
    b = conv(net, a, window(4, 4), [4, 3, 2, 1])
    y = net.op("ADD", [a, b], [net.tensor((1, 4, 4, 4))], "AddOptions")
    last = window(2, 4)
    last[..., 2] = 0
    inner = net.operators[1].inputs[1]
    of_b = window(4, 4)
    of_b[..., 2] = 0
    net.tensors[inner] = replace(net.tensors[inner], data=of_b.astype(np.int8).tobytes())
    model = net.model([x], [conv(net, y, last, [0, 0])])
    shorter, found = need_the_same(c_operators, model, np.random.default_rng(0))
    assert [shorter.tensors[i].shape[-1] for i in (a, b, y)] == [3, 3, 3]
    assert found == (
        RemovedChannels("CONV_2D", f"t{a}", 4, 0, 1, 128, 96),
        RemovedChannels("CONV_2D", f"t{b}", 4, 0, 1, 256, 144),
        RemovedChannels("CONV_2D", f"t{model.outputs[0]}", 2, 0, 0, 128, 96),
    )


def test_outputs_of_the_model_keep_their_channels() -> None:
    net = Net()
    x = net.tensor((1, 4, 4, 2))
    model = net.model([x], [conv(net, x, np.zeros((3, 1, 1, 2)), [5, 6, 7])])
    assert without_dead_channels(model) == (model, ())
