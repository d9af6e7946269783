"""Makes the same transposed or reshaped tensor once."""

from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Op, Reshape, Transpose
from deuteron.npu.neutron.ir.types import TensorType
from deuteron.npu.neutron.passes.base import merge_origins, rename_tensors

Moves = Transpose | Reshape


@dataclass(frozen=True, slots=True)
class MergeMoves:
    """Transposes and reshapes that make the same of one tensor are one, which all their readers share.

    A converter that brings each layer's input into its own order transposes what parallel branches read once for each.
    Outputs of the graph stay as they are, each with an op of its own.
    """

    name: ClassVar[str] = "merge-moves"

    def apply(self, graph: Graph) -> Graph:
        """The graph in which no two of them are alike."""
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
