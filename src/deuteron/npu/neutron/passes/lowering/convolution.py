"""Convolutions and fully connected layers."""

from dataclasses import dataclass

import numpy as np

from deuteron.npu.neutron.ir.ops import Conv2D, DepthwiseConv2D, FullyConnected, Op, TransposeConv
from deuteron.npu.neutron.kernels.catalogue import CONV2D, DEPTHWISE_CONV2D, FILL, FULLY_CONNECTED
from deuteron.npu.neutron.passes.lowering.builder import Builder
from deuteron.npu.neutron.passes.lowering.movement import move_box
from deuteron.npu.neutron.passes.lowering.requantization_rows import channel_rows
from deuteron.npu.neutron.passes.lowering.strides import contiguous_strides
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Ref
from deuteron.operators.rules import conv_workspace


def conv2d(build: Builder, op: Conv2D) -> None:
    """Lowers a convolution to one call with a workspace."""
    x, weights, _ = op.inputs
    batches, in_h, in_w, in_c = build.type(x).shape
    out_c, kernel_h, kernel_w, _ = build.type(weights).shape
    _, out_h, out_w, _ = build.type(op.outputs[0]).shape
    requant, requant_count = _requant(build, op)
    params = p.Conv2DParams(
        batches=batches, in_h=in_h, in_w=in_w, in_c=in_c, out_h=out_h, out_w=out_w, out_c=out_c,
        kernel_h=kernel_h, kernel_w=kernel_w, stride_h=op.stride[0], stride_w=op.stride[1],
        dilation_h=op.dilation[0], dilation_w=op.dilation[1], pad_top=op.pads.top, pad_left=op.pads.left,
        requant_count=requant_count, in_zp=build.type(x).q.zero_point, out_zp=build.type(op.outputs[0]).q.zero_point,
        act_min=op.clamp.lo, act_max=op.clamp.hi, out_pitch=build.pitch(op.outputs[0]),
    )  # fmt: skip
    workspace = build.scratch(f"{op.outputs[0]}/workspace", conv_workspace(kernel_h * kernel_w * in_c))
    build.call(op, CONV2D, (*map(build.tensor, op.inputs), requant, build.tensor(op.outputs[0]), workspace), params)


def transpose_conv(build: Builder, op: TransposeConv) -> None:
    """Lowers a transposed convolution to a convolution with stride 1 over the map with inserted zeros.

    The inserted elements are the zero point, and the kernel is rotated by 180 degrees.
    """
    x, weights, bias = op.inputs
    batches, in_h, in_w, channels = build.type(x).shape
    out_c, kernel_h, kernel_w, _ = build.type(weights).shape
    _, out_h, out_w, _ = build.type(op.outputs[0]).shape
    rows = _spread(in_h, out_h, kernel_h, op.stride[0], op.pads.top)
    columns = _spread(in_w, out_w, kernel_w, op.stride[1], op.pads.left)
    requant, requant_count = _requant(build, op)
    params = p.Conv2DParams(
        batches=batches, in_h=rows.size, in_w=columns.size, in_c=channels, out_h=out_h, out_w=out_w, out_c=out_c,
        kernel_h=kernel_h, kernel_w=kernel_w, stride_h=1, stride_w=1, dilation_h=1, dilation_w=1, pad_top=rows.pad,
        pad_left=columns.pad, requant_count=requant_count, in_zp=build.type(x).q.zero_point,
        out_zp=build.type(op.outputs[0]).q.zero_point, act_min=op.clamp.lo, act_max=op.clamp.hi,
        out_pitch=build.pitch(op.outputs[0]),
    )  # fmt: skip
    turned = build.graph.tensor(weights).array()[:, ::-1, ::-1, :]
    source = _spread_map(build, op, rows, columns)
    workspace = build.scratch(f"{op.outputs[0]}/workspace", conv_workspace(kernel_h * kernel_w * channels))
    operands = (
        source, build.array(f"{weights}/turned", turned), build.tensor(bias), requant,
        build.tensor(op.outputs[0]), workspace,
    )  # fmt: skip
    build.call(op, CONV2D, operands, params)


@dataclass(frozen=True, slots=True)
class _Spread:
    """One axis of a map with inserted zeros.

    Attributes:
        size: elements of the map, of which every `stride`-th comes from the input.
        pad: elements that the first window starts before the map.
    """

    size: int
    stride: int
    pad: int


def _spread(in_size: int, out_size: int, kernel: int, stride: int, crop: int) -> _Spread:
    """Return the smallest axis for the convolution: it ends at its last element, or at the start of the last window."""
    pad = kernel - 1 - crop
    return _Spread(max((in_size - 1) * stride, out_size - 1 - pad) + 1, stride, pad)


def _spread_map(build: Builder, op: TransposeConv, rows: _Spread, columns: _Spread) -> Ref:
    """Return the input with inserted zeros: a fill with the zero point, then a copy; the input itself for stride 1."""
    (x, *_), kind = op.inputs, build.type(op.inputs[0])
    batches, in_h, in_w, channels = kind.shape
    if (rows.size, columns.size) == (in_h, in_w):
        return build.tensor(x)
    spread = build.scratch(f"{op.outputs[0]}/spread", batches * rows.size * columns.size * channels)
    build.call(op, FILL, (spread,), p.FillParams(spread.nbytes, kind.q.zero_point))
    batch, row, column, channel = contiguous_strides((batches, rows.size, columns.size, channels))
    write = (batch, row * rows.stride, column * columns.stride, channel)
    move_box(build, op, kind.shape, (build.tensor(x), 0, contiguous_strides(kind.shape)), (spread, 0, write))
    return spread


def depthwise_conv2d(build: Builder, op: DepthwiseConv2D) -> None:
    """Lowers a depthwise convolution to one call."""
    x, weights, _ = op.inputs
    batches, in_h, in_w, in_c = build.type(x).shape
    _, kernel_h, kernel_w, out_c = build.type(weights).shape
    _, out_h, out_w, _ = build.type(op.outputs[0]).shape
    requant, requant_count = _requant(build, op)
    params = p.DepthwiseConv2DParams(
        batches=batches, in_h=in_h, in_w=in_w, in_c=in_c, out_h=out_h, out_w=out_w, out_c=out_c,
        multiplier=op.multiplier, kernel_h=kernel_h, kernel_w=kernel_w, stride_h=op.stride[0], stride_w=op.stride[1],
        dilation_h=op.dilation[0], dilation_w=op.dilation[1], pad_top=op.pads.top, pad_left=op.pads.left,
        requant_count=requant_count, in_zp=build.type(x).q.zero_point, out_zp=build.type(op.outputs[0]).q.zero_point,
        act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    build.call(op, DEPTHWISE_CONV2D, (*map(build.tensor, op.inputs), requant, build.tensor(op.outputs[0])), params)


def fully_connected(build: Builder, op: FullyConnected) -> None:
    """Lowers a fully connected layer to one call; the bias includes the input's zero point, if weights are constant."""
    x, weights, _ = op.inputs
    out_features, in_features = build.type(weights).shape
    requant, requant_count = _requant(build, op)
    bias = _bias_with_zero_point(build, op)
    params = p.FullyConnectedParams(
        rows=build.type(x).numel // in_features, in_features=in_features, out_features=out_features,
        requant_count=requant_count, in_zp=build.type(x).q.zero_point if bias is None else 0,
        out_zp=build.type(op.outputs[0]).q.zero_point, act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    own = build.tensor(op.inputs[2]) if bias is None else bias
    build.call(
        op, FULLY_CONNECTED, (build.tensor(x), build.tensor(weights), own, requant, build.tensor(op.outputs[0])), params
    )


def _bias_with_zero_point(build: Builder, op: FullyConnected) -> Ref | None:
    """Return the bias minus the sums of weights times the input's zero point; None unless both are constant."""
    x, weights, bias = (build.graph.tensor(name) for name in op.inputs)
    if not (weights.is_const and bias.is_const):
        return None
    totals = weights.array().sum(axis=1, dtype=np.int64)
    addends = bias.array() - x.type.q.zero_point * totals
    return build.array(f"{op.outputs[0]}/bias", addends.astype(np.int32))


def _requant(build: Builder, op: Op) -> tuple[Ref, int]:
    """Return the requantization rows of the op and their number: one if all channels share a scale."""
    x, weights, _ = op.inputs
    scales = build.type(weights).q.scales
    table = channel_rows(build.type(x).q.scale, scales, build.type(op.outputs[0]).q.scale)
    return build.array(f"{op.outputs[0]}/requant", table), len(scales)
