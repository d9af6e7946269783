"""Records a lowering by ExecuTorch: the model's nodes and each partition that a backend compiled."""

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
    """Return the record of a node; the operator's name is that of PyTorch's registry, `aten::add.Tensor`."""
    return EdgeNode(node.name, operator_name(node.target), source_of(node))


@dataclass(frozen=True, slots=True)
class LoweredPartition:
    """One partition, as a backend compiled it.

    Attributes:
        payload: the delegate blob in the `.pte`.
        names: of all its edge nodes, including those that became no operator.
    """

    payload: bytes = b""
    names: tuple[str, ...] = ()


P = TypeVar("P", bound=LoweredPartition)


@dataclass(slots=True)
class Recording(Generic[P]):
    """The partitions in the order of compilation; after an error the last one may be incomplete.

    Attributes:
        partitions: one record for each.
        refused: nodes whose quantization the backend cannot convert.
        nodes: all nodes of the model, as of the partitioner's last call.
    """

    partitions: list[P] = field(default_factory=list[P])
    refused: list[EdgeNode] = field(default_factory=list[EdgeNode])
    nodes: tuple[Node, ...] = ()

    def record_nodes(self, program: ExportedProgram) -> None:
        """Record the nodes of a program that the partitioner has tagged."""
        self.nodes = nodes_of(program)

    def placed(self) -> tuple[Node, ...]:
        """All nodes of the model, each with the index of its partition."""
        at = {name: index for index, partition in enumerate(self.partitions) for name in partition.names}
        return tuple(replace(node, partition=at[node.name], why="") if node.name in at else node for node in self.nodes)

    def clear(self) -> None:
        """Delete all partitions and refused nodes."""
        self.partitions.clear()
        self.refused.clear()

    def extend_last(self, **changes: object) -> None:
        """Update the record of the partition that is being compiled."""
        self.partitions[-1] = replace(self.partitions[-1], **changes)
