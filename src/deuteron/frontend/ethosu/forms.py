"""Writes operators of a float model that ExecuTorch's Ethos-U backend leaves to the CPU as it takes them."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.quantise.forms import Form, apply, call, numbers

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Let pools whose one window is the whole image move by one step: by three is the most, and they do not move."""
    apply(model, _FORMS)


def _unmoved(_: fx.GraphModule, pool: fx.Node) -> fx.Node | None:
    window, *given = cast("tuple[Any, ...]", pool.args[1:])
    stride = numbers((given[0] if given else None) or window, 2)
    sizes = pool.meta["val"].shape[-2:]
    moved = [step if size > 1 else 1 for size, step in zip(sizes, stride, strict=True)]
    return None if moved == stride else call(pool, pool.target, pool.args[0], window, moved, *given[1:])


_FORMS: Mapping[object, Form] = {aten.avg_pool2d.default: _unmoved, aten.max_pool2d.default: _unmoved}
