"""Gathers constant masks of parts of the scores of a softmax into one mask of all scores, just before the softmax.

Windows of attention that `scores[:, -2:] += mask` masks in place are such parts. Between masks and softmax, operators
only move values. Targets that have a softmax with a constant mask then need no number in place of infinity.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

from deuteron.frontend.quantize.decompositions import call, constant, constant_value

aten: Any = torch.ops.aten

LEAST = -100.0
"""A number that leaves scores out in float32 already, if the others are near 0."""

_MOVES = frozenset(
    {
        *(aten.view.default, aten.reshape.default, aten.flatten.using_ints, aten.expand.default, aten.clone.default),
        *(aten.unsqueeze.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.contiguous.default),
        *(aten.permute.default, aten.transpose.int, aten.slice.Tensor, aten.select.int, aten.cat.default),
        *(aten.stack.default, aten.slice_scatter.default, aten.select_scatter.default, aten.roll.default),
    }
)
"""Operators that only move values."""


def gather(model: fx.GraphModule, softmax: fx.Node) -> fx.Node | None:
    """Return the softmax of scores with one mask, which has the constant masks of their parts; None without any."""
    scores, dim = cast("tuple[fx.Node, int]", softmax.args[:2])
    region, masks = _region(model, scores)
    parts = [node for node, addend in masks.items() if bool((addend <= LEAST).any())]
    if parts in ([], [scores]):
        return None
    hidden = {
        node: torch.zeros(addend.shape).masked_fill(addend <= LEAST, -torch.inf) for node, addend in masks.items()
    }
    left_out = _run(region, hidden, lambda leaf: torch.zeros(leaf.meta["val"].shape))[scores].isneginf()
    if left_out.all(dim).any():
        return None  # the shares of such a row depend on the numbers
    mask = _least_shape(torch.zeros(left_out.shape).masked_fill(left_out, -torch.inf))
    addend = constant(model, softmax, f"{softmax.name}_mask", mask)
    unmasked = _in_place(region, masks, scores) or _moved(model, softmax, region, masks)[scores]
    masked = call(softmax, aten.add.Tensor, unmasked, addend)
    return call(softmax, softmax.target, masked, *softmax.args[1:], **softmax.kwargs)


def _in_place(region: Sequence[fx.Node], masks: Mapping[fx.Node, Tensor], scores: fx.Node) -> fx.Node | None:
    """The only value that is moved, if each element ends where it was and none of it changes."""
    leaves = {arg for node in region for arg in _operands(node, masks) if arg not in region}
    if len(leaves) > 1 or any(_rest(addend).any() for addend in masks.values()):
        return None
    (leaf,) = leaves
    places = torch.arange(leaf.meta["val"].numel(), dtype=torch.float64).reshape(leaf.meta["val"].shape)
    moved = _run(region, dict.fromkeys(masks, torch.zeros(())), lambda _: places)[scores]
    return leaf if torch.equal(moved, places) else None


def _moved(
    model: fx.GraphModule, softmax: fx.Node, region: Sequence[fx.Node], masks: Mapping[fx.Node, Tensor]
) -> dict[fx.Node, fx.Node]:
    """The same operators without the masks."""
    moved = dict[fx.Node, fx.Node]()
    for node in region:
        args, kwargs = map_arg(cast(Any, (node.args, node.kwargs)), lambda arg: moved.get(arg, arg))
        moved[node] = (
            _unmasked(model, softmax, node, args[0], masks[node])
            if node in masks and bool((masks[node] <= LEAST).any())
            else call(softmax, node.target, *args, **kwargs)
        )
    return moved


def _region(model: fx.GraphModule, scores: fx.Node) -> tuple[list[fx.Node], dict[fx.Node, Tensor]]:
    """The operators between scores and what is neither moved nor masked, in order, and all constant addends."""
    found, masks = set[fx.Node](), dict[fx.Node, Tensor]()
    pending = [scores]
    while pending:
        node = pending.pop()
        if node in found:
            continue
        addend = None if node.target in _MOVES else _addend(model, node)
        if addend is not None:
            masks[node] = addend
        if node.target in _MOVES or addend is not None:
            found.add(node)
            pending += _operands(node, masks)
    return [node for node in model.graph.nodes if node in found], masks


def _addend(model: fx.GraphModule, node: fx.Node) -> Tensor | None:
    """The constant that a node adds to scores, infinite for masked ones; None for any other node."""
    if node.kwargs or len(node.args) < 2 or not isinstance(node.args[0], fx.Node):
        return None
    other = node.args[1]
    value = constant_value(model, other) if isinstance(other, fx.Node) else None
    if value is None or node.target not in (aten.add.Tensor, aten.masked_fill.Scalar):
        return None
    if node.target is aten.masked_fill.Scalar:
        if cast(float, node.args[2]) > LEAST:
            return None
        value = torch.zeros(value.shape).masked_fill(value, cast(float, node.args[2]))
    return value


def _operands(node: fx.Node, masks: Mapping[fx.Node, Tensor]) -> list[fx.Node]:
    """The tensors whose values a node moves or masks."""
    return [cast(fx.Node, node.args[0])] if node in masks else node.all_input_nodes


def _run(
    region: Sequence[fx.Node], addends: Mapping[fx.Node, Tensor], leaf: Callable[[fx.Node], Tensor]
) -> dict[fx.Node, Tensor]:
    """The values of the operators of a region for values of its leaves; addends are added where they mask."""
    values = dict[fx.Node, Tensor]()

    def value_of(node: fx.Node) -> Tensor:
        return values[node] if node in values else leaf(node)

    for node in region:
        if node in addends:
            values[node] = value_of(cast(fx.Node, node.args[0])) + addends[node]
        else:
            args, kwargs = map_arg(cast(Any, (node.args, node.kwargs)), value_of)
            values[node] = cast(Any, node.target)(*args, **kwargs)
    return values


def _rest(addend: Tensor) -> Tensor:
    """The addend of the scores that are not left out."""
    return addend.masked_fill(addend <= LEAST, 0.0)


def _unmasked(model: fx.GraphModule, before: fx.Node, node: fx.Node, scores: fx.Node, addend: Tensor) -> fx.Node:
    """The scores with the addend of those that are not left out."""
    if bool((rest := _rest(addend)).any()):
        bias = constant(model, before, f"{node.name}_bias", rest)
        return call(before, aten.add.Tensor, scores, bias)
    shape = node.meta["val"].shape
    return scores if scores.meta["val"].shape == shape else call(before, aten.expand.default, scores, [*shape])


def _least_shape(mask: Tensor) -> Tensor:
    """The mask with one slice for each dimension whose slices are equal."""
    for dim in range(mask.dim() - 1):
        first = mask.narrow(dim, 0, 1)
        mask = first if bool((mask == first).all()) else mask
    return mask
