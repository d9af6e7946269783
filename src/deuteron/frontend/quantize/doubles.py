"""Computes in float32 what a model computes in float64: quantisation starts from float32."""

from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._guards import detect_fake_mode
from torch.fx.node import map_arg

from deuteron.frontend.operators import called, reads_inputs
from deuteron.frontend.quantize.decompositions import call, constant, constant_value

aten = torch.ops.aten


def narrow(model: fx.GraphModule) -> None:
    """Replace float64 within a model by float32.

    Models stay as they are, and are refused later, if an input or output is float64, or an operator makes float64 of
    integers that depend on inputs: float32 does not have all of these.
    """
    nodes = [node for node in model.graph.nodes if _is_double(node)]
    outputs, constants = set(model.graph.output_node().all_input_nodes), dict[fx.Node, Tensor]()
    for node in nodes:
        is_number = node.op == "get_attr" or (_widens(node) and not reads_inputs(node))
        if is_number and (value := constant_value(model, node)) is not None:
            constants[node] = value
        elif node in outputs or node.op == "placeholder" or _widens(node):
            return
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


def _is_double(node: fx.Node) -> bool:
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and value.dtype == torch.float64


def _widens(node: fx.Node) -> bool:
    """True for float64 of integers, and for a function that gives float64 whatever it gets."""
    values: list[object] = [arg.meta.get("val") for arg in node.all_input_nodes]
    return called(node) == "float_power" or any(isinstance(x, Tensor) and _is_integer(x) for x in values)


def _is_integer(value: Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)


def _narrowed(value: Any) -> Any:
    return torch.float32 if value is torch.float64 else value
