"""Where tensors must live: in the caller's outputs, and in parts of what a concatenation makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.npu.neutron.ir.ops import Concat, Conv2D, Op, Reshape, TransposeConv
from deuteron.operators.limits import ALIGNMENT


@dataclass(frozen=True, slots=True)
class Home:
    """`offset` bytes into a buffer; `pitch` bytes from one position's channels to the next, if they leave gaps."""

    buffer: str
    offset: int = 0
    pitch: int | None = None


def find_homes(graph: Graph) -> Mapping[str, Home]:
    """Tensor -> its home, where it may not simply have a buffer of its own; a buffer is named after what fills it."""
    return _Finder(graph, graph.consumers()).homes()


_PITCHED = (Conv2D, TransposeConv)
"""Operators that become calls of the kernel that takes a pitch."""


@dataclass(slots=True)
class _Finder:
    graph: Graph
    readers: Mapping[str, tuple[Op, ...]]
    found: dict[str, Home] = field(default_factory=dict[str, Home])

    def homes(self) -> Mapping[str, Home]:
        produced = self.graph.producers()
        self.found = {name: Home(name) for name in self.graph.outputs}
        for op in reversed(self.graph.ops):  # whoever reads a tensor settles before what it reads
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
        """Lets what is joined be computed where it will stand: its bytes lie side by side there."""
        home = self.found.get(op.outputs[0], Home(op.outputs[0]))
        offset = home.offset
        for name in op.inputs:
            if name in produced and name not in self.found and self.may_start_at(home.buffer, offset):
                self.found[name] = Home(home.buffer, offset)
            offset += self.graph.type(name).nbytes

    def interleave(self, op: Concat, produced: Mapping[str, Op]) -> None:
        """Lets convolutions write their channels between those of the others, where nothing else reads them."""
        home = self.found.get(op.outputs[0], Home(op.outputs[0]))
        offset, pitch = home.offset, self.graph.type(op.outputs[0]).shape[-1]
        for name in op.inputs:
            alone = self.readers[name] == (op,) and op.inputs.count(name) == 1 and name not in self.found
            if alone and isinstance(produced.get(name), _PITCHED) and self.may_start_at(home.buffer, offset):
                self.found[name] = Home(home.buffer, offset, pitch)
            offset += self.graph.type(name).shape[-1]

    def may_start_at(self, buffer: str, offset: int) -> bool:
        """True where kernels may write: anywhere in an output, at multiples of the alignment in scratch."""
        return buffer in self.graph.outputs or offset % ALIGNMENT == 0
