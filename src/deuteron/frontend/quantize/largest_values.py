"""Measures the largest absolute values of tensors on the first calibration batches."""

from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

import torch
from torch import fx

from deuteron.frontend.inputs import Inputs, copies

_BATCHES = 4


def largest_values(
    model: fx.GraphModule, nodes: Collection[fx.Node], batches: Iterable[Inputs]
) -> dict[fx.Node, float]:
    """Return the largest absolute value of each of some nodes; 0 for an empty tensor.

    Args:
        model: the exported float model.
        nodes: nodes whose values are tensors.
        batches: float32 inputs of the model; the first four are run.
    """
    run = _Run(model, nodes)
    for batch in islice(batches, _BATCHES):
        run.run(*copies(batch))
    return run.largest


class _Run(fx.Interpreter):
    def __init__(self, model: fx.GraphModule, nodes: Collection[fx.Node]) -> None:
        super().__init__(model)
        self.largest = dict.fromkeys(nodes, 0.0)

    def run_node(self, n: fx.Node) -> Any:
        with torch.no_grad():
            value = super().run_node(n)
        if n in self.largest and value.numel():
            self.largest[n] = max(self.largest[n], float(value.abs().max()))
        return value
