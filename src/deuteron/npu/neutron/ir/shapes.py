"""Shape inference: output sizes, paddings and broadcasting for the verifier, the readers and the compiler."""

import math

from deuteron.errors import InternalError, VerifyError
from deuteron.npu.neutron.ir import ops

Shape = tuple[int, ...]


def extent(kernel: int, dilation: int = 1) -> int:
    """Return the extent of a dilated kernel in elements."""
    return (kernel - 1) * dilation + 1


def window_count(size: int, kernel: int, stride: int, dilation: int = 1, pads: ops.Pair = (0, 0)) -> int:
    """Return the number of windows along one dimension; below 1 if the kernel does not fit."""
    return (size + pads[0] + pads[1] - extent(kernel, dilation)) // stride + 1


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> ops.Pair:
    """Return (before, after) padding for ceil(size / stride) windows; an odd element is after, as in TFLite's SAME."""
    total = max(0, (-(-size // stride) - 1) * stride + extent(kernel, dilation) - size)
    return total // 2, total - total // 2


def resize_positions(
    in_size: int, out_size: int, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> tuple[int, int, int]:
    """Return (start, step, unit): output i is at (start + i * step) / unit of the input, before clamping.

    `ir.ops.ResizeBilinear` states the three formulas; numbers are as small as they can be.
    """
    if half_pixel_centers:
        start, step, unit = in_size - out_size, 2 * in_size, 2 * out_size
    elif align_corners:
        start, step, unit = 0, in_size - 1 if out_size > 1 else 0, max(1, out_size - 1)
    else:
        start, step, unit = 0, in_size, out_size
    common = math.gcd(start, step, unit)
    return start // common, step // common, unit // common


def broadcast(a: Shape, b: Shape) -> Shape:
    """Return the broadcast shape of two operands: aligned at the innermost dimension, sizes equal or 1."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    out: list[int] = []
    for x, y in pairs:
        if x != y and 1 not in (x, y):
            raise VerifyError(f"shapes {_text(a)} and {_text(b)} do not broadcast")
        out.append(max(x, y))
    return tuple(out)


def output_shape(op: ops.Op, inputs: tuple[Shape, ...], declared: Shape) -> Shape:
    """Return the shape of the op's output; `declared` if the op allows several and it is one of them.

    Raises:
        VerifyError: the inputs' shapes do not fit the op; the message has the reason.
    """
    match op:
        case ops.Conv2D() | ops.DepthwiseConv2D():
            return _conv(op, *inputs)
        case ops.TransposeConv():
            return _transpose_conv(op, *inputs)
        case ops.FullyConnected():
            return _fully_connected(*inputs, declared=declared)
        case ops.BatchMatMul():
            return _batch_matmul(op, *inputs)
        case ops.Add() | ops.Sub() | ops.Mul() | ops.Maximum() | ops.Minimum():
            return broadcast(*inputs)
        case ops.Prelu():
            _need(broadcast(*inputs) == inputs[0], f"alpha {_text(inputs[1])} does not broadcast to {_text(inputs[0])}")
            return inputs[0]
        case ops.AveragePool2D() | ops.MaxPool2D():
            n, h, w, c = _nhwc(inputs[0])
            out_h, out_w = _map_size((h, w), op.window, op.stride, (1, 1), op.pads)
            return (n, out_h, out_w, c)
        case ops.ReductionOp():
            return _reduce(op.axes, inputs[0], declared)
        case ops.ResizeBilinear() | ops.ResizeNearest():
            return _resize(inputs[0], declared)
        case ops.Pad():
            return _pad(op.paddings, inputs[0])
        case ops.MirrorPad():
            shape = _pad(op.paddings, inputs[0])
            pairs = zip(op.paddings, inputs[0], strict=True)
            _need(
                all(max(pair) < dim for pair, dim in pairs),
                f"a padding reaches beyond the far edge of {_text(inputs[0])}",
            )
            return shape
        case ops.Reshape():
            _need(math.prod(inputs[0]) == math.prod(declared), f"{_text(inputs[0])} has another number of elements")
            return declared
        case ops.Transpose():
            fits = sorted(op.perm) == list(range(len(inputs[0])))
            _need(fits, f"{_text(op.perm)} does not permute {_text(inputs[0])}")
            return tuple(inputs[0][i] for i in op.perm)
        case ops.Concat():
            return _concat(op.axis, inputs)
        case ops.Slice():
            return _slice(op.begin, inputs[0], declared)
        case ops.Softmax():
            _need(len(inputs[0]) > 0, "a scalar has no innermost dimension")
            return inputs[0]
        case ops.Quantize() | ops.Unary() | ops.LeakyRelu() | ops.Lookup():
            return inputs[0]
        case _:
            raise InternalError(f"operator {type(op).__name__} has no shape rule")


def _conv(op: ops.Conv2D | ops.DepthwiseConv2D, x: Shape, weights: Shape, bias: Shape) -> Shape:
    n, h, w, c = _nhwc(x)
    _need(len(weights) == 4, f"weights have shape {_text(weights)}, rank 4 is required")
    if isinstance(op, ops.DepthwiseConv2D):
        one, kh, kw, out_c = weights
        fits = (one, out_c) == (1, c * op.multiplier)
        _need(fits, f"weights {_text(weights)} do not fit {c} input channels times {op.multiplier}")
    else:
        out_c, kh, kw, in_c = weights
        _need(in_c == c, f"weights {_text(weights)} do not fit {c} input channels")
    _need(bias == (out_c,), f"bias has shape {_text(bias)}, [{out_c}] is required")
    out_h, out_w = _map_size((h, w), (kh, kw), op.stride, op.dilation, op.pads)
    return (n, out_h, out_w, out_c)


def _transpose_conv(op: ops.TransposeConv, x: Shape, weights: Shape, bias: Shape) -> Shape:
    n, h, w, c = _nhwc(x)
    _need(len(weights) == 4, f"weights have shape {_text(weights)}, rank 4 is required")
    out_c, kh, kw, in_c = weights
    _need(in_c == c, f"weights {_text(weights)} do not fit {c} input channels")
    _need(bias == (out_c,), f"bias has shape {_text(bias)}, [{out_c}] is required")
    out_h = (h - 1) * op.stride[0] + kh - op.pads.top - op.pads.bottom
    out_w = (w - 1) * op.stride[1] + kw - op.pads.left - op.pads.right
    _need(min(out_h, out_w) >= 1, f"pads leave {out_h}x{out_w} of the map")
    return (n, out_h, out_w, out_c)


def _map_size(size: ops.Pair, kernel: ops.Pair, stride: ops.Pair, dilation: ops.Pair, pads: ops.Pads) -> ops.Pair:
    out_h = window_count(size[0], kernel[0], stride[0], dilation[0], (pads.top, pads.bottom))
    out_w = window_count(size[1], kernel[1], stride[1], dilation[1], (pads.left, pads.right))
    _need(min(out_h, out_w) >= 1, f"a {kernel[0]}x{kernel[1]} window does not fit the padded {size[0]}x{size[1]} map")
    return out_h, out_w


def _fully_connected(x: Shape, weights: Shape, bias: Shape, *, declared: Shape) -> Shape:
    _need(len(weights) == 2, f"weights have shape {_text(weights)}, rank 2 is required")
    features_out, features_in = weights
    _need(bias == (features_out,), f"bias has shape {_text(bias)}, [{features_out}] is required")
    rows, rest = divmod(math.prod(x), features_in)
    _need(rest == 0, f"input {_text(x)} is not made of rows of {features_in} elements")
    if declared[-1:] == (features_out,) and math.prod(declared[:-1]) == rows:
        return declared
    return (rows, features_out)


def _reduce(axes: tuple[int, ...], x: Shape, declared: Shape) -> Shape:
    _need(
        bool(axes) and list(axes) == sorted(set(axes)) and 0 <= axes[0] and axes[-1] < len(x),
        f"axes {_text(axes)} are not sorted, distinct axes of {_text(x)}",
    )
    kept = tuple(1 if i in axes else dim for i, dim in enumerate(x))
    return kept if declared == kept else tuple(dim for i, dim in enumerate(x) if i not in axes)


def _batch_matmul(op: ops.BatchMatMul, x: Shape, y: Shape) -> Shape:
    fits = len(x) == len(y) >= 2 and x[:-2] == y[:-2]
    _need(fits, f"{_text(x)} and {_text(y)} are not stacks of equally many matrices")
    rows, depth = x[-2:][::-1] if op.adj_x else x[-2:]
    height, columns = y[-2:][::-1] if op.adj_y else y[-2:]
    _need(depth == height, f"rows of {depth} elements do not meet columns of {height}")
    return (*x[:-2], rows, columns)


def _resize(x: Shape, declared: Shape) -> Shape:
    n, _, _, c = _nhwc(x)
    _need(len(declared) == 4 and (declared[0], declared[3]) == (n, c), f"{_text(x)} has other batches or channels")
    return declared


def _pad(paddings: tuple[ops.Pair, ...], x: Shape) -> Shape:
    _need(len(paddings) == len(x), f"{len(paddings)} paddings do not fit {_text(x)}")
    _need(all(pad >= 0 for pair in paddings for pad in pair), "a padding is negative")
    return tuple(before + dim + after for dim, (before, after) in zip(x, paddings, strict=True))


def _concat(axis: int, inputs: tuple[Shape, ...]) -> Shape:
    first = inputs[0]
    _need(0 <= axis < len(first), f"axis {axis} is outside {_text(first)}")
    for shape in inputs[1:]:
        same = (*shape[:axis], first[axis], *shape[axis + 1 :]) == first
        _need(same, f"{_text(first)} and {_text(shape)} differ outside axis {axis}")
    return (*first[:axis], sum(shape[axis] for shape in inputs), *first[axis + 1 :])


def _slice(begin: tuple[int, ...], x: Shape, declared: Shape) -> Shape:
    inside = len(begin) == len(x) == len(declared) and all(
        0 <= b and b + size <= dim for b, size, dim in zip(begin, declared, x, strict=True)
    )
    _need(inside, f"the box of {_text(declared)} at {_text(begin)} leaves {_text(x)}")
    return declared


def _nhwc(shape: Shape) -> tuple[int, int, int, int]:
    _need(len(shape) == 4, f"input has shape {_text(shape)}, NHWC is required")
    n, h, w, c = shape
    return n, h, w, c


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise VerifyError(message)


def _text(shape: Shape) -> str:
    return str(list(shape))
