"""Computing operators of ExecuTorch's portable kernels: float operators between int8 ones, and some int8 ones.

ExecuTorch's Cortex-M backend leaves their tensors in any memory order.
"""

import math
import struct
from collections.abc import Sequence

import numpy as np

from deuteron.board.operators.layout import Run, binary_dims, broadcast_runs, merged, need_same_layout, strides
from deuteron.board.operators.lowering import (
    Argument,
    OperatorCall,
    RefusedError,
    Tensor,
    need_type,
    pair,
    refuse_arguments,
    words_of,
)
from deuteron.board.operators.prepared_constants import integer
from deuteron.operators import tflite
from deuteron.operators.kernel_params import BINARY_RANK, Dims4, Dims5, KernelParams
from deuteron.operators.portable import (
    BY_ATEN_OPERATOR,
    AddParams,
    AmaxParams,
    BinaryParams,
    ClampParams,
    CompareParams,
    ConvolutionParams,
    FullParams,
    MaxPoolParams,
)
from deuteron.operators.tflite import BY_TFLITE_OPERATOR
from deuteron.operators.tflite_unquantized import ArithmeticParams
from deuteron.runtime.program import Numbers

_EQUAL, _DIFFERENT, _GREATER, _GREATER_OR_EQUAL = range(4)
_ADD, _SUB, _MUL, _REMAINDER = 0, 1, 2, 5
"""Kinds of `ArithmeticParams`."""
_INTEGERS = ("int32", "int64")
_STORED = {
    "bool": "<?", "uint8": "<B", "int8": "<b", "int16": "<h", "int32": "<i", "int64": "<q", "float32": "<f",
    "float64": "<d",
}  # fmt: skip
_MOST = 32767
"""Maximum dimension and stride of windows."""


def add(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, b, factor of b, output twice."""
    return _sum(args, 1)


def sub(args: Sequence[Argument]) -> OperatorCall:
    """Subtract; as `add` with the factor negated."""
    return _sum(args, -1)


def mul(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, b, output twice."""
    return _product(args, "mul")


def div(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, b, output twice."""
    return _product(args, "div")


def remainder(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, b, a constant tensor or a number, output twice; of integers only."""
    match args:
        case [Tensor() as a, Tensor() | int() as b, Tensor() as y, _] if a.spec.dtype in _INTEGERS:
            divisor = integer(b, a.spec.dtype) if isinstance(b, int) else b
            if divisor.value.constant is None:
                raise RefusedError("divides by a computed tensor, firmware supports constants")
            if 0 in np.frombuffer(divisor.value.constant.data, divisor.spec.dtype):
                raise RefusedError("divides by 0")
            return _arithmetic(_REMAINDER, a, divisor, y)
        case [Tensor() as a, *_]:
            raise RefusedError(f"has a {a.spec.dtype} tensor, firmware supports {' and '.join(_INTEGERS)} only")
        case _:
            raise refuse_arguments()


def eq(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: a, b, output twice; the other comparisons have the same."""
    return _compare(args, _EQUAL)


def ne(args: Sequence[Argument]) -> OperatorCall:
    """Compare: a != b."""
    return _compare(args, _DIFFERENT)


def gt(args: Sequence[Argument]) -> OperatorCall:
    """Compare: a > b."""
    return _compare(args, _GREATER)


def ge(args: Sequence[Argument]) -> OperatorCall:
    """Compare: a >= b."""
    return _compare(args, _GREATER_OR_EQUAL)


def lt(args: Sequence[Argument]) -> OperatorCall:
    """Compare: a < b."""
    return _compare(args, _GREATER, exchanged=True)


def le(args: Sequence[Argument]) -> OperatorCall:
    """Compare: a <= b."""
    return _compare(args, _GREATER_OR_EQUAL, exchanged=True)


def clamp(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, minimum and maximum or none, output twice."""
    match args:
        case [Tensor() as x, None | int() | float() as low, None | int() | float() as high, Tensor() as y, _]:
            need_type("float32" if y.spec.dtype == "float32" else "int8", x, y)
            need_same_layout(x, y)
            if y.spec.dtype == "float32":
                limits = (-math.inf if low is None else low, math.inf if high is None else high)
                return _call("clamp", (x,), y, ClampParams(*map(_bits, limits)))
            limits = (-128 if low is None else low, 127 if high is None else high)
            if any(isinstance(limit, float) or not -128 <= limit <= 127 for limit in limits):
                raise RefusedError(f"clamps int8 values to {limits[0]}..{limits[1]}, firmware clamps within -128..127")
            return _call("clamp", (x,), y, ClampParams(*map(int, limits)))
        case _:
            raise refuse_arguments()


def amax(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, dimensions (none for all), keep dimensions, output twice."""
    match args:
        case [Tensor() as x, tuple(dims), bool(keep), Tensor() as y, _]:
            need_type("float32" if y.spec.dtype == "float32" else "int8", x, y)
            rank = len(x.spec.shape)
            reduced = {int(dim) % rank for dim in dims if not isinstance(dim, Tensor)} or set(range(rank))
            steps = strides(x.spec)
            # Dimension i of the output is the input's dimension at the same position among the kept ones.
            places = [i for i in range(rank) if keep or i not in reduced]
            kept = [Run(y.spec.shape[i], (0 if places[i] in reduced else steps[places[i]],)) for i in y.spec.dim_order]
            gone = [Run(x.spec.shape[i], (steps[i],)) for i in sorted(reduced)]
            return _call("amax", (x,), y, AmaxParams(*_walk(kept), *_walk(gone)))
        case _:
            raise refuse_arguments()


def full(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: shape, value, output twice."""
    match args:
        case [tuple(), bool() | int() | float() as value, Tensor() as y, _] if y.spec.dtype in _STORED:
            kind = float if y.spec.dtype.startswith("float") else int
            data = struct.pack(_STORED[y.spec.dtype], kind(value)).ljust(8, b"\0")
            return _call("full", (), y, FullParams(*struct.unpack("<2i", data)))
        case _:
            raise refuse_arguments()


def convolution(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, weights, bias or none, strides, pads, dilations, transposed, output padding, groups, output."""
    match args:
        case [Tensor() as x, Tensor() as w, Tensor() | None as bias, tuple(stride), tuple(padding), tuple(dilation),
              bool(transposed), tuple(), int(groups), Tensor() as y, _]:  # fmt: skip
            tensors = (x, w) if bias is None else (x, w, bias)
            need_type("float32", *tensors, y)
            if len(x.spec.shape) not in (3, 4):
                raise RefusedError(f"takes a tensor of shape {x.spec.shape}, firmware supports images and sequences")
            (in_shape, in_steps), (shape, steps), (out_shape, out_steps) = (_maps(tensor) for tensor in (x, w, y))
            channels = (steps[0], steps[1])
            if transposed:  # transposed: weights are [input channels, output channels of a group, ..]
                if groups != 1:
                    raise RefusedError(f"is transposed and has {groups} groups, firmware supports 1")
                channels = (steps[1], steps[0])
            rank = len(x.spec.shape)
            numbers = (_pair(stride, 1, rank), _pair(padding, 0, rank), _pair(dilation, 1, rank))
            _need_small(*in_shape, *out_shape, *shape, *(number for both in numbers for number in both))
            params = ConvolutionParams(
                in_shape, out_shape, in_steps, (*channels, steps[2], steps[3]), out_steps,
                groups, shape[2], shape[3], *numbers[0], *numbers[1], *numbers[2],
                transposed=int(transposed), has_bias=int(bias is not None),
            )  # fmt: skip
            return _call("convolution", tensors, y, params)
        case _:
            raise refuse_arguments()


def max_pool(args: Sequence[Argument]) -> OperatorCall:
    """Arguments: input, kernel, strides, pads, dilations, ceil mode, output, indices, a list of both."""
    match args:
        case [Tensor() as x, tuple(kernel), tuple(stride), tuple(padding), tuple(dilation), bool(), Tensor() as y,
              Tensor() as indices, *_] if len(x.spec.shape) == 4:  # fmt: skip
            need_type("float32" if y.spec.dtype == "float32" else "int8", x, y)
            need_type("int64", indices)
            need_same_layout(indices, y)
            (in_shape, in_steps), (out_shape, out_steps) = _maps(x), _maps(y)
            pairs = (pair(kernel), pair(stride or kernel), pair(padding), pair(dilation))
            _need_small(*in_shape, *out_shape, *(number for both in pairs for number in both))
            params = MaxPoolParams(in_shape, out_shape, in_steps, out_steps, *pairs[0], *pairs[1], *pairs[2], *pairs[3])
            return OperatorCall(BY_ATEN_OPERATOR["max_pool2d"].symbol, (x,), (indices, y), words_of(params))
        case _:
            raise refuse_arguments()


def _sum(args: Sequence[Argument], sign: int) -> OperatorCall:
    match args:
        case [Tensor() as a, Tensor() as b, int() as alpha, Tensor() as y, _] if y.spec.dtype in _INTEGERS:
            if abs(alpha) != 1:
                raise RefusedError(f"has the factor {alpha}, firmware supports 1 for integers")
            return _arithmetic(_ADD if sign * alpha == 1 else _SUB, a, b, y)
        case [Tensor() as a, Tensor() as b, int() | float() as alpha, Tensor() as y, _]:
            need_type("float32", a, b, y)
            return _call("add", (a, b), y, AddParams(*binary_dims(broadcast_runs(y, a, b)), _bits(sign * alpha)))
        case _:
            raise refuse_arguments()


def _product(args: Sequence[Argument], name: str) -> OperatorCall:
    match args:
        case [Tensor() as a, Tensor() as b, Tensor() as y, _] if name == "mul" and y.spec.dtype in _INTEGERS:
            return _arithmetic(_MUL, a, b, y)
        case [Tensor() as a, Tensor() as b, Tensor() as y, _]:
            need_type("float32", a, b, y)
            return _call(name, (a, b), y, BinaryParams(*binary_dims(broadcast_runs(y, a, b))))
        case _:
            raise refuse_arguments()


def _compare(args: Sequence[Argument], relation: int, *, exchanged: bool = False) -> OperatorCall:
    match args:
        case [Tensor() as a, Tensor() as b, Tensor() as y, _]:
            a, b = (b, a) if exchanged else (a, b)
            need_type(a.spec.dtype if a.spec.dtype in ("float32", *_INTEGERS) else "int8", a, b)
            need_type("bool", y)
            if a.spec.dtype in _INTEGERS:
                return _compare_integers(a, b, y, relation)
            return _call("compare", (a, b), y, CompareParams(*binary_dims(broadcast_runs(y, a, b)), relation))
        case _:
            raise refuse_arguments()


def _arithmetic(kind: int, a: Tensor, b: Tensor, y: Tensor) -> OperatorCall:
    """Return the call for two integer tensors of one type."""
    need_type(a.spec.dtype, b, y)
    limits = np.iinfo("int32")
    params = ArithmeticParams(*binary_dims(broadcast_runs(y, a, b)), kind, int(limits.min), int(limits.max))
    return OperatorCall(BY_TFLITE_OPERATOR["arithmetic"].symbol, (a, b), (y,), words_of(params))


def _compare_integers(a: Tensor, b: Tensor, y: Tensor, relation: int) -> OperatorCall:
    """Return the comparison, by the operator whose kinds are a < b, a <= b, a = b and a != b."""
    if relation in (_GREATER, _GREATER_OR_EQUAL):
        a, b = b, a
    kind = {_GREATER: 0, _GREATER_OR_EQUAL: 1, _EQUAL: 2, _DIFFERENT: 3}[relation]
    params = tflite.CompareParams(*binary_dims(broadcast_runs(y, a, b)), kind, 0, 0, 0, 0, 0, 0, 0)
    return OperatorCall(BY_TFLITE_OPERATOR["compare"].symbol, (a, b), (y,), words_of(params))


def _call(name: str, inputs: tuple[Tensor, ...], output: Tensor, params: KernelParams) -> OperatorCall:
    return OperatorCall(BY_ATEN_OPERATOR[name].symbol, inputs, (output,), words_of(params))


def _bits(number: float) -> int:
    """Return the bits of the float32 nearest to a number."""
    try:
        return int(struct.unpack("<i", struct.pack("<f", number))[0])
    except OverflowError:
        raise RefusedError(f"has the number {number}, which float32 cannot represent") from None


def _walk(runs: Sequence[Run]) -> tuple[Dims5, Dims5]:
    """Return sizes and strides of one tensor, outermost first."""
    runs = merged(runs)
    if len(runs) > BINARY_RANK:
        raise RefusedError(f"needs {len(runs)} dimensions, firmware supports {BINARY_RANK}")
    a, b, c, d, e = (Run(1, (0,)),) * (BINARY_RANK - len(runs)) + tuple(runs)
    return (a.size, b.size, c.size, d.size, e.size), (a.steps[0], b.steps[0], c.steps[0], d.steps[0], e.steps[0])


def _need_small(*sizes: int) -> None:
    """Raise RefusedError for a dimension or stride above firmware's maximum."""
    if max(sizes) > _MOST:
        raise RefusedError(f"has the dimension or stride {max(sizes)}, firmware supports at most {_MOST}")


def _maps(tensor: Tensor) -> tuple[Dims4, Dims4]:
    """Return shape and strides of a map; a sequence has one row."""
    shape, steps = tensor.spec.shape, strides(tensor.spec)
    if len(shape) == 3:
        shape, steps = (*shape[:2], 1, shape[2]), (*steps[:2], 0, steps[2])
    (n, c, h, w), (i, j, k, m) = shape, steps
    return (n, c, h, w), (i, j, k, m)


def _pair(numbers: tuple[Tensor, ...] | Numbers, alone: int, rank: int) -> tuple[int, int]:
    """Return the numbers for rows and columns; those of a sequence are for columns, `alone` is for its one row."""
    if rank == 3 and len(numbers) == 1:
        return alone, pair(numbers)[0]
    return pair(numbers)
