"""Where tensors must live: in the caller's outputs, and in parts of what a concatenation makes of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from deuteron.ir.graph import Graph
from deuteron.ir.ops import Concat, Op, Reshape
from deuteron.kernels.limits import ALIGNMENT


@dataclass(frozen=True, slots=True)
class Home:
    """`offset` bytes into a buffer."""

    buffer: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Homes:
    """Where the graph's outputs live, and what lives with them.

    Attributes:
        outputs: output buffers in argument order.
        of: tensor -> its home, where it may not simply have a buffer of its own.
        copies: (tensor, output buffer) where the tensor is an input or a constant.
    """

    outputs: tuple[str, ...]
    of: Mapping[str, Home]
    copies: tuple[tuple[str, str], ...]


def find_homes(graph: Graph) -> Homes:
    """The homes of a graph's tensors: each buffer is named after the tensor that fills it."""
    return _Finder(graph).homes()


@dataclass(slots=True)
class _Finder:
    graph: Graph
    found: dict[str, Home] = field(default_factory=dict[str, Home])

    def homes(self) -> Homes:
        produced = self.graph.producers()
        buffers = {name: name if name in produced else f"{name}/output" for name in self.graph.outputs}
        self.found = {name: Home(name) for name in self.graph.outputs if name in produced}
        for op in reversed(self.graph.ops):  # whoever reads a tensor settles before what it reads
            match op:
                case Reshape() if op.outputs[0] in self.found and op.inputs[0] in produced:
                    self.found.setdefault(op.inputs[0], self.found[op.outputs[0]])
                case Concat() if prod(self.graph.type(op.outputs[0]).shape[: op.axis]) == 1:
                    self.gather(op, produced)
                case _:
                    pass
        copies = tuple((name, buffer) for name, buffer in buffers.items() if name not in produced)
        return Homes(tuple(buffers.values()), self.found, copies)

    def gather(self, op: Concat, produced: Mapping[str, Op]) -> None:
        """Lets what is joined be computed where it will stand: its bytes lie side by side there."""
        home = self.found.get(op.outputs[0], Home(op.outputs[0]))
        offset = home.offset
        for name in op.inputs:
            if name in produced and name not in self.found and self.may_start_at(home.buffer, offset):
                self.found[name] = Home(home.buffer, offset)
            offset += self.graph.type(name).nbytes

    def may_start_at(self, buffer: str, offset: int) -> bool:
        """True where kernels may write: anywhere in an output, at multiples of the alignment in scratch."""
        return buffer in self.graph.outputs or offset % ALIGNMENT == 0
