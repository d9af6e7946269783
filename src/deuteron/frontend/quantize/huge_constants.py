"""Removes constants that stand for infinity, such as the first maximum of a softmax that is written as a loop.

`maximum(-1e38, x)` is x, and `-1e38 - x` is -1e38 in float32, for all x far below 1e38. So `exp(-1e38 - x)` becomes the
constant 0, and sums with it their other addend. Int8 has one step for all its values. An x that itself depends on
numbers that stand for infinity, such as masked scores, stays as it is: the constant may be what keeps it finite.
"""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.quantize.decompositions import call, constant_value

aten: Any = torch.ops.aten

HUGE, LARGE = 1e30, 1e20
"""The least size of numbers that stand for infinity, and of those that may not meet them: the sum of a huge number and
one below LARGE is the huge number in float32."""

_EXTREMA: Mapping[Any, int] = {aten.maximum.default: -1, aten.minimum.default: 1}
"""The sign of the huge numbers that change nothing."""

_SUMS: Mapping[Any, int] = {aten.add.Tensor: 1, aten.sub.Tensor: -1}
"""The sign of the second operand in the result."""


def write(model: fx.GraphModule) -> None:
    """Remove extrema with huge constants, and sums with huge constants and with zeros, in place."""
    depends, large = set[fx.Node](), set[fx.Node]()
    for node in list(model.graph.nodes):
        if node.op == "placeholder" or any(arg in depends for arg in node.all_input_nodes):
            if (found := _simpler(model, node, depends, large)) is not None:
                node.replace_all_uses_with(found)
                model.graph.erase_node(node)
                if found not in depends:
                    large.add(found)
                continue
            depends.add(node)
        if _is_large(model, node, depends, large):
            large.add(node)
    model.graph.eliminate_dead_code()
    model.recompile()


def _is_large(model: fx.GraphModule, node: fx.Node, depends: set[fx.Node], large: set[fx.Node]) -> bool:
    """Return true for a value that may hold large numbers: a constant that does, or one that is computed of such."""
    if node not in depends:
        value: object = None if node.op == "output" else constant_value(model, node)
        return isinstance(value, Tensor) and value.is_floating_point() and bool((value.abs() >= LARGE).any())
    numbers = [one for one in node.args if isinstance(one, int | float)]
    return any(abs(one) >= LARGE for one in numbers) or any(arg in large for arg in node.all_input_nodes)


def _simpler(model: fx.GraphModule, node: fx.Node, depends: set[fx.Node], large: set[fx.Node]) -> fx.Node | None:
    """Return an equal value of a sum or an extremum of a constant and a computed tensor, if it has a simpler one."""
    output: object = node.meta.get("val")
    if node.target not in (*_EXTREMA, *_SUMS) or not isinstance(output, Tensor) or not output.is_floating_point():
        return None
    for place, (one, other) in enumerate((node.args[:2], node.args[1::-1])):
        if not isinstance(one, fx.Node) or not isinstance(other, fx.Node) or one in depends or other in large:
            continue
        value, like = constant_value(model, one), cast(Tensor, other.meta["val"])
        if value is None or not value.numel() or value.dtype != output.dtype:
            continue
        is_other, alpha = (
            (like.shape, like.dtype) == (output.shape, output.dtype),
            cast(float, node.kwargs.get("alpha", 1)),
        )
        if node.target in _EXTREMA:
            if is_other and bool((_EXTREMA[node.target] * value >= HUGE).all()):
                return other
        elif bool((value.abs() >= HUGE).all()):
            product = call(node, aten.mul.Tensor, one, _SUMS[node.target] * alpha if place else 1)
            return call(node, aten.expand.default, product, [*output.shape])
        elif is_other and not bool(value.any()) and (place or (node.target is aten.add.Tensor and alpha == 1)):
            return other
    return None
