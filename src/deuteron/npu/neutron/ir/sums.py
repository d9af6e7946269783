"""Exact integer sums of convolutions, fully connected layers and average pooling."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from deuteron.npu.neutron.ir import ops

I64 = npt.NDArray[np.int64]
Shape = tuple[int, ...]
Pool = ops.AveragePool2D | ops.MaxPool2D
Weighted = ops.Conv2D | ops.DepthwiseConv2D | ops.TransposeConv | ops.FullyConnected


def weighted_sums(op: Weighted, x: I64, weights: I64, out_shape: Shape) -> I64:
    """Return the sum of x times weight for each output element, without bias; x is without zero point."""
    match op:
        case ops.FullyConnected():
            return _product(x.reshape(-1, weights.shape[1]), weights).reshape(out_shape)
        case ops.Conv2D():
            total = np.zeros(out_shape, np.int64)
            for (i, j), taps in _conv_taps(op, x, weights, out_shape):
                total += _product(taps, weights[:, i, j, :])
        case ops.DepthwiseConv2D():
            total = np.zeros(out_shape, np.int64)
            for (i, j), taps in _conv_taps(op, np.repeat(x, op.multiplier, axis=3), weights, out_shape):
                total += taps * weights[0, i, j]
        case ops.TransposeConv():
            total = _spread(op, x, weights, out_shape)
    return total


def products(op: ops.BatchMatMul, x: I64, y: I64) -> I64:
    """Return the stacked matrix products; both operands are without zero points."""
    a = x.swapaxes(-1, -2) if op.adj_x else x
    return _product(a, y if op.adj_y else y.swapaxes(-1, -2))


def pool_taps(op: Pool, x: I64, outside: int, out_shape: Shape) -> Iterator[I64]:
    """Yield for each position in the window the elements there, one per output element; padding is `outside`."""
    for _, taps in _taps(_pad_map(x, op.pads, outside), op.window, op.stride, (1, 1), out_shape):
        yield taps


def pool_counts(op: Pool, in_shape: Shape, out_shape: Shape) -> I64:
    """Return the number of elements of each window inside the map, [1, out_h, out_w, 1]."""
    inside = np.ones((1, *in_shape[1:3], 1), np.int64)
    return np.sum([*pool_taps(op, inside, 0, out_shape)], axis=0)


def _product(x: I64, weights: I64) -> I64:
    """Return x times the transposed weights; float64 is exact, because sums are far below 2^53."""
    return (x.astype(np.float64) @ weights.astype(np.float64).swapaxes(-1, -2)).astype(np.int64)


def _spread(op: ops.TransposeConv, x: I64, weights: I64, out_shape: Shape) -> I64:
    """Return the sums of a transposed convolution: each element of x times the kernel, scattered to the output."""
    (n, out_h, out_w, out_c), (_, h, w, _), (_, kernel_h, kernel_w, _) = out_shape, x.shape, weights.shape
    (down, right), pads = op.stride, op.pads
    full = (
        n,
        max((h - 1) * down + kernel_h, pads.top + out_h),
        max((w - 1) * right + kernel_w, pads.left + out_w),
        out_c,
    )
    total = np.zeros(full, np.int64)
    for i in range(kernel_h):
        for j in range(kernel_w):
            rows, columns = slice(i, i + (h - 1) * down + 1, down), slice(j, j + (w - 1) * right + 1, right)
            total[:, rows, columns] += _product(x, weights[:, i, j, :])
    return total[:, pads.top : pads.top + out_h, pads.left : pads.left + out_w]


def _conv_taps(
    op: ops.Conv2D | ops.DepthwiseConv2D, x: I64, weights: I64, out_shape: Shape
) -> Iterator[tuple[ops.Pair, I64]]:
    kernel = (weights.shape[1], weights.shape[2])
    return _taps(_pad_map(x, op.pads, 0), kernel, op.stride, op.dilation, out_shape)


def _pad_map(x: I64, pads: ops.Pads, value: int) -> I64:
    around = ((0, 0), (pads.top, pads.bottom), (pads.left, pads.right), (0, 0))
    return np.pad(x, around, constant_values=value)


def _taps(
    padded: I64, kernel: ops.Pair, stride: ops.Pair, dilation: ops.Pair, out_shape: Shape
) -> Iterator[tuple[ops.Pair, I64]]:
    """Yield each kernel position, and its input elements, one per output position."""
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            top, left = i * dilation[0], j * dilation[1]
            bottom = top + (out_shape[1] - 1) * stride[0] + 1
            right = left + (out_shape[2] - 1) * stride[1] + 1
            yield (i, j), padded[:, top : bottom : stride[0], left : right : stride[1], :]
