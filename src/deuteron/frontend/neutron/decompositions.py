"""Decomposes operators of a float model that ExecuTorch's NXP backend does not convert and our converter supports."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantize.decompositions import Decomposition, apply, call

aten: Any = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Replace selections by slices, flatten rows of linear layers to a matrix, and remove copies for contiguity."""
    apply(model, _DECOMPOSITIONS)


def _selected(_: fx.GraphModule, select: fx.Node) -> fx.Node:
    x, dim, index = cast("tuple[fx.Node, int, int]", select.args)
    shape = cast(Tensor, x.meta["val"]).shape
    start = index % shape[dim]
    row = call(select, aten.slice.Tensor, x, dim, start, start + 1)
    return call(select, aten.reshape.default, row, [*cast(Tensor, select.meta["val"]).shape])


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
    aten.select.int: _selected,
    aten.linear.default: _by_rows,
    aten.contiguous.default: _uncopied,
    aten.view.default: _reshaped,
    aten.unflatten.int: _reshaped,
}
