"""Lowers convolutions, linear layers and matrix products of ExecuTorch's Cortex-M backend."""

from collections.abc import Sequence
from dataclasses import dataclass

from deuteron.board.operators.layout import is_contiguous, nhwc
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
from deuteron.board.operators.prepared_constants import channels_first, kernel_sum, scratch_of
from deuteron.operators.cortex_m import (
    QuantizedBatchMatmulParams,
    QuantizedConvolutionParams,
    QuantizedLinearParams,
)

_PATCH, _SCRATCH = 16, 4
"""Size of a convolution's scratch memory: window elements are rounded up to the first, the second is bytes of each."""


def conv2d(args: Sequence[Argument], *, explicit: bool = False) -> OperatorCall:
    """Input, weights, bias or none, stride, padding, dilation, offsets, factors, limits, scratch, output twice."""
    match args:
        case [Tensor() as x, Tensor() as w, None | Tensor() as bias, tuple(stride), tuple(padding), tuple(dilation),
              int(in_offset), int(out_offset), Tensor() as multipliers, Tensor() as shifts, int(low), int(high),
              Tensor() as scratch, Tensor() as y, _]:  # fmt: skip
            out_c, kernel_h, kernel_w, depth = _four(w)
            channels = nhwc(x, explicit=explicit)[3]
            if depth == 0 or channels % depth:
                raise RefusedError(f"has {channels} channels, not a multiple of its weights' group size {depth}")
            shape = _Shape(explicit, channels // depth, (kernel_h, kernel_w), pair(stride), pair(padding))
            numbers = in_offset, out_offset, low, high
            sums = kernel_sum(w, bias, in_offset)
            inputs = _Inputs(x, w, multipliers, shifts, bias if sums is None else None, sums)
            params = _params(inputs, y, out_c, shape, pair(dilation), numbers)
            return cortex_m_call("quantized_conv2d", inputs.all, (scratch, y), params)
        case _:
            raise refuse_arguments()


def depthwise_conv2d(args: Sequence[Argument], *, explicit: bool = False) -> OperatorCall:
    """As `conv2d`, with the depth multiplier before the offsets; weights [1, height, width, channels]."""
    match args:
        case [Tensor() as x, Tensor() as w, None | Tensor() as bias, tuple(stride), tuple(padding), tuple(dilation),
              int(multiplier), int(in_offset), int(out_offset), Tensor() as multipliers, Tensor() as shifts,
              int(low), int(high), Tensor() as scratch, Tensor() as y, _]:  # fmt: skip
            one, kernel_h, kernel_w, out_c = _four(w)
            channels = nhwc(x, explicit=explicit)[3]
            if one != 1 or out_c != channels * multiplier:
                raise RefusedError(
                    f"has weights of shape {w.spec.shape} for {channels} channels and depth multiplier {multiplier}"
                )
            if channels == 1 and (rows := channels_first(w)):
                # All channels read the one input channel: a convolution of one group.
                patch = -(-kernel_h * kernel_w // _PATCH) * _PATCH * _SCRATCH
                plane = (stride, padding, dilation, in_offset, out_offset, multipliers, shifts, low, high)
                workspace = scratch if scratch.bytes >= patch else scratch_of(patch)
                return conv2d((x, rows, bias, *plane, workspace, y, y), explicit=explicit)
            shape = _Shape(explicit, channels, (kernel_h, kernel_w), pair(stride), pair(padding))
            numbers = in_offset, out_offset, low, high
            inputs = _Inputs(x, w, multipliers, shifts, bias)
            params = _params(inputs, y, out_c, shape, pair(dilation), numbers)
            return cortex_m_call("quantized_depthwise_conv2d", inputs.all, (scratch, y), params)
        case _:
            raise refuse_arguments()


def transpose_conv2d(args: Sequence[Argument], *, explicit: bool = False) -> OperatorCall:
    """As `conv2d`, with the output's padding before the dilation and a second scratch."""
    match args:
        case [Tensor() as x, Tensor() as w, None | Tensor() as bias, tuple(stride), tuple(padding), tuple(),
              tuple(dilation), int(in_offset), int(out_offset), Tensor() as multipliers, Tensor() as shifts,
              int(low), int(high), Tensor() as scratch, Tensor() as own, Tensor() as y, _]:  # fmt: skip
            if pair(dilation) != (1, 1):
                raise RefusedError(f"has the dilation {dilation}, firmware supports 1")
            out_c, kernel_h, kernel_w, depth = _four(w)
            channels = nhwc(x, explicit=explicit)[3]
            if depth != channels:
                raise RefusedError(f"has {channels} channels and weights for {depth}: firmware supports one group only")
            shape = _Shape(explicit, 1, (kernel_h, kernel_w), pair(stride), pair(padding))
            numbers = in_offset, out_offset, low, high
            inputs = _Inputs(x, w, multipliers, shifts, bias)
            params = _params(inputs, y, out_c, shape, (1, 1), numbers)
            return cortex_m_call("quantized_transpose_conv2d", inputs.all, (scratch, own, y), params)
        case _:
            raise refuse_arguments()


def linear(args: Sequence[Argument]) -> OperatorCall:
    """Input, weights, bias and kernel sum or none, offsets, factor as two lists of one, limits, output twice."""
    match args:
        case [Tensor() as x, Tensor() as w, None | Tensor() as bias, None | Tensor() as sums,
              int(in_offset), int(weight_offset), int(out_offset), [int(multiplier)], [int(shift)],
              int(high), int(low), Tensor() as y, _]:  # fmt: skip
            need_type("int8", x, w, y)
            _need_contiguous(x, w, y)
            if sums is None and (sums := kernel_sum(w, bias, in_offset, weight_offset)):
                bias = None
            rows = y.bytes // max(1, y.spec.shape[-1])
            params = QuantizedLinearParams(
                rows=rows, in_features=w.spec.shape[1], out_features=w.spec.shape[0],
                in_offset=in_offset, weight_offset=weight_offset, out_offset=out_offset,
                multiplier=multiplier, shift=shift, act_min=low, act_max=high,
                has_bias=int(bias is not None), has_kernel_sum=int(sums is not None),
            )  # fmt: skip
            inputs = (x, w, *(t for t in (bias, sums) if t is not None))
            return cortex_m_call("quantized_linear", inputs, (y,), params)
        case _:
            raise refuse_arguments()


def batch_matmul(args: Sequence[Argument]) -> OperatorCall:
    """Two tensors, each with its offset, zero point and factor of the output, scratch, output twice."""
    match args:
        case [Tensor() as a, int(a_offset), Tensor() as b, int(b_offset), int(out_offset), int(multiplier), int(shift),
              Tensor() as scratch, Tensor() as y, _]:  # fmt: skip
            need_type("int8", a, b, y)
            _need_contiguous(a, b, y)
            if len(a.spec.shape) != 3 or len(b.spec.shape) != 3:
                raise RefusedError(f"multiplies {a.spec.shape} by {b.spec.shape}, firmware supports three dimensions")
            batches, rows, depth = a.spec.shape
            columns = b.spec.shape[1]
            params = QuantizedBatchMatmulParams(
                batches, rows, depth, columns, a_offset, b_offset, out_offset, multiplier, shift
            )
            return cortex_m_call("quantized_batch_matmul", (a, b), (scratch, y), params)
        case _:
            raise refuse_arguments()


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The tensors that a convolution reads."""

    input: Tensor
    weights: Tensor
    multipliers: Tensor
    shifts: Tensor
    bias: Tensor | None
    kernel_sum: Tensor | None = None

    @property
    def all(self) -> tuple[Tensor, ...]:
        """Return the given tensors, in order."""
        parts = (self.input, self.weights, self.multipliers, self.shifts, self.bias, self.kernel_sum)
        return tuple(tensor for tensor in parts if tensor is not None)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Geometry of a convolution."""

    explicit: bool
    groups: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


def _params(
    inputs: _Inputs,
    y: Tensor,
    out_c: int,
    shape: _Shape,
    dilation: tuple[int, int],
    numbers: tuple[int, int, int, int],
) -> QuantizedConvolutionParams:
    """Return the record; `numbers` are the offsets of input and output, and the limits."""
    need_type("int8", inputs.input, inputs.weights, y)
    need_type("int32", inputs.multipliers, inputs.shifts, *(t for t in (inputs.bias,) if t is not None))
    batches, in_h, in_w, in_c = nhwc(inputs.input, explicit=shape.explicit)
    out_n, out_h, out_w, channels = nhwc(y, explicit=shape.explicit)
    if (out_n, channels) != (batches, out_c):
        raise RefusedError(f"makes {y.spec.shape} of {inputs.input.spec.shape} with {inputs.weights.spec.shape}")
    in_offset, out_offset, low, high = numbers
    return QuantizedConvolutionParams(
        batches=batches, in_h=in_h, in_w=in_w, in_c=in_c, out_h=out_h, out_w=out_w, out_c=out_c, groups=shape.groups,
        kernel_h=shape.kernel[0], kernel_w=shape.kernel[1], stride_h=shape.stride[0], stride_w=shape.stride[1],
        pad_h=shape.padding[0], pad_w=shape.padding[1], dilation_h=dilation[0], dilation_w=dilation[1],
        in_offset=in_offset, out_offset=out_offset, act_min=low, act_max=high, has_bias=int(inputs.bias is not None),
        has_kernel_sum=int(inputs.kernel_sum is not None),
    )  # fmt: skip


def _four(weights: Tensor) -> tuple[int, int, int, int]:
    """Return the dimensions of weights."""
    _need_contiguous(weights)
    match weights.spec.shape:
        case (a, b, c, d):
            return a, b, c, d
        case shape:
            raise RefusedError(f"has weights of shape {shape}, firmware supports four dimensions")


def _need_contiguous(*tensors: Tensor) -> None:
    for tensor in tensors:
        if not is_contiguous(tensor.spec):
            raise RefusedError(
                f"has a tensor of shape {tensor.spec.shape} in the order {tensor.spec.dim_order}, only the "
                "order of the shape"
            )
