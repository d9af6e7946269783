"""Canonicalises equal computations, so that later passes only handle one form."""

from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Add, Maximum, Minimum, Mul, Op, ReductionOp, Reshape
from deuteron.npu.neutron.passes.base import merge_origins


@dataclass(frozen=True, slots=True)
class Canonicalise:
    """Removes dead ops, puts constants second, merges reshapes, and makes reductions of single elements reshapes."""

    name: ClassVar[str] = "canonicalise"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph in canonical form."""
        graph = graph.without_dead_ops()
        by_output: dict[str, Op] = {}
        ops: list[Op] = []
        for op in graph.ops:
            simple = _canonical(graph, op, by_output)
            by_output[simple.outputs[0]] = simple
            ops.append(simple)
        return graph.with_ops(tuple(ops)).without_dead_ops()


def _canonical(graph: Graph, op: Op, producers: dict[str, Op]) -> Op:
    """Return the canonical form of `op`; `producers` are the earlier canonical ops by output."""
    match op:
        case Add() | Mul() | Maximum() | Minimum() if (
            graph.tensor(op.inputs[0]).is_const and not graph.tensor(op.inputs[1]).is_const
        ):
            return replace(op, inputs=op.inputs[::-1])
        case Reshape() if isinstance(first := producers.get(op.inputs[0]), Reshape):
            return replace(op, inputs=first.inputs, origin=merge_origins(first, op))
        case ReductionOp() if all(graph.type(op.inputs[0]).shape[axis] == 1 for axis in op.axes) and (
            graph.type(op.inputs[0]).quant == graph.type(op.outputs[0]).quant
        ):
            return Reshape(inputs=op.inputs, outputs=op.outputs, origin=op.origin)
        case _:
            return op
