"""Removes casts from an exported model that change no value, such as `.float()` of floats."""

from typing import Any, cast

import torch
from torch import Tensor, fx

aten: Any = torch.ops.aten

_CASTS = frozenset({aten.to.device, aten.to.dtype, aten.to.dtype_layout, aten.to.other, aten.type_as.default})


def remove_identity_casts(model: fx.GraphModule) -> None:
    """Remove casts to a tensor's own dtype, or replace them by copies if they change its memory format.

    PyTorch's checks before casts are removed as well.
    """
    for node in list(model.graph.nodes):
        if str(node.target) == "aten._assert_tensor_metadata.default":
            model.graph.erase_node(node)
        elif node.target in _CASTS:
            source = cast(fx.Node, node.args[0])
            before, after = cast(Tensor, source.meta["val"]), cast(Tensor, node.meta["val"])
            # A requested copy stays, because in-place operators may write into it.
            if before.dtype == after.dtype and before.stride() == after.stride() and not _copies(node):
                node.replace_all_uses_with(source)
                model.graph.erase_node(node)
            elif before.dtype == after.dtype:
                arguments = (*node.args, *node.kwargs.values())
                order = next((x for x in arguments if isinstance(x, torch.memory_format)), torch.preserve_format)
                node.target, node.args, node.kwargs = aten.clone.default, (source,), {"memory_format": order}
    model.graph.lint()
    model.recompile()


def merge_bool_casts(model: fx.GraphModule) -> None:
    """Merge casts from bool to integer to float into casts from bool to float."""
    for node in model.graph.nodes:
        source = node.args[0] if node.target is aten.to.dtype and _value(node).is_floating_point() else None
        if isinstance(source, fx.Node) and source.target is aten.to.dtype and not _value(source).is_floating_point():
            first = cast(fx.Node, source.args[0])
            if _value(first).dtype == torch.bool:
                node.replace_input_with(source, first)
    model.graph.eliminate_dead_code()
    model.recompile()


def makes_float(node: fx.Node) -> bool:
    """Return True for a cast of integers or bools to float32."""
    if node.target is not aten.to.dtype:
        return False
    return not _value(cast(fx.Node, node.args[0])).is_floating_point() and _value(node).dtype == torch.float32


def _value(node: fx.Node) -> Tensor:
    return node.meta["val"]


def _copies(node: fx.Node) -> bool:
    """Return True if a cast requests a copy."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]  # noqa: SLF001 - it has no public name
    return bool((dict(zip(names, node.args, strict=False)) | node.kwargs).get("copy"))
