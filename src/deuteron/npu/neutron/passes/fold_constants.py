"""Constant folding."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.errors import UnsupportedError
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op, Reshape
from deuteron.npu.neutron.ir.types import Tensor
from deuteron.npu.neutron.passes.base import new_name

MAX_GROWTH = 1 << 20
"""Largest result, in elements, that is folded without an operand of that size: a small file can declare any size."""


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Replaces ops with constant inputs by constants, except huge ones and those that the NPU does not support.

    A reshape copies a constant graph output from a new constant, which other ops read directly.
    """

    name: ClassVar[str] = "fold-constants"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph without ops that have constant inputs only, except copies to graph outputs."""
        tensors = {tensor.name: tensor for tensor in graph.tensors}
        taken = set(tensors)
        values: dict[str, str] = {}
        ops: list[Op] = []
        for before in graph.ops:
            op = _reading(before, values)
            folded = None if _copies_to_output(graph, op) else _folded(op, tensors)
            if folded is None:
                ops.append(op)
            elif folded.name in graph.outputs:
                copied = replace(folded, name=new_name(f"{folded.name}.value", taken))
                tensors[copied.name] = copied
                values[folded.name] = copied.name
                ops.append(Reshape(inputs=(copied.name,), outputs=(folded.name,), origin=op.origin))
            else:
                tensors[folded.name] = folded
        if tuple(ops) == graph.ops:
            return graph
        return replace(graph, tensors=tuple(tensors.values())).with_ops(tuple(ops))


def _reading(op: Op, names: dict[str, str]) -> Op:
    """The op with its inputs renamed."""
    inputs = tuple(names.get(name, name) for name in op.inputs)
    return op if inputs == op.inputs else replace(op, inputs=inputs)


def _copies_to_output(graph: Graph, op: Op) -> bool:
    return isinstance(op, Reshape) and op.outputs[0] in graph.outputs


def _folded(op: Op, tensors: Mapping[str, Tensor]) -> Tensor | None:
    """Return the op's output as a constant, computed by the interpreter, or None if the op must stay."""
    sources = {name: tensors[name] for name in op.inputs}
    (output,) = (tensors[name] for name in op.outputs)
    allowed = max(MAX_GROWTH, *(source.type.numel for source in sources.values()))
    if not all(source.is_const for source in sources.values()) or output.type.numel > allowed:
        return None
    alone = Graph("fold", (*sources.values(), output), (), op.outputs, (op,))
    try:
        value = interpret.run(alone, [])[output.name]
    except UnsupportedError:
        return None  # the selection of kernels rejects it, too, with its place
    return replace(output, data=value.astype(output.type.dtype.numpy).tobytes())
