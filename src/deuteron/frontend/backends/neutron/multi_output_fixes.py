"""Rewrites operators with several results that ExecuTorch's NXP backend converts wrongly."""

import operator
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

aten: Any = torch.ops.aten

_SPLITS = frozenset({aten.split.default, aten.split.Tensor, aten.split_with_sizes.default})


def slice_splits(model: fx.GraphModule) -> None:
    """Replace the parts of splits by slices.

    The backend does the same, but matches the readers of a split to its parts by order, and fails for unused parts.
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


def merge_first_result(program: ExportedProgram) -> None:
    """Give operators with several results, of which only the first is used, this one result.

    A max-pool also returns indices, which the NPU lacks, so a `getitem` selects its values. The backend converts the
    `getitem` after the quantize and dequantize operators that read it; all but the last of these then refer to a tensor
    that nothing writes. Operators with one result are converted correctly.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target is operator.getitem and node.args[1] == 0 and _only_first_is_used(node.args[0]):
            source = node.args[0]
            source.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(source)
            graph.erase_node(node)
    program.graph_module.recompile()


def separate_readers(model: fx.GraphModule) -> None:
    """Give each copy of a dequantized value that others read, too, a dequantize operator that nothing else reads.

    A partition that takes an operator which others read would return floats. `layer(x.clone()), x` has one for `x`.
    """
    for node in [node for node in model.graph.nodes if "dequantize_per_tensor" in str(node.target)]:
        copies = [user for user in node.users if "clone" in str(user.target)]
        for user in copies if len(copies) < len(node.users) else copies[1:]:
            with model.graph.inserting_after(node):
                own = model.graph.node_copy(node)
            user.replace_input_with(node, own)
    model.recompile()


def _only_first_is_used(source: fx.Node) -> bool:
    """Return True if only the first of an operator's results is read."""
    return all(user.target is operator.getitem and user.args[1] == 0 for user in source.users)
