"""Finds divisions that the CPU computes more precisely than an Ethos-U.

An Ethos-U multiplies by a table of reciprocals. If some divisors are much smaller than others, the reciprocals of the
others are a few steps of the table's scale. The CPU divides integers, and rounds once.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.nodes import CPU_ONLY, cpu_only_reason
from deuteron.frontend.operators import reads_inputs

aten = torch.ops.aten

_MOST_RATIO = 16.0
"""The largest ratio of two divisors for which reciprocals in int8 are precise enough."""
_BATCHES = 4
_REASON = (
    f"the largest divisor is more than {_MOST_RATIO:.0f} times the smallest: reciprocals in int8 would be imprecise"
)


def leave_to_cpu(model: fx.GraphModule, batches: Iterable[Inputs]) -> None:
    """Mark, in place, the divisions of a float model that the CPU computes more precisely.

    Args:
        model: the exported float model.
        batches: float32 inputs of the model.
    """
    divisions = [
        node
        for node in model.graph.find_nodes(op="call_function", target=aten.div.Tensor)
        if isinstance(node.args[1], fx.Node) and node.meta["val"].is_floating_point() and reads_inputs(node.args[1])
    ]
    if not divisions:
        return
    run = _Divisors(model)
    for batch in islice(batches, _BATCHES):
        run.run(*copies(batch))
    for node in divisions:
        least, most = run.bounds[node]
        if least * _MOST_RATIO < most:
            node.meta["custom"] = {**node.meta.get("custom", {}), CPU_ONLY: _REASON}


def rename(model: fx.GraphModule) -> None:
    """Give the marked divisions another name of the operator, in place."""
    for node in model.graph.find_nodes(op="call_function", target=aten.div.Tensor):
        if cpu_only_reason(node):
            node.target = aten.true_divide.Tensor


def restore(model: fx.GraphModule) -> None:
    """Undo `rename`."""
    for node in model.graph.find_nodes(op="call_function", target=aten.true_divide.Tensor):
        node.target = aten.div.Tensor
    model.recompile()


class _Divisors(fx.Interpreter):
    """Measures the smallest and the largest absolute value of each divisor."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.bounds: dict[fx.Node, tuple[float, float]] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n.target is aten.div.Tensor and isinstance(n.args[1], fx.Node):
            sizes = cast(Tensor, self.env[n.args[1]]).abs()
            least, most = self.bounds.get(n, (float("inf"), 0.0))
            self.bounds[n] = min(least, float(sizes.min())), max(most, float(sizes.max()))
        with torch.no_grad():
            return super().run_node(n)
