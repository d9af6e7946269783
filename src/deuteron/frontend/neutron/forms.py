"""Writes operators of a float model otherwise that ExecuTorch's NXP backend does not take, and that ours can have."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.operators import changes_operand
from deuteron.frontend.quantise.forms import Form, apply, call

aten: Any = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Write what is chosen by one index as a slice, of which a dimension is left out; leave copies out."""
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


_FORMS: Mapping[object, Form] = {
    aten.select.int: _selected,
    aten.contiguous.default: _uncopied,
    aten.view.default: _reshaped,
    aten.unflatten.int: _reshaped,
}
