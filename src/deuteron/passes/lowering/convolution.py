"""Convolutions and fully connected layers."""

import numpy as np

from deuteron import numerics
from deuteron.ir.ops import Conv2D, DepthwiseConv2D, FullyConnected, Op
from deuteron.kernels import params as p
from deuteron.kernels.catalogue import CONV2D, DEPTHWISE_CONV2D, FULLY_CONNECTED
from deuteron.kernels.program import Ref
from deuteron.kernels.rules import conv_workspace
from deuteron.passes.lowering.builder import Builder
from deuteron.passes.lowering.rows import channel_rows

LARGEST_WEIGHT = 128


def conv2d(build: Builder, op: Conv2D) -> None:
    """Lowers a convolution to one call with a workspace."""
    x, weights, _ = op.inputs
    batches, in_h, in_w, in_c = build.type(x).shape
    out_c, kernel_h, kernel_w, _ = build.type(weights).shape
    _, out_h, out_w, _ = build.type(op.outputs[0]).shape
    _check_accumulators(build, op, channel_axis=0)
    requant, requant_count = _requant(build, op)
    params = p.Conv2DParams(
        batches=batches, in_h=in_h, in_w=in_w, in_c=in_c, out_h=out_h, out_w=out_w, out_c=out_c,
        kernel_h=kernel_h, kernel_w=kernel_w, stride_h=op.stride[0], stride_w=op.stride[1],
        dilation_h=op.dilation[0], dilation_w=op.dilation[1], pad_top=op.pads.top, pad_left=op.pads.left,
        requant_count=requant_count, in_zp=build.type(x).q.zero_point, out_zp=build.type(op.outputs[0]).q.zero_point,
        act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    workspace = build.scratch(f"{op.outputs[0]}/workspace", conv_workspace(kernel_h * kernel_w * in_c))
    build.call(op, CONV2D, (*map(build.tensor, op.inputs), requant, build.tensor(op.outputs[0]), workspace), params)


def depthwise_conv2d(build: Builder, op: DepthwiseConv2D) -> None:
    """Lowers a depthwise convolution to one call."""
    x, weights, _ = op.inputs
    batches, in_h, in_w, in_c = build.type(x).shape
    _, kernel_h, kernel_w, out_c = build.type(weights).shape
    _, out_h, out_w, _ = build.type(op.outputs[0]).shape
    _check_accumulators(build, op, channel_axis=3)
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
    """Lowers a fully connected layer to one call."""
    x, weights, _ = op.inputs
    out_features, in_features = build.type(weights).shape
    _check_accumulators(build, op, channel_axis=0)
    requant, requant_count = _requant(build, op)
    params = p.FullyConnectedParams(
        rows=build.type(x).numel // in_features, in_features=in_features, out_features=out_features,
        requant_count=requant_count, in_zp=build.type(x).q.zero_point, out_zp=build.type(op.outputs[0]).q.zero_point,
        act_min=op.clamp.lo, act_max=op.clamp.hi,
    )  # fmt: skip
    build.call(op, FULLY_CONNECTED, (*map(build.tensor, op.inputs), requant, build.tensor(op.outputs[0])), params)


def _requant(build: Builder, op: Op) -> tuple[Ref, int]:
    """The requantisation rows of the op and their number: one when all channels share a scale."""
    x, weights, _ = op.inputs
    scales = build.type(weights).q.scales
    table = channel_rows(build.type(x).q.scale, scales, build.type(op.outputs[0]).q.scale)
    return build.array(f"{op.outputs[0]}/requant", table), len(scales)


def _check_accumulators(build: Builder, op: Op, channel_axis: int) -> None:
    """Refuses an op whose sums could leave 32 bits; weights not known yet count as the largest there are."""
    _, weights, bias = (build.graph.tensor(name) for name in op.inputs)
    if not bias.is_const:
        raise build.unsupported(op, f"bias `{bias.name}` is not a constant; its values must be known to bound the sums")
    values = weights.array() if weights.is_const else np.full(weights.type.shape, LARGEST_WEIGHT, np.int16)
    rows = np.moveaxis(values, channel_axis, 0).reshape(weights.type.shape[channel_axis], -1)
    numerics.check_accumulators(rows, bias.array())
