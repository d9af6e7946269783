"""Fuses consecutive functions of one stored value into one lookup table."""

from dataclasses import dataclass
from typing import ClassVar

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Lookup, Op
from deuteron.npu.neutron.ir.tables import Tabled, function_table
from deuteron.npu.neutron.passes.base import merge_origins


@dataclass(frozen=True, slots=True)
class FuseTables:
    """Fuses two consecutive functions into one table, if no other op reads the value between them.

    That value is still rounded as before: the second table is indexed with the entries of the first.
    """

    name: ClassVar[str] = "fuse-tables"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph with one table for each chain."""
        consumers = graph.consumers()
        ops: list[Op | None] = list(graph.ops)
        index = {name: at for at, op in enumerate(graph.ops) for name in op.outputs}
        for at, op in enumerate(graph.ops):
            source = op.inputs[0]
            if not isinstance(op, Tabled) or source not in index or source in graph.outputs:
                continue
            before = ops[index[source]]
            if not isinstance(before, Tabled) or len(consumers[source]) > 1:
                continue
            inner, outer = function_table(before, graph), function_table(op, graph)
            entries = tuple(int(outer[int(value) + 128]) for value in inner)
            ops[index[source]] = None
            ops[at] = Lookup(
                inputs=before.inputs, outputs=op.outputs, origin=merge_origins(before, op), entries=entries
            )
        return graph.with_ops(tuple(op for op in ops if op is not None))
