"""Brings operators of several results into the form in which ExecuTorch's NXP backend takes them right."""

import operator
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

aten: Any = torch.ops.aten

_SPLITS = frozenset({aten.split.default, aten.split.Tensor, aten.split_with_sizes.default})


def slice_splits(model: fx.GraphModule) -> None:
    """Write each part of a split that is read as a slice.

    The backend does so, too, but takes what reads a split for its parts by their order, and fails where one is unused.
    """
    for split in [node for node in model.graph.nodes if node.target in _SPLITS]:
        dim = cast(int, split.args[2] if len(split.args) > 2 else split.kwargs.get("dim", 0))
        sizes = [int(value.shape[dim]) for value in cast("list[Tensor]", split.meta["val"])]
        for part in list(split.users):
            index = cast(int, part.args[1])
            start = sum(sizes[:index])
            part.target, part.args = aten.slice.Tensor, (split.args[0], dim, start, start + sizes[index])
            part.meta["source_fn_stack"] = [(part.name, part.target)]
    model.graph.eliminate_dead_code()
    model.recompile()


def take_first(program: ExportedProgram) -> None:
    """Let operators of several results, of which a partition has the first only, give that one themselves.

    A max pool also gives indices, which the NPU does not have, so its result is taken out by a `getitem`. The backend
    converts that after the quantise and dequantise operators behind it, and all but the last of these then have the
    name of a tensor that nothing writes. An operator of one result it converts right.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target is operator.getitem and node.args[1] == 0 and _has_first_only(node.args[0]):
            source = node.args[0]
            source.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(source)
            graph.erase_node(node)
    program.graph_module.recompile()


def _has_first_only(source: fx.Node) -> bool:
    """Whether all that is read of an operator's results is the first."""
    return all(user.target is operator.getitem and user.args[1] == 0 for user in source.users)
