"""Decomposes operators of a float model that ExecuTorch's NXP backend does not convert and our converter supports."""

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.nodes import CPU_ONLY
from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantize.decompositions import Decomposition, apply, call, constant

aten: Any = torch.ops.aten

_FEW = 16
"""The number of elements up to which a sum keeps its operator."""


def write(model: fx.GraphModule) -> None:
    """Replace selections by slices and sums of many elements by linear layers, and remove copies for contiguity.

    Rows of linear layers become a matrix, and stacks concatenate tensors with one more dimension.
    """
    apply(model, _DECOMPOSITIONS)
    for node in model.graph.nodes:
        if node.target in _CONVOLUTIONS and _has_wrong_groups(node):
            _leave_to_cpu(node, _WRONG_GROUPS)
        elif node.target is aten.slice.Tensor and node.args[4:] == (1,):
            node.args = node.args[:4]  # the NXP backend takes no step, not even this
        elif node.target is aten.slice.Tensor and node.args[4:]:
            _leave_to_cpu(node, "the NXP backend has no slices with a step")
        elif node.op == "call_function" and _is_number(node):
            _leave_to_cpu(node, "the NXP backend writes some operators on tensors without dimensions wrong")


def _is_number(node: fx.Node) -> bool:
    """Return True for an operator whose result has no dimensions, unless it only takes a tensor's element."""
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and not value.dim() and node.target is not aten.reshape.default


def _leave_to_cpu(node: fx.Node, why: str) -> None:
    node.meta["custom"] = {**node.meta.get("custom", {}), CPU_ONLY: why}


_CONVOLUTIONS = {aten.conv2d.default: 6, aten.conv2d.padding: 6}
"""Convolutions, with the index of their number of groups."""
_SPLIT = 10
"""The NXP backend splits convolutions with up to this many groups."""
_WRONG_GROUPS = f"the NXP backend writes convolutions of more than {_SPLIT} groups wrong, but for depthwise ones"


def _has_wrong_groups(node: fx.Node) -> bool:
    place = _CONVOLUTIONS[node.target]
    groups = cast(int, node.args[place]) if len(node.args) > place else 1
    inputs = cast(fx.Node, node.args[0]).meta["val"].shape[1]
    return groups > _SPLIT and not inputs == node.meta["val"].shape[1] == groups


def _summed(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Sum many elements with a linear layer of ones, because the NXP backend gives a sum the scale of its operand.

    Few of the operand's steps would be left for one element.
    """
    x, dims = cast("tuple[fx.Node, list[int] | None]", node.args[:2])
    shape = cast(Tensor, x.meta["val"]).shape
    last = sorted(dim % len(shape) for dim in dims or range(len(shape)))
    count = math.prod(shape[dim] for dim in last)
    if count <= _FEW or not cast(Tensor, x.meta["val"]).is_floating_point():
        return None
    kept = [dim for dim in range(len(shape)) if dim not in last]
    if kept + last != [*range(len(shape))]:
        x = call(node, aten.permute.default, x, kept + last)
    rows = call(node, aten.reshape.default, x, [math.prod(shape) // count, count])
    ones = constant(model, node, f"ones_{count}", torch.ones(1, count))
    total = call(node, aten.linear.default, rows, ones)
    return call(node, aten.reshape.default, total, [*cast(Tensor, node.meta["val"]).shape])


def _selected(_: fx.GraphModule, select: fx.Node) -> fx.Node:
    x, dim, index = cast("tuple[fx.Node, int, int]", select.args)
    shape = cast(Tensor, x.meta["val"]).shape
    start = index % shape[dim]
    row = call(select, aten.slice.Tensor, x, dim, start, start + 1)
    return call(select, aten.reshape.default, row, [*cast(Tensor, select.meta["val"]).shape])


def _concatenated(_: fx.GraphModule, stack: fx.Node) -> fx.Node:
    """Concatenate the tensors of a stack after a reshape of each, which then has a quantization."""
    parts, dim = cast("tuple[list[fx.Node], int]", (*stack.args, 0)[:2])
    shape = [*cast(Tensor, stack.meta["val"]).shape]
    shape[dim] = 1
    return call(stack, aten.cat.default, [call(stack, aten.reshape.default, part, shape) for part in parts], dim)


def _uncopied(_: fx.GraphModule, copy: fx.Node) -> fx.Node | None:
    """Remove a copy that only makes a tensor contiguous: lowering inserts the necessary copies."""
    (x,) = cast("tuple[fx.Node]", copy.args)
    return None if copy.kwargs or any(map(changes_operand, copy.users)) else x


def _reshaped(_: fx.GraphModule, view: fx.Node) -> fx.Node:
    """Replace a view, which needs contiguous elements, by a reshape."""
    return call(view, aten.reshape.default, view.args[0], [*cast(Tensor, view.meta["val"]).shape])


def _by_rows(_: fx.GraphModule, linear: fx.Node) -> fx.Node | None:
    """Flatten the transposed rows of a linear layer to a matrix, because PyTorch would split the layer."""
    x = cast(fx.Node, linear.args[0])
    value = cast(Tensor, x.meta["val"])
    if value.dim() <= 2 or value.is_contiguous():
        return None
    rows = call(linear, aten.reshape.default, x, [value.numel() // value.shape[-1], value.shape[-1]])
    result = call(linear, aten.linear.default, rows, *linear.args[1:], **linear.kwargs)
    return call(linear, aten.reshape.default, result, [*cast(Tensor, linear.meta["val"]).shape])


_DECOMPOSITIONS: Mapping[object, Decomposition] = {
    aten.sum.dim_IntList: _summed,
    aten.select.int: _selected,
    aten.stack.default: _concatenated,
    aten.linear.default: _by_rows,
    aten.contiguous.default: _uncopied,
    aten.view.default: _reshaped,
    aten.unflatten.int: _reshaped,
}
