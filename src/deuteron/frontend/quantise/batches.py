"""Gives images and signals without a batch one, which quantisers, NPUs and kernels want.

Layers of PyTorch take a batch of one with the same result, so that targets need not know of images without.
"""

import operator
from collections.abc import Mapping
from typing import cast

import torch
from torch import fx

from deuteron.frontend.quantise import singleton_dimensions
from deuteron.frontend.quantise.decompositions import apply, call, values_alone

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Write convolutions and pools of images and signals without a batch, and what joins them, as those of one."""
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
"""What takes images and signals with a batch and without, and the rank without one."""
