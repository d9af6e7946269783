"""Writes operators of a float model that quantisers or kernels do not have with others, for every target alike."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Write divisions by numbers, pixel shuffles and max-pools that round their size up with other operators."""
    for node in list(model.graph.nodes):
        form = _FORMS.get(node.target)
        value = None if form is None else form(node)
        if value is not None:
            node.replace_all_uses_with(value)
            model.graph.erase_node(node)
    model.graph.eliminate_dead_code()
    model.recompile()


def call(before: fx.Node, target: object, *args: object) -> fx.Node:
    """A call of an operator, put before a node whose line of the model it gets."""
    with before.graph.inserting_before(before):
        node = before.graph.call_function(cast(Any, target), cast(Any, args))
    node.meta = dict(before.meta)
    node.meta["val"] = cast(Any, target)(*map_arg(cast(Any, args), lambda arg: arg.meta["val"]))
    return node


def _product(division: fx.Node) -> fx.Node | None:
    """A division by a number as a product with one: the wheel would make a tensor of the image's size of the number."""
    x, divisor = cast("tuple[fx.Node, object]", division.args)
    if isinstance(divisor, bool) or not isinstance(divisor, int | float) or not divisor:
        return None
    return call(division, aten.mul.Tensor, x, 1 / divisor) if _value(x).is_floating_point() else None


def _shuffled(shuffle: fx.Node) -> fx.Node:
    """A pixel shuffle as what it is decomposed into later: then the wheel takes a permutation that has no scale."""
    x, factor = cast("tuple[fx.Node, int]", shuffle.args)
    *batch, channels, high, wide = _value(x).shape
    first = len(batch)
    parts = [*batch, channels // factor**2, factor, factor, high, wide]
    order = [*range(first), first, first + 3, first + 1, first + 4, first + 2]
    return _rearranged(shuffle, x, parts, order)


def _unshuffled(unshuffle: fx.Node) -> fx.Node:
    """Its reverse likewise."""
    x, factor = cast("tuple[fx.Node, int]", unshuffle.args)
    *batch, channels, high, wide = _value(x).shape
    first = len(batch)
    parts = [*batch, channels, high // factor, factor, wide // factor, factor]
    order = [*range(first), first, first + 2, first + 4, first + 1, first + 3]
    return _rearranged(unshuffle, x, parts, order)


def _rearranged(node: fx.Node, x: fx.Node, parts: Sequence[int], order: Sequence[int]) -> fx.Node:
    apart = call(node, aten.reshape.default, x, list(parts))
    return call(node, aten.reshape.default, call(node, aten.permute.default, apart, list(order)), [*_value(node).shape])


def _rounded_down(pool: fx.Node) -> fx.Node | None:
    """A max-pool whose size is rounded up as one of a larger image, whose last rows and columns are repeated.

    What a window reaches behind the image counts for nothing, and every window begins in or before it. So such a
    window holds the last row itself, and once more it changes no maximum. A pad would need a number below all others,
    which is known when ranges are measured, and would spoil the one that is measured.
    """
    defaults = ((), 0, 1, False)[len(pool.args) - 2 :]
    image, window, stride, pads, steps, up = cast("tuple[Any, ...]", (*pool.args, *defaults))
    if not up or any(step != 1 for step in _pair(steps)):
        return None
    window, stride, pads = _pair(window), _pair(stride or window), _pair(pads)
    first = _value(pool).dim() - 2
    for dim, size, move, pad in zip((first, first + 1), window, stride, pads, strict=True):
        here = _value(image).shape[dim]
        more = (_value(pool).shape[dim] - 1) * move + size - 2 * pad - here
        if more > 0:
            last = call(pool, aten.slice.Tensor, image, dim, here - 1, here)
            image = call(pool, aten.cat.default, [image, *[last] * more], dim)
    return call(pool, aten.max_pool2d.default, image, window, stride, pads)


def _values_alone(item: fx.Node) -> fx.Node | None:
    """The values of a max-pool that can give indices, too, as a max-pool that cannot."""
    pool, index = cast("tuple[fx.Node, object]", item.args)
    if pool.target is not aten.max_pool2d_with_indices.default or index != 0:
        return None
    plain = call(item, aten.max_pool2d.default, *pool.args)
    return _rounded_down(plain) or plain


def _pair(numbers: object) -> list[int]:
    """Numbers for height and width, for which one may stand."""
    pair = [numbers] if isinstance(numbers, int) else list(cast("Sequence[int]", numbers))
    return pair * 2 if len(pair) == 1 else pair


def _value(node: fx.Node) -> Tensor:
    return node.meta["val"]


_FORMS: Mapping[object, Callable[[fx.Node], fx.Node | None]] = {
    aten.div.Tensor: _product,
    aten.pixel_shuffle.default: _shuffled,
    aten.pixel_unshuffle.default: _unshuffled,
    aten.max_pool2d.default: _rounded_down,
    operator.getitem: _values_alone,
}
