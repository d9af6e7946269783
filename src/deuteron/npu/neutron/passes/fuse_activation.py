"""Fuses activations into the clamp of the operator before them."""

from dataclasses import dataclass, replace
from typing import ClassVar

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import ClampedOp, Op
from deuteron.npu.neutron.passes.activation_clamp import limit, stored_clamp
from deuteron.npu.neutron.passes.base import merge_origins


@dataclass(frozen=True, slots=True)
class FuseActivation:
    """Fuses an activation that only clamps into the op that computes its input, if no other op reads that.

    An activation with another quantization of its output stays, because PyTorch rounds twice there.
    """

    name: ClassVar[str] = "fuse-activation"

    def apply(self, graph: Graph) -> Graph:
        """Return the graph with fused activations."""
        consumers = graph.consumers()
        index = {name: at for at, op in enumerate(graph.ops) for name in op.outputs}
        ops: list[Op | None] = list(graph.ops)
        for at, op in enumerate(graph.ops):
            source = op.inputs[0]
            activation = stored_clamp(graph, op)
            if activation is None or source in graph.outputs or len(consumers[source]) > 1:
                continue
            producer = ops[index[source]] if source in index else None
            if not isinstance(producer, ClampedOp) or graph.type(source) != graph.type(op.outputs[0]):
                continue
            clamp = limit(producer.clamp, activation)
            ops[at] = None
            ops[index[source]] = replace(producer, outputs=op.outputs, clamp=clamp, origin=merge_origins(producer, op))
            index[op.outputs[0]] = index[source]
        return graph.with_ops(tuple(op for op in ops if op is not None))
