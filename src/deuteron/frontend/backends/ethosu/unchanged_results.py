"""Leaves to the CPU what a partition would return without computing: its inputs under another name, and constants.

Arm's backend folds such nodes. A partition whose result no operator writes is then refused by the TOSA reader.
"""

from torch import fx
from torch.export import ExportedProgram

from deuteron.frontend.nodes import WHY
from deuteron.frontend.operators import base_name, is_dequantize, is_float, is_quantize

_COPIES = frozenset({"_clone_dim_order", "_to_dim_order_copy", "alias_copy", "clone", "expand_copy", "view_copy"})
_REASON = "the NPU would compute nothing: the value is a constant, or equals an input of the partition"


def leave_to_cpu(program: ExportedProgram, tag: str) -> None:
    """Remove the tag from nodes whose value leaves a partition and equals an input of it, or a constant.

    Args:
        program: an edge program whose nodes have the names of their partitions in their metadata.
        tag: the key of the metadata.
    """
    unchanged = _unchanged(program, tag)
    for node in reversed(program.graph.nodes):
        inside = node.meta.get(tag)
        outside = [user for user in node.users if user.meta.get(tag) != inside]
        if inside is None or node not in unchanged or not outside:
            continue
        if len(outside) == len(node.users) or not is_float(node) or node.op == "placeholder":
            del node.meta[tag]
            node.meta[WHY] = _REASON
            continue
        # A partition takes integers only, so its operators keep the float value.
        with program.graph.inserting_after(node):
            copied = program.graph.node_copy(node)
        del copied.meta[tag]
        copied.meta[WHY] = _REASON
        for user in outside:
            user.replace_input_with(node, copied)


def _unchanged(program: ExportedProgram, tag: str) -> set[fx.Node]:
    """The tagged nodes that hold constants, or the values of inputs of their partition."""
    signature = program.graph_signature
    variable = {*signature.user_inputs, *signature.buffers_to_mutate.values()}
    constants: set[fx.Node] = set()
    unchanged: set[fx.Node] = set()
    for node in program.graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "placeholder":
            if node.name not in variable:
                constants.add(node)
        elif node.op == "call_function" and inputs and all(one in constants for one in inputs):
            constants.add(node)
        elif node.op == "call_function" and len(inputs) == 1 and _copies(node, inputs[0]):
            source = inputs[0]
            if source in unchanged or source.meta.get(tag) != node.meta.get(tag):
                unchanged.add(node)
    return constants | unchanged


def _copies(node: fx.Node, source: fx.Node) -> bool:
    """Return True for an operator whose result has the values, shape and dtype of its operand."""
    if is_dequantize(node):
        return True
    if is_quantize(node):
        before = _dequantized(source)
        return before is not None and before.args[1:] == node.args[1:]
    if base_name(node.target) not in _COPIES:
        return False
    value, given = node.meta["val"], source.meta["val"]
    return (value.shape, value.dtype) == (given.shape, given.dtype)


def _dequantized(node: fx.Node) -> fx.Node | None:
    """Return the operator that dequantized the value of a chain of copies."""
    while not is_dequantize(node):
        inputs = node.all_input_nodes
        if len(inputs) != 1 or base_name(node.target) not in _COPIES:
            return None
        node = inputs[0]
    return node
