"""Row dependencies: which input rows each output row of a kernel needs, and the call that computes some rows.

The caller gives the bytes of a row. The parameters of windows define the rows of their output. Elementwise kernels only
know their number of elements, and use the rows of neighbouring calls.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import cast

from deuteron.operators import kernel_params as p
from deuteron.operators.rules import reach, reach_back

Rows = tuple[int, int]
"""Rows from the first up to, but not including, the second."""


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of an operand that output rows depend on.

    Output row `i` depends on the rows that contain position `start + i * step` and the `length - 1` positions after it.
    A row is `unit` positions high, and the operand has `count` rows.
    """

    nbytes: int
    count: int
    start: int = 0
    step: int = 1
    length: int = 1
    unit: int = 1

    def rows(self, first: int, last: int) -> Rows:
        """Return the rows that output rows `first` up to `last` depend on, at least one."""
        low = min(max((self.start + first * self.step) // self.unit, 0), self.count - 1)
        high = (self.start + (last - 1) * self.step + self.length - 1) // self.unit + 1
        return low, max(min(high, self.count), low + 1)


@dataclass(frozen=True, slots=True)
class Rowwise:
    """A kernel call as rows.

    Attributes:
        count: rows of the output.
        reads: the rows of each input that output rows depend on; None if they depend on the whole input.
        narrowed: parameters of the call that computes rows `first` up to `last`, with only the input rows that these
            depend on.
        every: rows of the output buffer from one output row to the next.
        high: rows of the output buffer in one output row; other calls write those up to the next.
    """

    count: int
    reads: tuple[Window | None, ...]
    narrowed: Callable[[int, int], p.KernelParams]
    every: int = 1
    high: int = 1

    @property
    def grain(self) -> int:
        """Rows of the buffer that are computed together."""
        return self.every if self.high > 1 else 1


def rowwise(params: p.KernelParams, nbytes: int) -> Rowwise | None:
    """Return the call as rows with a pitch of `nbytes` bytes, or None if it has no such rows."""
    return cast("Callable[[p.KernelParams, int], Rowwise | None]", ENTRIES[type(params)])(params, nbytes)


def natural_rows(params: p.KernelParams) -> int | None:
    """Return the bytes of an output row if the parameters define rows, otherwise None."""
    match params:
        case p.Conv2DParams():
            return params.out_w * params.out_pitch
        case p.DepthwiseConv2DParams():
            return params.out_w * params.out_c
        case p.PoolParams() | p.ResizeBilinearParams():
            return params.out_w * params.channels
        case _:
            return None


_Convolution = p.Conv2DParams | p.DepthwiseConv2DParams


def _convolution(params: _Convolution, nbytes: int) -> Rowwise | None:
    span = (params.kernel_h - 1) * params.dilation_h + 1
    return _windowed(params, nbytes, params.in_w * params.in_c, span, constants=3)


def _pool(params: p.PoolParams, nbytes: int) -> Rowwise | None:
    return _windowed(params, nbytes, params.in_w * params.channels, params.kernel_h, constants=0)


def _windowed(
    params: _Convolution | p.PoolParams, nbytes: int, in_bytes: int, span: int, *, constants: int
) -> Rowwise | None:
    """Rows of a sliding window over one map; padding above the map stays in the first stripes."""
    if params.batches != 1 or nbytes != natural_rows(params):
        return None
    window = Window(in_bytes, params.in_h, -params.pad_top, params.stride_h, span)

    def narrowed(first: int, last: int) -> p.KernelParams:
        low, high = window.rows(first, last)
        above = max(0, params.pad_top - first * params.stride_h)
        return replace(params, in_h=high - low, out_h=last - first, pad_top=above)

    return Rowwise(params.out_h, (window, *(None,) * constants), narrowed)


def _resize(params: p.ResizeBilinearParams, nbytes: int) -> Rowwise | None:
    """Rows of a resize: each depends on one or two rows of the input."""
    if params.batches != 1 or nbytes != natural_rows(params):
        return None
    unit = params.unit_h
    window = Window(params.in_w * params.channels, params.in_h, params.start_h, params.step_h, unit + 1, unit)

    def narrowed(first: int, last: int) -> p.KernelParams:
        low, high = window.rows(first, last)
        start = params.start_h + first * params.step_h - low * unit
        return replace(params, in_h=high - low, out_h=last - first, start_h=start)

    return Rowwise(params.out_h, (window,), narrowed)


def _repeated(
    params: p.KernelParams, nbytes: int, field: str, out_bytes: int, in_bytes: tuple[int | None, ...]
) -> Rowwise | None:
    """Rows of a kernel that repeats `field` times: `out_bytes` bytes of output from a fixed number of input bytes."""
    times: int = getattr(params, field)
    if nbytes % out_bytes or times % (nbytes // out_bytes):
        return None
    each = nbytes // out_bytes
    count = times // each
    reads = tuple(None if size is None else Window(each * size, count) for size in in_bytes)
    return Rowwise(count, reads, lambda first, last: replace(params, **{field: (last - first) * each}))


def _fully_connected(params: p.FullyConnectedParams, nbytes: int) -> Rowwise | None:
    return _repeated(params, nbytes, "rows", params.out_features, (params.in_features, None, None, None))


def _matmul(params: p.MatMulParams, nbytes: int) -> Rowwise | None:
    if params.batches == 1:
        return _repeated(params, nbytes, "rows", params.columns, (params.depth, None))
    sizes = (params.rows * params.depth, params.depth * params.columns)
    return _repeated(params, nbytes, "batches", params.rows * params.columns, sizes)


def _reduction(params: p.ReductionParams, nbytes: int) -> Rowwise | None:
    return _repeated(params, nbytes, "outer", params.inner, (params.reduced * params.inner,))


def _softmax(params: p.SoftmaxParams, nbytes: int) -> Rowwise | None:
    return _repeated(params, nbytes, "rows", params.depth, (params.depth, None))


def _fill(params: p.FillParams, nbytes: int) -> Rowwise | None:
    return _repeated(params, nbytes, "size", 1, ())


def _table(params: p.LutParams, nbytes: int) -> Rowwise | None:
    return _repeated(params, nbytes, "size", 1, (1, None))


@dataclass(frozen=True, slots=True)
class _Axis:
    """The dimension of the output rows: a row is `each` of its steps, or a step is `every` rows.

    The first `high` of these are written.
    """

    at: int
    each: int
    count: int
    every: int = 1
    high: int = 1


def _axis(dims: tuple[int, ...], strides: tuple[int, ...], nbytes: int) -> _Axis | None:
    """Return the dimension with the longest stride, if rows and its steps are multiples of each other, else None.

    All other dimensions must stay inside one step.
    """
    at = max((axis for axis, dim in enumerate(dims) if dim > 1), key=strides.__getitem__, default=None)
    if at is None or (reached := reach(_with(dims, at, 1), strides)) > strides[at]:
        return None
    if strides[at] % nbytes == 0:
        return _Axis(at, 1, dims[at], strides[at] // nbytes, -(-reached // nbytes))
    each = nbytes // strides[at]
    if nbytes % strides[at] or dims[at] % each:
        return None
    return _Axis(at, each, dims[at] // each)


def _read_along(axis: _Axis, dims: tuple[int, ...], strides: tuple[int, ...], start: int) -> Window | None:
    """Return the rows of a strided operand whose element 0 is byte `start`; None if rows of several outputs mix."""
    step = axis.each * strides[axis.at]
    row = _with(dims, axis.at, axis.each)
    first = start - reach_back(row, strides)
    if step <= 0 or first % step + reach_back(row, strides) + reach(row, strides) > step:
        return None
    return Window(step, first // step + axis.count, first // step)


def _binary(params: p.BinaryParams, nbytes: int) -> Rowwise | None:
    dims = params.dims
    contiguous = tuple(math.prod(dims[at + 1 :]) for at in range(len(dims)))
    axis = _axis(dims, contiguous, nbytes)
    if axis is None:
        return None
    strides = (params.a_strides, params.b_strides)
    reads = tuple(_read_along(axis, dims, own, 0) for own in strides)
    if any(window is None and own[axis.at] for window, own in zip(reads, strides, strict=True)):
        return None

    def narrowed(first: int, last: int) -> p.KernelParams:
        return replace(params, dims=cast(p.Dims5, _with(dims, axis.at, (last - first) * axis.each)))

    return Rowwise(axis.count, reads, narrowed, axis.every, axis.high)


def _copy(params: p.CopyParams, nbytes: int) -> Rowwise | None:
    axis = _axis(params.dims, params.out_strides, nbytes)
    if axis is None:
        return None
    step = axis.each * params.in_strides[axis.at]
    window = _read_along(axis, params.dims, params.in_strides, params.in_start)

    def narrowed(first: int, last: int) -> p.KernelParams:
        low = 0 if window is None else window.rows(first, last)[0]
        dims = cast(p.Dims6, _with(params.dims, axis.at, (last - first) * axis.each))
        return replace(params, dims=dims, in_start=params.in_start + (first - low) * step)

    return Rowwise(axis.count, (window,), narrowed, axis.every, axis.high)


def _with(dims: tuple[int, ...], at: int, dim: int) -> tuple[int, ...]:
    return (*dims[:at], dim, *dims[at + 1 :])


ENTRIES: Mapping[type[p.KernelParams], Callable[..., Rowwise | None]] = MappingProxyType(
    {
        p.Conv2DParams: _convolution,
        p.DepthwiseConv2DParams: _convolution,
        p.FullyConnectedParams: _fully_connected,
        p.AddParams: _binary,
        p.MulParams: _binary,
        p.AveragePoolParams: _pool,
        p.MaxPoolParams: _pool,
        p.ReduceSumParams: _reduction,
        p.SoftmaxParams: _softmax,
        p.CopyParams: _copy,
        p.FillParams: _fill,
        p.LutParams: _table,
        p.ExtremumParams: _binary,
        p.ReduceExtremumParams: _reduction,
        p.MatMulParams: _matmul,
        p.ResizeBilinearParams: _resize,
        p.PreluParams: _binary,
    }
)
"""The function for each type of parameters."""
