"""Keeps int8 divisions in bounds: by the least divisor, and by the processor.

Divisors that are never negative are rounded to at least one step of their scale.
A divisor such as `x.norm(dim=1) + 1e-8` rounds to 0 in int8 where it is small, and PyTorch then divides by 0. With one
step as the least divisor, the quantised model and the program have the same finite quotient.

An Ethos-U multiplies by a table of reciprocals. If some divisors are much smaller than others, the reciprocals of the
others are a few steps of the table's scale. The CPU divides integers, and rounds once.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, cast

import torch
from torch import Tensor, fx

from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.nodes import CPU_ONLY, MARK, cpu_only
from deuteron.frontend.operators import reads_inputs

aten = torch.ops.aten
quantized = torch.ops.quantized_decomposed


_MOST = 16.0
"""The largest ratio of two divisors for which reciprocals in int8 are precise enough."""
_BATCHES = 4
_REASON = (
    f"the largest divisor is more than {_MOST:.0f} times the smallest, so that reciprocals in int8 would be imprecise"
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
        if least * _MOST < most:
            node.meta["custom"] = {**node.meta.get("custom", {}), CPU_ONLY: _REASON}


def rename(model: fx.GraphModule) -> None:
    """Give the marked divisions another name of the operator, in place."""
    for node in model.graph.find_nodes(op="call_function", target=aten.div.Tensor):
        if cpu_only(node):
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


def keep_from_zero(module: fx.GraphModule) -> None:
    """Clamp, in place, the divisors of a quantised model that the CPU divides by and that have no negative values."""
    clamped: dict[fx.Node, fx.Node] = {}
    for node in module.graph.find_nodes(op="call_function", target=aten.div.Tensor):
        divisor = node.args[1]
        if MARK in node.meta.get("custom", {}) or not _is_never_negative(divisor):
            continue
        stored = divisor.all_input_nodes[0]
        if stored not in clamped:
            clamped[stored] = _clamp(node, divisor)
        node.update_arg(1, clamped[stored])
    module.recompile()


def _is_never_negative(divisor: object) -> bool:
    """True for a dequantised value whose smallest stored value is 0."""
    if not isinstance(divisor, fx.Node) or divisor.target is not quantized.dequantize_per_tensor.default:
        return False
    _, _, zero_point, least, *_ = divisor.args
    return bool(zero_point == least)


def _clamp(division: fx.Node, divisor: fx.Node) -> fx.Node:
    affine = divisor.args[1:]
    graph = division.graph
    with graph.inserting_before(division):
        least = graph.call_function(aten.clamp.default, (divisor, affine[0]))
        stored = graph.call_function(quantized.quantize_per_tensor.default, (least, *affine))
        value = graph.call_function(quantized.dequantize_per_tensor.default, (stored, *affine))
    for node, source in ((least, divisor), (stored, divisor.all_input_nodes[0]), (value, divisor)):
        node.meta = {key: data for key, data in division.meta.items() if key != "custom"}
        if "val" in source.meta:
            node.meta["val"] = source.meta["val"]
    return value
