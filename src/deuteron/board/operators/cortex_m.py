"""Lowers element-wise operators, pools, softmax, transpose and pad of ExecuTorch's Cortex-M backend."""

import math
from collections.abc import Sequence

from deuteron.board.operators.layout import (
    binary_dims,
    broadcast_runs,
    is_in_order,
    need_same_layout,
    nhwc,
    same_memory,
)
from deuteron.board.operators.lowering import (
    Argument,
    OperatorCall,
    RefusedError,
    Tensor,
    cortex_m_call,
    need_type,
    pair,
    refuse_arguments,
)
from deuteron.board.operators.quantize import float_bits
from deuteron.operators.cortex_m import (
    PadParams,
    QuantizedAddParams,
    QuantizedDivParams,
    QuantizedMulParams,
    QuantizedSoftmaxParams,
)
from deuteron.operators.kernel_params import AveragePoolParams, Dims4, ExtremumParams, LutParams, MaxPoolParams
from deuteron.runtime.program import Numbers

_NHWC = (0, 2, 3, 1)
_SOFTMAX_ZERO_POINT = -128


def quantized_add(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a and its three numbers, b and its three, three numbers of the output, limits, output twice."""
    match args:
        case [Tensor() as a, int(azp), int(am), int(ash), Tensor() as b, int(bzp), int(bm), int(bsh),
              int(ozp), int(om), int(osh), int(low), int(high), Tensor() as y, _]:  # fmt: skip
            _need_repeated(a, b, y)
            params = QuantizedAddParams(azp, am, ash, bzp, bm, bsh, ozp, om, osh, low, high)
            return cortex_m_call("quantized_add", (a, b), (y,), params)
        case _:
            raise refuse_arguments()


def quantized_mul(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, its zero point, b, its zero point, three numbers of the output, output twice."""
    match args:
        case [Tensor() as a, int(azp), Tensor() as b, int(bzp), int(ozp), int(om), int(osh), Tensor() as y, _]:
            _need_repeated(a, b, y)
            return cortex_m_call("quantized_mul", (a, b), (y,), QuantizedMulParams(azp, bzp, ozp, om, osh))
        case _:
            raise refuse_arguments()


def quantized_div(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, its zero point, b, its zero point, zero point of the output, scale, output twice."""
    match args:
        case [Tensor() as a, int(azp), Tensor() as b, int(bzp), int(ozp), float(scale), Tensor() as y, _]:
            need_type("int16" if y.spec.dtype == "int16" else "int8", a, b, y)
            need_same_layout(a, y)
            need_same_layout(b, y)
            return cortex_m_call("quantized_div", (a, b), (y,), QuantizedDivParams(azp, bzp, ozp, float_bits(scale)))
        case _:
            raise refuse_arguments()


def quantized_activation(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, table, output twice."""
    match args:
        case [Tensor() as x, Tensor() as table, Tensor() as y, _]:
            need_type("int8", x, table, y)
            need_same_layout(x, y)
            return cortex_m_call("quantized_activation", (x, table), (y,), LutParams(y.bytes))
        case _:
            raise refuse_arguments()


def minimum(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, b, output twice."""
    return _extremum(args, "minimum", 0)


def maximum(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, b, output twice."""
    return _extremum(args, "maximum", 1)


def softmax(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, dimension, zero points, multiplier, shift, least difference (no need of it), output twice."""
    match args:
        case [Tensor() as x, int(dim), int(), int(ozp), int(multiplier), int(shift), int(), Tensor() as y, _]:
            need_type("int8", x, y)
            need_same_layout(x, y)
            if ozp != _SOFTMAX_ZERO_POINT:
                raise RefusedError(f"has the output zero point {ozp}, firmware supports {_SOFTMAX_ZERO_POINT}")
            order = x.spec.dim_order
            sizes = [x.spec.shape[i] for i in order]
            at = order.index(dim % len(sizes))
            outer, inner = math.prod(sizes[:at]), math.prod(sizes[at + 1 :])
            return cortex_m_call(
                "softmax", (x,), (y,), QuantizedSoftmaxParams(outer, sizes[at], inner, multiplier, shift)
            )
        case _:
            raise refuse_arguments()


def pad(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, padding before and after each of four dimensions in memory, value, output twice."""
    match args:
        case [Tensor() as x, tuple(before), tuple(after), int(value), Tensor() as y, _]:
            need_type("int8", x, y)
            order = _memory_order(x)
            if not (is_in_order(x.spec, order) and is_in_order(y.spec, order)):
                raise RefusedError(
                    f"reads a tensor in order {x.spec.dim_order} and writes one in order {y.spec.dim_order}, "
                    "which must be the same"
                )
            dims = _four([x.spec.shape[i] for i in order])
            out = _four([y.spec.shape[i] for i in order])
            ahead, behind = _dims4(before), _dims4(after)
            if out != tuple(a + n + b for a, n, b in zip(ahead, dims, behind, strict=True)):
                raise RefusedError(f"writes {y.spec.shape}, which is not {x.spec.shape} padded by {before} and {after}")
            return cortex_m_call("pad", (x,), (y,), PadParams(dims, ahead, behind, value))
        case _:
            raise refuse_arguments()


def avg_pool(args: Sequence[Argument], *, explicit: bool = False) -> OperatorCall:
    """Arguments: input, kernel, stride, padding, ceil, zero point, multiplier, shift, scratch, output twice."""
    match args:
        case [Tensor() as x, tuple(kernel), tuple(stride), tuple(padding), bool(), int(zp), int(), int(),
              Tensor() as scratch, Tensor() as y, _]:  # fmt: skip
            n, h, w, c, out_h, out_w = _maps(x, y, explicit)
            (kh, kw), (sh, sw), (ph, pw) = pair(kernel), pair(stride), pair(padding)
            # Input and output have the same quantization: the factor is 2 / 2^1.
            params = AveragePoolParams(
                n, h, w, c, out_h, out_w, kh, kw, sh, sw, ph, pw,
                in_zp=zp, mult=2, shift=1, out_zp=zp, act_min=-128, act_max=127,
            )  # fmt: skip
            return cortex_m_call("quantized_avg_pool2d", (x,), (scratch, y), params)
        case _:
            raise refuse_arguments()


def max_pool(args: Sequence[Argument], *, explicit: bool = False) -> OperatorCall:
    """Arguments: input, kernel, stride, padding, dilation, ceil, zero points, limits, output twice."""
    match args:
        case [Tensor() as x, tuple(kernel), tuple(stride), tuple(padding), tuple(dilation), bool(), int(izp), int(ozp),
              int(low), int(high), Tensor() as y, _]:  # fmt: skip
            if izp != ozp:
                raise RefusedError(f"has the zero points {izp} and {ozp}, which must be the same")
            if pair(dilation) != (1, 1):
                raise RefusedError(f"has the dilation {dilation}, firmware supports 1")
            n, h, w, c, out_h, out_w = _maps(x, y, explicit)
            (kh, kw), (sh, sw), (ph, pw) = pair(kernel), pair(stride), pair(padding)
            params = MaxPoolParams(n, h, w, c, out_h, out_w, kh, kw, sh, sw, ph, pw, low, high)
            return cortex_m_call("quantized_max_pool2d", (x,), (y,), params)
        case _:
            raise refuse_arguments()


def _extremum(args: Sequence[Argument], name: str, largest: int) -> OperatorCall:
    match args:
        case [Tensor() as a, Tensor() as b, Tensor() as y, _]:
            need_type("int8", a, b, y)
            params = ExtremumParams(*binary_dims(broadcast_runs(y, a, b)), largest)
            return cortex_m_call(name, (a, b), (y,), params)
        case _:
            raise refuse_arguments()


def _need_repeated(a: Tensor, b: Tensor, y: Tensor) -> None:
    """Check that the smaller operand repeats along the outer dimensions in memory."""
    need_type("int8", a, b, y)
    runs = broadcast_runs(y, a, b)
    large = a if a.bytes >= b.bytes else b
    repeated = len(runs) == 2 and runs[1].steps == (1, 1) and 0 in runs[0].steps
    if not same_memory(large, y) or (len(runs) > 1 and not repeated):
        raise RefusedError(
            f"has tensors of shape {a.spec.shape} in order {a.spec.dim_order} and {b.spec.shape} in order "
            f"{b.spec.dim_order}: firmware repeats the smaller along the outer dimensions only"
        )


def _maps(x: Tensor, y: Tensor, explicit: bool) -> tuple[int, int, int, int, int, int]:
    """Return batches, height, width, channels of the input, height and width of the output."""
    need_type("int8", x, y)
    n, h, w, c = nhwc(x, explicit=explicit)
    out_n, out_h, out_w, out_c = nhwc(y, explicit=explicit)
    if (out_n, out_c) != (n, c):
        raise RefusedError(f"makes {y.spec.shape} of {x.spec.shape}")
    return n, h, w, c, out_h, out_w


def _memory_order(x: Tensor) -> tuple[int, ...]:
    """Return the memory order that the lowering assumed for the tensor."""
    shape = x.spec.shape
    rank = len(shape)
    if rank == 4 and (shape[1] == 1 or shape[2] == shape[3] == 1 or x.spec.dim_order[:2] == (0, 2)):
        return _NHWC
    return tuple(range(rank))


def _dims4(numbers: tuple[Tensor, ...] | Numbers) -> Dims4:
    match numbers:
        case [int(a), int(b), int(c), int(d)]:
            return a, b, c, d
        case _:
            raise refuse_arguments()


def _four(dims: Sequence[int]) -> Dims4:
    """Return the dimensions as four, the outermost 1."""
    a, b, c, d = (*(1,) * (4 - len(dims)), *dims)
    return a, b, c, d
