"""Adds a batch dimension to images and signals without one, which quantizers, NPUs and kernels require.

PyTorch's layers compute the same result for a batch of one.
"""

import operator
from collections.abc import Mapping
from typing import cast

import torch
from torch import fx

from deuteron.frontend.quantize import singleton_dimensions
from deuteron.frontend.quantize.decompositions import apply, call, values_alone

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace convolutions and pools of images and signals without a batch, and the operators between them."""
    apply(model, {operator.getitem: values_alone})
    if any(_has_no_batch(node) for node in model.graph.nodes):
        singleton_dimensions.write(model, 0, {target: (rank, _batched) for target, rank in _RANKS.items()})


def _has_no_batch(node: fx.Node) -> bool:
    rank = _RANKS.get(node.target)
    return rank is not None and cast(fx.Node, node.args[0]).meta["val"].dim() == rank


def _batched(_: fx.GraphModule, node: fx.Node, x: fx.Node) -> fx.Node:
    return call(node, node.target, x, *node.args[1:], **node.kwargs)


_RANKS: Mapping[object, int] = {
    aten.conv1d.default: 2,
    aten.conv1d.padding: 2,
    aten.conv_transpose1d.default: 2,
    aten.avg_pool1d.default: 2,
    aten.max_pool1d.default: 2,
    aten.adaptive_avg_pool1d.default: 2,
    aten.conv2d.default: 3,
    aten.conv2d.padding: 3,
    aten.conv_transpose2d.input: 3,
    aten.avg_pool2d.default: 3,
    aten.max_pool2d.default: 3,
    aten.adaptive_avg_pool2d.default: 3,
}
"""Operators that accept images and signals with and without a batch, and the rank without one."""
