"""Slices the operands of a division in place of its quotient, so that values that are cut off have no effect on ranges.

An inverse short-time Fourier transform divides by sums of windows, which are almost 0 at the ends that a slice removes.
"""

from typing import Any, cast

import torch
from torch import fx

from deuteron.frontend.quantize.decompositions import call, replace

aten = torch.ops.aten


def write(model: fx.GraphModule) -> None:
    """Exchange each division with the slice that alone reads it, in place."""
    for node in list(model.graph.nodes):
        if node.target is aten.slice.Tensor:
            replace(model, node, _divided)
    model.graph.eliminate_dead_code()
    model.recompile()


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
