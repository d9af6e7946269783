"""Buffer aliasing: tensors that are computed in the caller's outputs, or in parts of a concatenation's output."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Concat, Conv2D, Op, Reshape, TransposeConv
from deuteron.operators.limits import ALIGNMENT


@dataclass(frozen=True, slots=True)
class Alias:
    """Place of a tensor in a buffer: byte `offset`, and `pitch` bytes between positions if their channels have gaps."""

    buffer: str
    offset: int = 0
    pitch: int | None = None


def find_aliases(graph: Graph) -> Mapping[str, Alias]:
    """Return the aliases of tensors without a separate buffer; a buffer has the name of the tensor that fills it."""
    return _Finder(graph, graph.consumers()).aliases()


_PITCHED = (Conv2D, TransposeConv)
"""Operators of the kernel with an output pitch."""


@dataclass(slots=True)
class _Finder:
    graph: Graph
    readers: Mapping[str, tuple[Op, ...]]
    found: dict[str, Alias] = field(default_factory=dict[str, Alias])

    def aliases(self) -> Mapping[str, Alias]:
        produced = self.graph.producers()
        self.found = {name: Alias(name) for name in self.graph.outputs}
        for op in reversed(self.graph.ops):  # readers of a tensor before the op that computes it
            match op:
                case Reshape() if op.outputs[0] in self.found and op.inputs[0] in produced:
                    self.found.setdefault(op.inputs[0], self.found[op.outputs[0]])
                case Concat() if prod(self.graph.type(op.outputs[0]).shape[: op.axis]) == 1:
                    self.gather(op, produced)
                case Concat() if op.axis == len(self.graph.type(op.outputs[0]).shape) - 1:
                    self.interleave(op, produced)
                case _:
                    pass
        return self.found

    def gather(self, op: Concat, produced: Mapping[str, Op]) -> None:
        """Compute inputs of a concatenation in its output, if their bytes are contiguous there."""
        alias = self.found.get(op.outputs[0], Alias(op.outputs[0]))
        offset = alias.offset
        for name in op.inputs:
            if name in produced and name not in self.found and self.may_start_at(alias.buffer, offset):
                self.found[name] = Alias(alias.buffer, offset)
            offset += self.graph.type(name).nbytes

    def interleave(self, op: Concat, produced: Mapping[str, Op]) -> None:
        """Let convolutions write their channels into the concatenation with a pitch, if it is their only reader."""
        alias = self.found.get(op.outputs[0], Alias(op.outputs[0]))
        offset, pitch = alias.offset, self.graph.type(op.outputs[0]).shape[-1]
        for name in op.inputs:
            alone = self.readers[name] == (op,) and op.inputs.count(name) == 1 and name not in self.found
            if alone and isinstance(produced.get(name), _PITCHED) and self.may_start_at(alias.buffer, offset):
                self.found[name] = Alias(alias.buffer, offset, pitch)
            offset += self.graph.type(name).shape[-1]

    def may_start_at(self, buffer: str, offset: int) -> bool:
        """Return True if kernels may write at an offset: any in an output, multiples of the alignment in scratch."""
        return buffer in self.graph.outputs or offset % ALIGNMENT == 0
