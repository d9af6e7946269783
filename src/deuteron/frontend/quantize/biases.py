"""Corrects biases by the shift that rounding causes in the mean of a layer's results, after arXiv:1906.04721.

Errors of rounded weights and inputs do not average out over a channel. The shift of each layer alone, on the float
model's values, is measured on calibration data and subtracted from its bias.
"""

import copy
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import called, is_qdq
from deuteron.frontend.quantize.channels import LAYERS, axis_of, rows_of
from deuteron.frontend.quantize.decompositions import constant, set_value, value_of


def add(model: fx.GraphModule) -> None:
    """Give each layer without a bias a bias of zeros."""
    for node in list(model.graph.nodes):
        if called(node) in LAYERS and (len(node.args) < 3 or node.args[2] is None):
            weight = value_of(model, node.args[1]) if node.args[1].op == "get_attr" else None
            if weight is not None:
                zeros = torch.zeros(node.meta["val"].shape[axis_of(weight)])
                bias = constant(model, node, f"{node.name}_bias", zeros, like=weight)
                node.args = (*node.args[:2], bias, *node.args[3:])
    model.recompile()


def correct(prepared: fx.GraphModule, floats: fx.GraphModule, batches: Iterable[Inputs]) -> int:
    """Correct the biases of a calibrated model; return the number of layers.

    Args:
        prepared: the prepared model, which gets its own parameters for biases.
        floats: the same model without observers; its biases do not change.
        batches: the samples for the means.
    """
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

    quantized = convert_pt2e(copy.deepcopy(prepared))
    biases = {node.name: bias for node in prepared.graph.nodes if (bias := _bias(node)) is not None}
    shifts = {name: _Mean() for name in biases}
    with torch.no_grad():
        for batch in batches:
            original = _FloatRun(floats)
            original.run(*copies(batch))
            _LayerwiseRun(quantized, shifts, original.values).run(*copies(batch))
    for name, shift in shifts.items():
        bias = value_of(prepared, biases[name])
        set_value(prepared, biases[name], bias - shift.mean().to(bias.dtype))
    return len(shifts)


def _bias(layer: fx.Node) -> fx.Node | None:
    """The bias of a layer that no other layer shares; None for other nodes."""
    if called(layer) not in LAYERS or len(layer.args) < 3:
        return None
    bias = layer.args[2]
    while isinstance(bias, fx.Node) and bias.op == "call_module":  # an observer
        bias = bias.args[0]
    if not isinstance(bias, fx.Node) or bias.op != "get_attr":
        return None
    same = layer.graph.find_nodes(op="get_attr", target=bias.target)
    return bias if len(same) == 1 and len(bias.users) == 1 else None


class _Mean:
    """The mean of each channel."""

    def __init__(self) -> None:
        self._sum: Any = 0.0
        self._count = 0

    def add(self, values: Tensor, axis: int) -> None:
        """Add values."""
        rows = rows_of(values, axis)
        self._sum, self._count = self._sum + rows.sum(1), self._count + rows.shape[1]

    def mean(self) -> Tensor:
        """Return the mean of all values."""
        return cast(Tensor, self._sum / self._count)


class _FloatRun(fx.Interpreter):
    """Runs the float model and stores the results of its operators."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, Tensor):
            self.values[n.name] = value.clone()  # a later operator may write into it
        return value


class _LayerwiseRun(fx.Interpreter):
    """Runs each operator of the quantized model on the float model's values and measures the shifts of layers."""

    def __init__(self, module: fx.GraphModule, shifts: dict[str, _Mean], wanted: dict[str, Tensor]) -> None:
        super().__init__(module)
        self._shifts, self._wanted = shifts, wanted

    def run_node(self, n: fx.Node) -> Any:
        # Before the run, because the interpreter frees values after their last use.
        weight = self.env[cast(fx.Node, n.args[1])] if n.name in self._shifts else None
        value = super().run_node(n)
        wanted = None if is_qdq(n) else self._wanted.get(n.name)
        if wanted is None:
            return value
        if weight is not None:
            self._shifts[n.name].add(value - wanted, axis_of(weight))
        return wanted.clone()
