"""Gives softmaxes of small results a scale of their own.

Int8 results of a softmax have the scale 1/256. Over hundreds of elements, as in the pooling of an image or of frames by
attention, most results are less than half of that, and become 0.
"""

from collections.abc import Iterable

import torch
from torch import fx

from deuteron.frontend.inputs import Inputs
from deuteron.frontend.operators import MOVES, called
from deuteron.frontend.quantize.attention import masked_softmax
from deuteron.frontend.quantize.decompositions import call
from deuteron.frontend.quantize.largest_values import largest_values

aten = torch.ops.aten

_LARGEST = 1 / 16
"""Results up to this get another scale: it has at least 16 times as many steps for them."""


def refine(model: fx.GraphModule, batches: Iterable[Inputs]) -> None:
    """Replace such softmaxes, in place, by masked softmaxes of all elements, whose scale is that of their range.

    Softmaxes that the model returns stay: for other inputs one class may be likely.

    Args:
        model: the exported float model.
        batches: float32 inputs of the model.
    """
    found = model.graph.find_nodes(op="call_function", target=aten.softmax.int)
    nodes = [n for n in found if n.meta["val"].shape[n.args[1]] > 1 / _LARGEST and not _is_returned(n)]
    if not nodes:
        return
    largest = largest_values(model, nodes, batches)
    for node in nodes:
        if largest[node] <= _LARGEST:
            x, dim = node.args[:2]
            rank = node.meta["val"].dim()
            is_last = dim % rank == rank - 1
            scores = x if is_last else call(node, aten.transpose.int, x, dim, -1)
            excluded = torch.zeros(scores.meta["val"].shape, dtype=torch.bool)
            shares = masked_softmax(model, node, scores, excluded)
            node.replace_all_uses_with(shares if is_last else call(node, aten.transpose.int, shares, dim, -1))
            model.graph.erase_node(node)
    model.recompile()


def _is_returned(node: fx.Node) -> bool:
    """True if the model returns values of a node, which other operators may move or select."""
    return any(user.op == "output" or (_moves(user) and _is_returned(user)) for user in node.users)


def _moves(node: fx.Node) -> bool:
    name = called(node)
    return not MOVES.isdisjoint((name, f"{name}_copy")) or name == "reshape"
