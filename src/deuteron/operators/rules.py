"""Rules of kernel calls: `spec/microcode.md` section 6 in Python.

The compiler checks `limit_problem` before it emits a call, because a model may be too large. The decoder checks
all rules.
"""

import math
from dataclasses import fields

from deuteron.operators import kernel_params as p
from deuteron.operators import limits

Range = tuple[int, int]

_DIMENSION: Range = (1, limits.MAX_DIMENSION)
_STORED: Range = (-128, 127)
_WORD: Range = (0, limits.MAX_WORD)
_SHIFT: Range = (1, 62)

_RANGES: dict[str, Range] = {
    **dict.fromkeys(("batches", "in_h", "in_w", "in_c", "channels", "out_h", "out_w", "out_c"), _DIMENSION),
    **dict.fromkeys(("kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w"), _DIMENSION),
    **dict.fromkeys(("multiplier", "rows", "in_features", "out_features", "depth", "columns", "dims"), _DIMENSION),
    **dict.fromkeys(("outer", "inner", "out_pitch"), _DIMENSION),
    **dict.fromkeys(
        ("in_zp", "out_zp", "a_zp", "b_zp", "x_zp", "y_zp", "zero_point", "act_min", "act_max", "value"), _STORED
    ),
    **dict.fromkeys(("mult", "a_mult", "alpha_mult", "pad_top", "pad_left", "in_start"), _WORD),
    **dict.fromkeys(("a_strides", "b_strides", "out_strides"), _WORD),
    "b_mult": (-limits.MAX_WORD, limits.MAX_WORD),
    "in_strides": (-limits.MAX_WORD - 1, limits.MAX_WORD),
    **dict.fromkeys(("reduced", "divisor"), (1, limits.MAX_REDUCTION)),
    **dict.fromkeys(("shift", "alpha_shift"), _SHIFT),
    **dict.fromkeys(("requant_count", "size"), (1, limits.MAX_WORD)),
    **dict.fromkeys(("start_h", "start_w"), (-limits.MAX_RESIZE_UNIT, limits.MAX_RESIZE_UNIT)),
    **dict.fromkeys(("step_h", "step_w"), (0, limits.MAX_RESIZE_UNIT)),
    **dict.fromkeys(("unit_h", "unit_w"), (1, limits.MAX_RESIZE_UNIT)),
    "maximum": (0, 1),
}
_MEAN_RANGES: dict[str, Range] = {"shift": (0, limits.MAX_MEAN_SHIFT)}
_OWN_RANGES: dict[type[p.KernelParams], dict[str, Range]] = {
    p.AveragePoolParams: _MEAN_RANGES,
    p.ReduceSumParams: _MEAN_RANGES,
    p.SoftmaxParams: {"mult": (1, limits.MAX_WORD), "shift": (0, 16)},
    p.MatMulParams: {"depth": (1, limits.MAX_MATMUL_DEPTH)},
}
"""Ranges of single kernels that differ from those of the others."""

Window = p.Conv2DParams | p.DepthwiseConv2DParams | p.PoolParams


def limit_problem(params: p.KernelParams) -> str | None:
    """Return a sentence about the first parameter outside its range, or None."""
    for field in fields(params):
        low, high = _range(params, field.name)
        value: int | tuple[int, ...] = getattr(params, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if not low <= item <= high:
                return f"{field.name} is {item}, allowed are {low}..{high}"
    return None


def _range(params: p.KernelParams, field: str) -> Range:
    return _OWN_RANGES.get(type(params), {}).get(field) or _RANGES[field]


def operand_bytes(params: p.KernelParams) -> tuple[int, ...]:
    """Return the size of each operand in the catalogue's order; for a strided operand up to the last byte accessed."""
    match params:
        case p.Conv2DParams():
            maps = params.batches * params.in_h * params.in_w * params.in_c
            patch = params.kernel_h * params.kernel_w * params.in_c
            requant = limits.REQUANT_ROW_BYTES * params.requant_count
            output = _windows_out(params, params.out_pitch) - (params.out_pitch - params.out_c)
            return (maps, params.out_c * patch, 4 * params.out_c, requant, output, conv_workspace(patch))
        case p.DepthwiseConv2DParams():
            maps = params.batches * params.in_h * params.in_w * params.in_c
            weights = params.kernel_h * params.kernel_w * params.out_c
            requant = limits.REQUANT_ROW_BYTES * params.requant_count
            return (maps, weights, 4 * params.out_c, requant, _windows_out(params, params.out_c))
        case p.FullyConnectedParams():
            rows, width, height = params.rows, params.in_features, params.out_features
            requant = limits.REQUANT_ROW_BYTES * params.requant_count
            return (rows * width, height * width, 4 * height, requant, rows * height)
        case p.BinaryParams():
            dims = params.dims
            return (reach(dims, params.a_strides), reach(dims, params.b_strides), math.prod(dims))
        case p.ChannelMapParams():
            maps = params.batches * params.in_h * params.in_w * params.channels
            return (maps, params.batches * params.out_h * params.out_w * params.channels)
        case p.MatMulParams():
            left, right = params.rows * params.depth, params.depth * params.columns
            return tuple(params.batches * matrix for matrix in (left, right, params.rows * params.columns))
        case p.ReductionParams():
            return (params.outer * params.reduced * params.inner, params.outer * params.inner)
        case p.SoftmaxParams():
            return (params.rows * params.depth, limits.SOFTMAX_TABLE_BYTES, params.rows * params.depth)
        case p.CopyParams():
            return (params.in_start + reach(params.dims, params.in_strides), reach(params.dims, params.out_strides))
        case p.FillParams():
            return (params.size,)
        case p.LutParams():
            return (params.size, limits.LUT_BYTES, params.size)
        case _:
            raise TypeError(f"{type(params).__name__} is not a kernel's parameter record")


def conv_workspace(patch: int) -> int:
    """Return the bytes of workspace of a convolution whose window covers `patch` input elements."""
    return 8 * limits.round_up(patch)


def reach(dims: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return the bytes from element 0 to the end of the last element that `strides` reach."""
    return 1 + sum((dim - 1) * max(0, stride) for dim, stride in zip(dims, strides, strict=True))


def reach_back(dims: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return the bytes from the first element that negative `strides` reach to element 0."""
    return reach(dims, tuple(-stride for stride in strides)) - 1


def is_strided(params: p.KernelParams, operand: int) -> bool:
    """Return True if an operand may be larger than the bytes that the kernel accesses."""
    return isinstance(params, p.CopyParams) or (isinstance(params, p.BinaryParams) and operand < 2)


def may_write_onto(params: p.KernelParams, operand: int) -> bool:
    """Return True if the kernel may write its output in place of `operand` (specification, section 4)."""
    match params:
        case p.LutParams():
            return operand == 0
        case p.BinaryParams():
            strides = (params.a_strides, params.b_strides)[operand] if operand < 2 else None
            return strides is not None and _is_contiguous(params.dims, strides)
        case _:
            return False


def form_problem(params: p.KernelParams) -> str | None:
    """Return a sentence about the first violated rule between parameters, or None; ranges must hold already."""
    act_min, act_max = getattr(params, "act_min", -128), getattr(params, "act_max", 127)
    if act_min > act_max:
        return f"act_min {act_min} is above act_max {act_max}"
    match params:
        case p.Conv2DParams() | p.DepthwiseConv2DParams():
            if isinstance(params, p.DepthwiseConv2DParams) and params.out_c != params.in_c * params.multiplier:
                return f"out_c {params.out_c} is not in_c {params.in_c} x multiplier {params.multiplier}"
            if isinstance(params, p.Conv2DParams) and params.out_pitch < params.out_c:
                return f"out_pitch {params.out_pitch} is below out_c {params.out_c}"
            spans = ((params.kernel_h - 1) * params.dilation_h + 1, (params.kernel_w - 1) * params.dilation_w + 1)
            return _channel_rows_problem(params.requant_count, params.out_c) or _window_problem(params, spans)
        case p.FullyConnectedParams():
            return _channel_rows_problem(params.requant_count, params.out_features)
        case p.AveragePoolParams():
            area = params.kernel_h * params.kernel_w
            if area > limits.MAX_REDUCTION:
                return f"the window covers {area} elements, allowed are {limits.MAX_REDUCTION}"
            return _divisor_problem(area, params.shift) or _window_problem(params, (params.kernel_h, params.kernel_w))
        case p.ReduceSumParams():
            return _divisor_problem(params.divisor, params.shift)
        case p.MaxPoolParams():
            return _window_problem(params, (params.kernel_h, params.kernel_w))
        case p.CopyParams():
            return _backward_problem(params) or _overwrite_problem(params)
        case _:
            return None


def _windows_out(params: Window, channels: int) -> int:
    return params.batches * params.out_h * params.out_w * channels


def _is_contiguous(dims: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    step = 1
    for dim, stride in zip(reversed(dims), reversed(strides), strict=True):
        if dim > 1 and stride != step:
            return False
        step *= dim
    return True


def _channel_rows_problem(rows: int, channels: int) -> str | None:
    return None if rows in (1, channels) else f"requant_count is {rows}, allowed are 1 and {channels}"


def _window_problem(params: Window, spans: tuple[int, int]) -> str | None:
    """Check each axis of a window; `spans` are the dilated kernel sizes."""
    axes = (
        ("top", params.pad_top, spans[0], params.in_h, params.out_h, params.stride_h),
        ("left", params.pad_left, spans[1], params.in_w, params.out_w, params.stride_w),
    )
    for side, pad, span, size, count, stride in axes:
        if pad >= span:
            return f"pad_{side} is {pad}, allowed are 0..{span - 1}"
        if (count - 1) * stride - pad >= size:
            return f"the last window starts at {(count - 1) * stride - pad}, beyond the map of {size}"
    return None


def _divisor_problem(count: int, shift: int) -> str | None:
    problem = f"the divisor {count} x 2^{shift} is above 2^{limits.MAX_MEAN_SHIFT}"
    return problem if count << shift > 1 << limits.MAX_MEAN_SHIFT else None


def _backward_problem(params: p.CopyParams) -> str | None:
    back = reach_back(params.dims, params.in_strides)
    return f"input strides reach {back} bytes back from in_start {params.in_start}" if back > params.in_start else None


def _overwrite_problem(params: p.CopyParams) -> str | None:
    covered = 0
    for stride, dim in sorted(zip(params.out_strides, params.dims, strict=True)):
        if dim == 1:
            continue
        if stride <= covered:
            return f"output stride {stride} writes bytes twice"
        covered += (dim - 1) * stride
    return None
