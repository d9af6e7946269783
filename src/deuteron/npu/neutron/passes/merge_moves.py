"""Common subexpression elimination for transposes and reshapes."""

from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op, Reshape, Transpose
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.npu.neutron.passes.base import merge_origins, rename_tensors

Moves = Transpose | Reshape


@dataclass(frozen=True, slots=True)
class MergeMoves:
    """Merges equal transposes and reshapes of one tensor.

    Converters that transpose the input of each layer do so once for each parallel branch. Outputs of the graph stay
    separate.
    """

    name: ClassVar[str] = "merge-moves"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph without duplicates."""
        first: dict[tuple[Op, TensorType], int] = {}
        names: dict[str, str] = {}
        ops: list[Op] = []
        for read in graph.ops:
            (op,) = rename_tensors((read,), names)
            if isinstance(op, Moves) and op.outputs[0] not in graph.outputs:
                (output,) = op.outputs
                at = first.setdefault((replace(op, outputs=(), origin=()), graph.type(output)), len(ops))
                if at < len(ops):
                    names[output] = ops[at].outputs[0]
                    ops[at] = replace(ops[at], origin=merge_origins(ops[at], op))
                    continue
            ops.append(op)
        return graph.with_ops(tuple(ops))
