"""Names and properties of operators in exported graphs, for all processors."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, fx

from deuteron.npu.neutron.kernels import event_names

_QDQ = ("quantize_per_tensor", "dequantize_per_tensor", "quantize_per_channel", "dequantize_per_channel")

_MOVES = """
alias_copy amax amin as_strided_copy cat clamp clone expand_copy flip gather index index_select max_pool2d_with_indices
permute_copy pixel_shuffle repeat select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy stack t_copy
transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy where _clone_dim_order _to_dim_order_copy
"""
MOVES = frozenset(_MOVES.split())
"""Portable operators of ExecuTorch that move or select values, so that they are correct for any scale."""


def operator_name(target: object) -> str:
    """The registered name of an edge or ATen operator, or the name of a Python function."""
    name: object = getattr(target, "name", None)
    return str(name()) if callable(name) else getattr(target, "__name__", str(target))


def base_name(target: object) -> str:
    """The operator's name without namespace and overload."""
    return event_names.base_name(operator_name(target))


def called(node: fx.Node) -> str:
    """The base name of a node's operator, without the suffix of in-place operators; empty for inputs and constants."""
    return base_name(node.target).removesuffix("_") if node.op == "call_function" else ""


def reads_inputs(node: fx.Node) -> bool:
    """Return True if a value of an exported graph depends on the program's inputs."""
    return depends_on(node, lambda one: one.op == "placeholder")


def depends_on(node: fx.Node, is_wanted: Callable[[fx.Node], bool]) -> bool:
    """Return True if a value is computed from a wanted node, or is one."""
    before, seen = [node], {node}
    while before:
        last = before.pop()
        if is_wanted(last):
            return True
        before += [arg for arg in last.all_input_nodes if arg not in seen]
        seen |= {*last.all_input_nodes}
    return False


def changes_operand(node: fx.Node) -> bool:
    """True for an operator that writes into an operand."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def is_delegate(node: fx.Node) -> bool:
    """True for a call of a partition."""
    return node.op == "call_function" and operator_name(node.target).startswith("executorch_call_delegate")


def is_qdq(node: fx.Node) -> bool:
    """True for the quantize and dequantize operators that PT2E quantization inserts."""
    return any(name in str(node.target) for name in _QDQ)


def is_dequantize(node: fx.Node) -> bool:
    """True for operators that convert quantized values to float."""
    return "dequantize_per_" in str(node.target)


def is_quantize(node: fx.Node) -> bool:
    """True for operators that quantize."""
    return is_qdq(node) and not is_dequantize(node)


def is_float(node: fx.Node) -> bool:
    """True if the value of a node is known to be a tensor of floats."""
    value: object = node.meta.get("val")
    return isinstance(value, Tensor) and value.is_floating_point()


def arguments_of(node: fx.Node) -> dict[str, Any]:
    """Return the arguments of a call by name, with defaults."""
    schema: Any = getattr(node.target, "_schema", None)
    if schema is None:
        return {}
    values = {one.name: one.default_value if one.has_default_value() else None for one in schema.arguments}
    values.update(zip(values, node.args, strict=False))
    return values | dict(node.kwargs)
