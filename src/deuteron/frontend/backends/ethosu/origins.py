"""Maps the TOSA operators of a partition to the edge nodes that they were made from.

Arm's passes change a partition's program in place, but nodes keep the nodes that they were made from, and TOSA
operators are named by these. Tables and constant results are made from nothing, but are named after the node that they
replace. A node without an operator, such as a relu that only bounds a result, belongs to the operator of the nodes
before it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import fx
from torch.export import ExportedProgram

from deuteron.frontend.backends.neutron.handles import with_neighbours
from deuteron.frontend.lowering_record import EdgeNode, edge_node
from deuteron.frontend.nodes import computing, name_of
from deuteron.npu.ethosu.tosa import CONSTANTS, Ancestor, Graph, Operator
from deuteron.npu.provenance import KernelOrigin

_TABLE, _KNOWN = "_table_constant", "_pre_computed"
"""The suffixes of Arm's backend for a node's table and for a constant result."""


@dataclass(frozen=True, slots=True)
class EdgeOrigin:
    """A computing edge node.

    Attributes:
        name: in the partition's program.
        node: its record.
        handle: ExecuTorch's debug handle.
        ancestor: the node that it was made from.
        sources: names of the computing nodes before it.
    """

    name: str
    node: EdgeNode
    handle: int
    ancestor: Ancestor | None
    sources: tuple[str, ...]


def origins_of(program: ExportedProgram) -> tuple[EdgeOrigin, ...]:
    """Return the computing nodes with names, debug handles and predecessors, before Arm's passes rewrite the graph."""
    nodes = [*computing(program.graph)]
    known = set(nodes)
    return tuple(
        EdgeOrigin(
            node.name,
            replace(edge_node(node), name=name_of(node) or node.name),
            int(node.meta.get("debug_handle") or 0),
            _ancestor(node),
            tuple(source.name for source in _sources(node, known)),
        )
        for node in nodes
    )


def _ancestor(node: fx.Node) -> Ancestor | None:
    made_from = node.meta.get("from_node")
    return Ancestor(made_from[-1].name, made_from[-1].graph_id) if made_from else None


def _sources(node: fx.Node, known: Collection[fx.Node]) -> Iterator[fx.Node]:
    for source in node.all_input_nodes:
        if source in known:
            yield source
        else:
            yield from _sources(source, known)


def by_operator(nodes: Sequence[EdgeOrigin], graph: Graph) -> dict[int, tuple[EdgeOrigin, ...]]:
    """Map each TOSA operator (by index) to its edge nodes; operators without a record get those of their neighbours.

    A constant belongs to the nodes in its name, if there are any.
    """
    by_name = {origin.name: origin for origin in nodes}
    known: dict[int, tuple[EdgeOrigin, ...]] = {}
    last: dict[str, int] = {}
    for index, operator in enumerate(graph.operators):
        own = [o for o in nodes if o.ancestor is not None and o.ancestor == operator.ancestor]
        if found := own or [by_name[name] for name in _called(operator) if name in by_name]:
            known[index] = tuple(found)
            last |= {origin.name: index for origin in found}
    for origin in nodes:
        before = [last[name] for name in origin.sources if name in last]
        if origin.name not in last and before:
            last[origin.name] = max(before)
            known[max(before)] = (*known[max(before)], origin)
    neighbours = with_neighbours(graph.operators, known)
    return {
        index: known.get(index, ()) if operator.name in CONSTANTS else neighbours[index]
        for index, operator in enumerate(graph.operators)
    }


def _called(operator: Operator) -> Iterable[str]:
    """Yield the nodes in the name of a table or constant."""
    names = {"TABLE": operator.inputs[-1:], "CONST": operator.outputs}.get(operator.name, ())
    for name in names:
        for suffix in (_TABLE, _KNOWN):
            if name.endswith(suffix):
                yield name.removesuffix(suffix).removeprefix("b_")


def debug_handle_map(
    kernels: Iterable[KernelOrigin], by_op: Mapping[int, tuple[EdgeOrigin, ...]]
) -> dict[int, tuple[int, ...]]:
    """Map each operation to the debug handles of its edge nodes, with which Inspector resolves events."""
    return {
        kernel.index: tuple(sorted({origin.handle for op in kernel.ops for origin in by_op.get(op, ())}))
        for kernel in kernels
    }
