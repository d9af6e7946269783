"""Matrix products: fully connected layers, batches of matrices."""

import numpy as np
from tests.graphs.builder import AWKWARD, MAX_ELEMENTS, Builder
from tests.graphs.windows import weight_scales

from deuteron.npu.neutron.ir.ops import BatchMatMul, FullyConnected, Transpose
from deuteron.npu.neutron.ir.types import Tensor


def fully_connected(build: Builder, x: Tensor) -> None:
    """A fully connected layer; its weights may be a transpose of a constant, its result a matrix."""
    width = x.type.shape[-1]
    height = build.pick(AWKWARD)
    if x.type.numel // width * height > MAX_ELEMENTS:
        return
    quant, step = weight_scales(build, height, 0, width)
    weights = build.constant((height, width), quant)
    if quant.axis is None and build.chance(0.3):
        weights = _transposed_weights(build, weights)
    bias = build.bias(height, x.type.q, quant)
    out = build.quant(step * x.type.q.scale)
    outputs, origin = build.fields()
    op = FullyConnected(
        inputs=(x.name, weights.name, bias.name), outputs=outputs, origin=origin, clamp=build.clamp(out)
    )
    build.emit(op, out, (*x.type.shape[:-1], height) if build.chance(0.5) else ())


def _transposed_weights(build: Builder, weights: Tensor) -> Tensor:
    """The same weights as a transpose of a constant, as ExecuTorch's converter leaves them."""
    stored = np.asarray(weights.array(), np.int64).T
    flipped = build.constant(stored.shape, weights.type.q, stored)
    outputs, origin = build.fields()
    turned = build.emit(Transpose(inputs=(flipped.name,), outputs=outputs, origin=origin, perm=(1, 0)), weights.type.q)
    build.values.pop()  # not an activation
    return turned


def batch_matmul(build: Builder, x: Tensor) -> None:
    """A product with another value of the graph, with itself, or with a constant."""
    if len(x.type.shape) < 2:
        return
    *lead, rows, depth = x.type.shape
    adj_x, adj_y = build.chance(0.3), build.chance(0.3)
    if adj_x:
        rows, depth = depth, rows
    alike = [
        name
        for name in build.values
        if (shape := build.tensor(name).type.shape)[:-2] == tuple(lead)
        and len(shape) == len(lead) + 2
        and shape[-1 if adj_y else -2] == depth
    ]
    if alike and build.chance(0.7):
        y = build.tensor(build.pick(alike))
    else:
        columns = build.pick(AWKWARD)
        shape = (*lead, columns, depth) if adj_y else (*lead, depth, columns)
        y = build.constant(shape, build.quant())
    columns = y.type.shape[-2 if adj_y else -1]
    if x.type.numel // depth * columns > MAX_ELEMENTS or y.type.numel > MAX_ELEMENTS:
        return
    out = build.quant(x.type.q.scale * y.type.q.scale * 60 * depth**0.5 * build.factor(0.3, 3))
    outputs, origin = build.fields()
    op = BatchMatMul(inputs=(x.name, y.name), outputs=outputs, origin=origin, adj_x=adj_x, adj_y=adj_y)
    build.emit(op, out)
