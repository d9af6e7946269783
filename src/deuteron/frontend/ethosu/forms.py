"""Writes operators of a float model that ExecuTorch's Ethos-U backend leaves to the CPU as it takes them."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.quantise import recurrent
from deuteron.frontend.quantise.forms import Form, apply, call, numbers

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Let pools whose one window is the whole image move by one step; write relu6 as hardtanh, cells as operators.

    By three is the most that a pool may move, and these do not. The backend takes hardtanh, and what a recurrent cell
    consists of. Images of one row become signals in one transposition, where Vela has one for each element of the row.
    """
    apply(model, _FORMS)


def _unmoved(_: fx.GraphModule, pool: fx.Node) -> fx.Node | None:
    image, window, *given = cast("tuple[Any, ...]", pool.args)
    stride, pads, steps = (*given, *((), 0, 1)[len(given) :])[:3]
    if pool.target is aten.avg_pool2d.default:
        steps = 1  # what stands there says how sizes are rounded
    stride = numbers(stride or window, 2)
    axes = zip(image.meta["val"].shape[-2:], *(numbers(value, 2) for value in (window, pads, steps)), strict=True)
    is_whole = [size + 2 * pad == (extent - 1) * step + 1 for size, extent, pad, step in axes]
    moved = [1 if whole else move for whole, move in zip(is_whole, stride, strict=True)]
    return None if moved == stride else call(pool, pool.target, image, window, moved, *given[1:])


def _hardtanh(_: fx.GraphModule, relu6: fx.Node) -> fx.Node:
    return call(relu6, aten.hardtanh.default, relu6.args[0], 0.0, 6.0)


def _without_row(_: fx.GraphModule, view: fx.Node) -> fx.Node | None:
    """A view that leaves out the one row of images, once this stands before their channels."""
    image, signal = cast(fx.Node, view.args[0]), [*view.meta["val"].shape]
    if [*image.meta["val"].shape] != [*signal[:2], 1, *signal[2:]] or len(signal) != 3:
        return None
    return call(view, aten.reshape.default, call(view, aten.permute.default, image, [0, 2, 1, 3]), signal)


_FORMS: Mapping[object, Form] = {
    aten.avg_pool2d.default: _unmoved,
    aten.max_pool2d.default: _unmoved,
    aten.relu6.default: _hardtanh,
    aten.relu6_.default: _hardtanh,
    **dict.fromkeys((aten.reshape.default, aten.view.default, aten.squeeze.dim), _without_row),
    **recurrent.CELLS,
}
