"""Slices operands in place of results, so that values that are cut off have no effect on ranges.

An inverse short-time Fourier transform divides by sums of windows, which are almost 0 at the ends that a slice removes.
A detector writes boxes over its features, slice by slice; each write is a concatenation, whose parts share a scale.
"""

from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.quantize import tensor_blocks
from deuteron.frontend.quantize.decompositions import call, replace

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Exchange each slice with the division that it alone reads, or with the concatenation that it reads, in place."""
    for node in list(model.graph.nodes):
        if node.target is aten.slice.Tensor:
            replace(model, node, _sliced)
    model.graph.eliminate_dead_code()
    model.recompile()


def _sliced(model: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    return _of_parts(node) or _divided(model, node)


def _of_parts(node: fx.Node) -> fx.Node | None:
    """Return a slice of the parts of a concatenation; None if it needs all of them, or is along another dimension."""
    joined, dim, *ends = cast("tuple[Any, ...]", (*node.args, *(0, None, None, 1)[len(node.args) - 1 :]))
    if joined.target is not aten.cat.default:
        return None
    shape = joined.meta["val"].shape
    start, stop, step = slice(*ends).indices(shape[dim])
    is_part = step == 1 and 0 < stop - start < shape[dim]
    if not is_part or (*joined.args, 0)[1] % len(shape) != dim % len(shape):
        return None
    return tensor_blocks.sliced(node, joined, dim % len(shape), tensor_blocks.Range(start, 1, stop - start))


def _divided(_: fx.GraphModule, node: fx.Node) -> fx.Node | None:
    """Return the quotient of the sliced operands; None if the slice is not of a quotient, or others read that."""
    quotient, dim, *ends = cast("tuple[Any, ...]", (*node.args, 0)[: max(len(node.args), 2)])
    if quotient.target is not aten.div.Tensor or len(quotient.users) > 1:
        return None
    shape = quotient.meta["val"].shape
    place = dim % len(shape) - len(shape)  # from the end, as operands of fewer dimensions are repeated

    def sliced(operand: Any) -> Any:
        own = operand.meta["val"].shape if isinstance(operand, fx.Node) else ()
        is_whole = len(own) >= -place and own[place] == shape[place]
        return call(node, aten.slice.Tensor, operand, place, *ends) if is_whole else operand

    result = call(node, aten.div.Tensor, *map(sliced, quotient.args))
    result.meta = quotient.meta | {"val": result.meta["val"]}
    return result
