"""Writes operators of a float model otherwise that ExecuTorch's NXP backend does not take, and that ours can have."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantise.decompositions import Form, apply, call

aten: Any = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Write what one index chooses as a slice less a dimension, layers of moved rows by rows; leave copies out."""
    apply(model, _FORMS)


def _selected(_: fx.GraphModule, select: fx.Node) -> fx.Node:
    x, dim, index = cast("tuple[fx.Node, int, int]", select.args)
    shape = cast(Tensor, x.meta["val"]).shape
    start = index % shape[dim]
    row = call(select, aten.slice.Tensor, x, dim, start, start + 1)
    return call(select, aten.reshape.default, row, [*cast(Tensor, select.meta["val"]).shape])


def _uncopied(_: fx.GraphModule, copy: fx.Node) -> fx.Node | None:
    """A copy that only asks for elements one after the other: lowering makes those that are needed."""
    (x,) = cast("tuple[fx.Node]", copy.args)
    return None if copy.kwargs or any(map(changes_operand, copy.users)) else x


def _reshaped(_: fx.GraphModule, view: fx.Node) -> fx.Node:
    """A view, which takes elements that lie one after the other, as what takes any."""
    return call(view, aten.reshape.default, view.args[0], [*cast(Tensor, view.meta["val"]).shape])


def _by_rows(_: fx.GraphModule, linear: fx.Node) -> fx.Node | None:
    """A layer over rows that a transpose has moved, which PyTorch makes a product and a sum of, as one of a matrix."""
    x = cast(fx.Node, linear.args[0])
    value = cast(Tensor, x.meta["val"])
    if value.dim() <= 2 or value.is_contiguous():
        return None
    rows = call(linear, aten.reshape.default, x, [value.numel() // value.shape[-1], value.shape[-1]])
    result = call(linear, aten.linear.default, rows, *linear.args[1:], **linear.kwargs)
    return call(linear, aten.reshape.default, result, [*cast(Tensor, linear.meta["val"]).shape])


_FORMS: Mapping[object, Form] = {
    aten.select.int: _selected,
    aten.linear.default: _by_rows,
    aten.contiguous.default: _uncopied,
    aten.view.default: _reshaped,
    aten.unflatten.int: _reshaped,
}
