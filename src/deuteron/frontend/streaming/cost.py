"""Counts the work and the memory of a graph."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils.flop_counter import FlopCounterMode

from deuteron.frontend.cortex_m.numerical_check import flat
from deuteron.frontend.inputs import copies
from deuteron.frontend.operators import called

_VIEWS = frozenset({"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "alias", "detach"})
"""Operators whose results have the memory of their operand."""


def macs(graph: fx.GraphModule, inputs: Sequence[Tensor]) -> int:
    """Return the multiply-accumulates of a run."""
    counter: Any = FlopCounterMode(display=False)
    fused: Any = torch.backends.mkldnn  # its recurrent layers are operators without a formula
    with counter, torch.no_grad(), fused.flags(enabled=False):
        graph(*copies(inputs))
    return int(counter.get_total_flops()) // 2


def live_elements(graph: fx.Graph, lasting: int = 0) -> int:
    """Return the largest number of elements of inputs and results that live at once, without views of them.

    The last `lasting` inputs live all the time.
    """
    order = {node: index for index, node in enumerate(graph.nodes)}
    owners: dict[fx.Node, fx.Node] = {}
    ends: dict[fx.Node, int] = {}
    for node in order:
        if node.op not in ("placeholder", "call_function"):
            continue
        owners[node] = owners[node.all_input_nodes[0]] if called(node) in _VIEWS else node
        ends[owners[node]] = max(ends.get(owners[node], 0), *(order[user] for user in (node, *node.users)))
    inputs = [node for node in order if node.op == "placeholder"]
    ends |= dict.fromkeys(inputs[len(inputs) - lasting :], len(order))
    sizes = {node: _elements(node) for node in ends}
    return max(sum(sizes[one] for one, end in ends.items() if order[one] <= now <= end) for now in order.values())


def _elements(node: fx.Node) -> int:
    values = [one for one in flat(node.meta.get("val")) if isinstance(one, Tensor)]
    return sum(one.numel() for one in values)
