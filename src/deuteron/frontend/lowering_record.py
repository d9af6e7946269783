"""What is noted of a model while ExecuTorch lowers it: its nodes, and each partition that a backend has compiled."""

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from torch import fx
from torch.export import ExportedProgram

from deuteron.builds.manifest import Node, Source
from deuteron.frontend.nodes import nodes_of
from deuteron.frontend.operators import operator_name
from deuteron.frontend.source_lines import source_of


@dataclass(frozen=True, slots=True)
class EdgeNode:
    """A node of the edge program: its name, operator and source line."""

    name: str
    operator: str
    source: Source | None


def edge_node(node: fx.Node) -> EdgeNode:
    """What is kept of a node; the operator is spelt as in PyTorch's registry, `aten::add.Tensor`."""
    return EdgeNode(node.name, operator_name(node.target), source_of(node))


@dataclass(frozen=True, slots=True)
class Lowered:
    """One partition as it passed through a backend.

    Attributes:
        payload: the delegate blob in the `.pte`.
        names: of all edge nodes in it, whether an operator came of them or not.
    """

    payload: bytes = b""
    names: tuple[str, ...] = ()


L = TypeVar("L", bound=Lowered)


@dataclass(slots=True)
class Recording(Generic[L]):
    """The partitions in the order in which the backend compiled them; the last may be unfinished after an error.

    Attributes:
        partitions: what is known of each.
        refused: nodes that the backend itself found to be quantised in a way that it cannot convert.
        nodes: all nodes of the model, as the partitioner last found them.
    """

    partitions: list[L] = field(default_factory=list[L])
    refused: list[EdgeNode] = field(default_factory=list[EdgeNode])
    nodes: tuple[Node, ...] = ()

    def tell(self, program: ExportedProgram) -> None:
        """Takes note of the nodes of a program that has been tagged."""
        self.nodes = nodes_of(program)

    def placed(self) -> tuple[Node, ...]:
        """All nodes of the model, and where they are."""
        at = {name: index for index, partition in enumerate(self.partitions) for name in partition.names}
        return tuple(replace(node, partition=at[node.name], why="") if node.name in at else node for node in self.nodes)

    def clear(self) -> None:
        """Forget all."""
        self.partitions.clear()
        self.refused.clear()

    def extend_last(self, **changes: object) -> None:
        """Adds what has become known of the partition in work."""
        self.partitions[-1] = replace(self.partitions[-1], **changes)
