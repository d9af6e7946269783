"""Fuses explicit padding into the operator that reads it."""

from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Conv2D, DepthwiseConv2D, MaxPool2D, Op, Pad, Pads
from deuteron.npu.neutron.ir.shapes import extent
from deuteron.npu.neutron.passes.base import merge_origins

MAX_POOL_NEUTRAL = -128
"""A padded element of this value never is the maximum, so it can be omitted."""

Windowed = Conv2D | DepthwiseConv2D | MaxPool2D


@dataclass(frozen=True, slots=True)
class FusePadding:
    """Fuses padding with real zero into a convolution, and padding with the lowest value into a max pool.

    Average pooling keeps its padding op: it counts elements of a Pad, but not its own padding.
    """

    name: ClassVar[str] = "fuse-padding"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph with fused padding."""
        producers = graph.producers()
        ops = tuple(_padded(graph, op, producers.get(op.inputs[0])) for op in graph.ops)
        return graph.with_ops(ops).without_dead_ops()


def _padded(graph: Graph, op: Op, pad: Op | None) -> Op:
    """Return `op` with the padding of `pad`, or unchanged if it cannot pad."""
    if not isinstance(op, Windowed) or not isinstance(pad, Pad):
        return op
    neutral = MAX_POOL_NEUTRAL if isinstance(op, MaxPool2D) else graph.type(op.inputs[0]).q.zero_point
    batch, (top, bottom), (left, right), channel = pad.paddings
    if pad.value != neutral or batch != (0, 0) or channel != (0, 0):
        return op
    pads = Pads(op.pads.top + top, op.pads.bottom + bottom, op.pads.left + left, op.pads.right + right)
    height, width = _span(graph, op)
    if max(pads.top, pads.bottom) >= height or max(pads.left, pads.right) >= width:
        return op
    return replace(op, inputs=(pad.inputs[0], *op.inputs[1:]), pads=pads, origin=merge_origins(pad, op))


def _span(graph: Graph, op: Windowed) -> tuple[int, int]:
    """Return rows and columns from the first to the last element of a window."""
    if isinstance(op, MaxPool2D):
        return op.window
    _, height, width, _ = graph.type(op.inputs[1]).shape
    return extent(height, op.dilation[0]), extent(width, op.dilation[1])
