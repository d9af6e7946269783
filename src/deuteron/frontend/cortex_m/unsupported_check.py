"""Checks a float model for operators without an int8 implementation on the Cortex-M, before quantization."""

from collections.abc import Collection

from torch import Tensor, fx

from deuteron.errors import all_refused
from deuteron.frontend.cortex_m.refusals import refusal
from deuteron.frontend.operators import base_name
from deuteron.frontend.unsupported_hints import REWRITES


def check(model: fx.GraphModule, on_npu: Collection[str]) -> None:
    """Check that the CPU's part of a float model has no operator that needs a rewrite; `on_npu` names the NPU's nodes.

    Raises:
        UnsupportedError: naming each such operator, its line and a replacement.
    """
    refused = [
        refusal(node, "has no int8 kernel on the CPU", REWRITES[name].hint)
        for node in model.graph.nodes
        if node.op == "call_function" and node.name not in on_npu
        if (name := base_name(node.target)) in REWRITES and _reads_floats(node)
    ]
    if refused:
        raise all_refused(refused)


def _reads_floats(node: fx.Node) -> bool:
    """True for an operator on activations; portable kernels compute operators on integers, such as indices."""
    values: list[object] = [arg.meta.get("val") for arg in node.all_input_nodes]
    return any(isinstance(value, Tensor) and value.is_floating_point() for value in values)
