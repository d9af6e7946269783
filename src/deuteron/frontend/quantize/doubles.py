"""Computes in float32 what a model computes in float64: quantization starts from float32."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch.fx.node import map_arg

from deuteron.errors import UnsupportedError
from deuteron.frontend.inputs import Inputs, copies
from deuteron.frontend.operators import called, reads_inputs
from deuteron.frontend.quantize.decompositions import call, constant, constant_value
from deuteron.frontend.source_lines import source_of

TOLERANCE = 1e-4
"""The allowed difference of a float32 result, relative to its largest magnitude."""

aten = torch.ops.aten


def narrow(model: fx.GraphModule, sample: Inputs | None = None) -> None:
    """Replace float64 within a model by float32, and compare the results for a sample.

    Models stay as they are, and are refused later, if an input or output is float64, or an operator makes float64 of
    integers that depend on inputs: float32 does not have all of these.

    Raises:
        UnsupportedError: float32 is not precise enough for a result, such as `(x + 1e9) - 1e9`.
    """
    nodes = [node for node in model.graph.nodes if _is_double(node)]
    outputs, constants = set(model.graph.output_node().all_input_nodes), dict[fx.Node, Tensor]()
    for node in nodes:
        is_number = node.op == "get_attr" or (_widens(node) and not reads_inputs(node))
        if is_number and (value := constant_value(model, node)) is not None:
            constants[node] = value
        elif node in outputs or node.op == "placeholder" or _widens(node):
            return
    results = [one for one in model.graph.nodes if one not in nodes and not set(nodes).isdisjoint(one.all_input_nodes)]
    before = _values(model, results, sample)
    changed = set[fx.Node]()
    mode: Any = detect_fake_mode([node.meta.get("val") for node in model.graph.nodes])
    for node in list(model.graph.nodes):
        if node in constants:
            number = constant(model, node, node.name, constants[node])
            number.meta = {**node.meta, **number.meta}
            node.replace_all_uses_with(number if node.op == "get_attr" else call(node, aten.clone.default, number))
            changed |= {number, *number.users}
        elif node.op == "call_function" and (node in nodes or not changed.isdisjoint(node.all_input_nodes)):
            node.args = cast(Any, tuple(map(_narrowed, node.args)))
            node.kwargs = {key: _narrowed(value) for key, value in node.kwargs.items()}
            with mode:
                values = map_arg(cast(Any, (node.args, node.kwargs)), lambda one: one.meta["val"])
                node.meta["val"] = node.target(*values[0], **values[1])
            changed.add(node)
    model.graph.eliminate_dead_code()
    model.recompile()
    after = _values(model, results, sample)
    for node, wanted in before.items():
        if node in after and not _is_close(after[node], wanted):
            raise _imprecise(node)


class _Values(fx.Interpreter):
    """Keeps the values of some nodes; buffers do not change."""

    def __init__(self, model: fx.GraphModule, wanted: Sequence[fx.Node]) -> None:
        super().__init__(model)
        self.wanted, self.found = frozenset(wanted), dict[fx.Node, Tensor]()

    def run_node(self, n: fx.Node) -> Any:
        """Return the value of a node."""
        value = super().run_node(n)
        if isinstance(value, Tensor) and n.op == "get_attr":
            return value.clone()
        if isinstance(value, Tensor) and n in self.wanted:
            self.found[n] = value.clone()
        return value


def _values(model: fx.GraphModule, nodes: Sequence[fx.Node], sample: Inputs | None) -> dict[fx.Node, Tensor]:
    """Return the values of nodes for a sample, each in its own dtype."""
    if sample is None or not nodes:
        return {}
    run = _Values(model, nodes)
    with torch.no_grad():
        run.run(*copies(sample))
    return run.found


def _is_close(actual: Tensor, wanted: Tensor) -> bool:
    if not wanted.is_floating_point():
        return torch.equal(actual, wanted)
    finite = wanted[wanted.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return torch.allclose(actual, wanted, rtol=0, atol=TOLERANCE * largest, equal_nan=True)


def _imprecise(node: fx.Node) -> UnsupportedError:
    source = source_of(node)
    return UnsupportedError(
        f"float32 is not precise enough for the result of `{node.name}`, which the model computes in float64"
        f"{f', at `{source.code}`' if source else ''}",
        where=str(source) if source else None,
        hint="quantization starts from float32: write it without differences of large numbers or products of very "
        "small ones, or compute it outside of the model",
    )


def _is_double(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype == torch.float64


def _widens(node: fx.Node) -> bool:
    """True for float64 of integers, and for a function that returns float64 for any input."""
    values: list[object] = [arg.meta.get("val") for arg in node.all_input_nodes]
    return called(node) == "float_power" or any(isinstance(x, Tensor) and _is_integer(x) for x in values)


def _is_integer(value: Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)


def _narrowed(value: Any) -> Any:
    return torch.float32 if value is torch.float64 else value
