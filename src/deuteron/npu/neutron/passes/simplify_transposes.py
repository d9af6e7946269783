"""Merges transposes, and replaces those that move no data by reshapes."""

from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op, Reshape, Transpose
from deuteron.npu.neutron.passes.base import merge_origins


@dataclass(frozen=True, slots=True)
class SimplifyTransposes:
    """Merges consecutive transposes, and replaces one that keeps the order of dimensions above 1 by a reshape."""

    name: ClassVar[str] = "simplify-transposes"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph with neighbouring transposes simplified."""
        transposes: dict[str, Transpose] = {}
        ops: list[Op] = []
        for op in graph.ops:
            if not isinstance(op, Transpose):
                ops.append(op)
                continue
            joined = transposes[op.outputs[0]] = _joined(op, transposes.get(op.inputs[0]))
            if _keeps_order(graph.type(joined.inputs[0]).shape, joined.perm):
                ops.append(Reshape(inputs=joined.inputs, outputs=joined.outputs, origin=joined.origin))
            else:
                ops.append(joined)
        return graph.with_ops(tuple(ops)).without_dead_ops()


def _joined(op: Transpose, first: Transpose | None) -> Transpose:
    """Return `op` merged with the transpose `first` before it, if any."""
    if first is None:
        return op
    perm = tuple(first.perm[axis] for axis in op.perm)
    return replace(op, inputs=first.inputs, perm=perm, origin=merge_origins(first, op))


def _keeps_order(shape: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    moved = [axis for axis in perm if shape[axis] > 1]
    return moved == sorted(moved)
