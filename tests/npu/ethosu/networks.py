"""Small networks in TFLite for Vela, and the accelerators that it compiles them for."""

from dataclasses import replace

import numpy as np
from tests.npu.neutron.tflite import cases

from deuteron.npu.neutron.ir import ops
from deuteron.npu.neutron.ir.graph import Graph

ACCELERATORS = (
    "ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512",
    "ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-1024", "ethos-u85-2048",
)  # fmt: skip
KINDS = {
    "conv": cases.conv_2d,
    "depthwise": cases.depthwise_conv_2d,
    "linear": cases.fully_connected,
    "add": cases.binary(ops.Add, 2.0),
    "max_pool": cases.pool(ops.MaxPool2D),
    "softmax": cases.softmax,
    "resize": cases.resize(ops.ResizeBilinear),
}


def network() -> Graph:
    """A convolution, a table, a depthwise convolution, a convolution and a sum: 12x12x8 to 12x12x16."""
    rng = np.random.default_rng(5)
    x, table = cases.quant(rng), cases.SOFTMAX_QUANT
    shape, around, origin = (1, 12, 12, 16), ops.Pads(1, 1, 1, 1), cases.ORIGIN
    w0, b0, a = cases.weighted_operands(rng, x, (16, 3, 3, 8), 0, 72)
    w1, b1, c = cases.weighted_operands(rng, table, (1, 3, 3, 16), 3, 9)
    w2, b2, d = cases.weighted_operands(rng, c, (16, 1, 1, 16), 0, 16)
    constants = zip(("w0", "b0", "w1", "b1", "w2", "b2"), (w0, b0, w1, b1, w2, b2), strict=True)
    return Graph(
        "network",
        (
            cases.act("x", (1, 12, 12, 8), x),
            *(cases.act(name, shape, q) for name, q in (("a", a), ("b", table), ("c", c), ("d", d), ("y", d))),
            *(replace(tensor, name=name) for name, tensor in constants),
        ),
        ("x",),
        ("y",),
        (
            ops.Conv2D(inputs=("x", "w0", "b0"), outputs=("a",), origin=origin, pads=around),
            ops.Unary(inputs=("a",), outputs=("b",), origin=origin, function=ops.Function.LOGISTIC),
            ops.DepthwiseConv2D(inputs=("b", "w1", "b1"), outputs=("c",), origin=origin, pads=around),
            ops.Conv2D(inputs=("c", "w2", "b2"), outputs=("d",), origin=origin),
            ops.Add(inputs=("d", "b"), outputs=("y",), origin=origin),
        ),
    )


def transposed_table() -> Graph:
    """A table behind a transpose, which Vela 5.1.0 places behind the SHRAM of the smallest configurations."""
    q, shape = cases.quant(np.random.default_rng(0)), (1, 8, 4, 6)
    tensors = cases.act("x", (1, 4, 6, 8), q), cases.act("a", shape, q), cases.act("y", shape, cases.SOFTMAX_QUANT)
    transpose = ops.Transpose(inputs=("x",), outputs=("a",), origin=cases.ORIGIN, perm=(0, 3, 1, 2))
    table = ops.Unary(inputs=("a",), outputs=("y",), origin=cases.ORIGIN, function=ops.Function.LOGISTIC)
    return Graph("transposed", tensors, ("x",), ("y",), (transpose, table))
