"""Computes at compile time what depends on constants only."""

from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.ir import interpret
from deuteron.ir.graph import Graph
from deuteron.ir.ops import Op, Reshape
from deuteron.ir.types import Tensor
from deuteron.passes.base import new_name


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Ops whose inputs are all constant become constants.

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
            sources = [tensors[name] for name in op.inputs]
            if not all(source.is_const for source in sources) or _copies_to_output(graph, op):
                ops.append(op)
                continue
            for folded in _evaluate(sources, op, [tensors[name] for name in op.outputs]):
                if folded.name in graph.outputs:
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


def _evaluate(sources: list[Tensor], op: Op, outputs: list[Tensor]) -> list[Tensor]:
    """The op's outputs as constants: the interpreter says what an op computes."""
    known = {tensor.name: tensor for tensor in (*sources, *outputs)}
    values = interpret.run(Graph("fold", tuple(known.values()), (), op.outputs, (op,)), [])
    return [replace(tensor, data=values[tensor.name].astype(tensor.type.dtype.numpy).tobytes()) for tensor in outputs]
