"""Computes at compile time what depends on constants only."""

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
"""Largest result, in elements, that is folded though no operand is as large: a few bytes of a file can ask for any."""


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Ops whose inputs are all constant become constants, but for huge ones and those that the NPU would refuse.

    A graph output keeps an op that writes it: where one turns out constant, a reshape copies it from a new constant,
    which other ops read directly.
    """

    name: ClassVar[str] = "fold-constants"

    def apply(self, graph: Graph) -> Graph:
        """The graph without ops that have constant inputs only, but for the copies to graph outputs."""
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
    """The op's output as a constant, None when it is to stay: the interpreter says what an op computes."""
    sources = {name: tensors[name] for name in op.inputs}
    (output,) = (tensors[name] for name in op.outputs)
    allowed = max(MAX_GROWTH, *(source.type.numel for source in sources.values()))
    if not all(source.is_const for source in sources.values()) or output.type.numel > allowed:
        return None
    alone = Graph("fold", (*sources.values(), output), (), op.outputs, (op,))
    try:
        value = interpret.run(alone, [])[output.name]
    except UnsupportedError:
        return None  # whoever selects kernels refuses it too, and says where it is
    return replace(output, data=value.astype(output.type.dtype.numpy).tobytes())
