"""Which edge nodes each TOSA operator of a partition was made from, and so which of them an operation stands for.

Arm's passes change a partition's program in its place, but keep what each node was made from, and its operator tells
that. Tables, and results that are known before, are made of nothing, but are called like the node that they stand for.
A node of which no operator tells, such as a relu that only bounds a result, is computed with those before it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import fx
from torch.export import ExportedProgram

from deuteron.frontend.lowering_record import EdgeNode, edge_node
from deuteron.frontend.neutron.handles import with_neighbours
from deuteron.frontend.nodes import computing, name_of
from deuteron.npu.ethosu.tosa import CONSTANTS, Ancestor, Graph, Operator
from deuteron.npu.provenance import KernelOrigin

_TABLE, _KNOWN = "_table_constant", "_pre_computed"
"""How Arm's backend calls the table of a node, and the result of one that is known before, behind its name."""


@dataclass(frozen=True, slots=True)
class Origin:
    """An edge node that computes something.

    Attributes:
        name: in the partition's program.
        node: what is kept of it.
        handle: ExecuTorch's debug handle of it.
        ancestor: what it was made from itself.
        sources: names of those before it on all ways back.
    """

    name: str
    node: EdgeNode
    handle: int
    ancestor: Ancestor | None
    sources: tuple[str, ...]


def noted(program: ExportedProgram) -> tuple[Origin, ...]:
    """The nodes of a partition's program, before passes change it."""
    nodes = [*computing(program.graph)]
    known = set(nodes)
    return tuple(
        Origin(
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


def by_operator(nodes: Sequence[Origin], graph: Graph) -> dict[int, tuple[Origin, ...]]:
    """For each TOSA operator (by index) the edge nodes that it comes from; those beside it where nothing tells.

    A constant is of the nodes that its name tells, if it does.
    """
    by_name = {origin.name: origin for origin in nodes}
    known: dict[int, tuple[Origin, ...]] = {}
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
    beside = with_neighbours(graph.operators, known)
    return {
        index: known.get(index, ()) if operator.name in CONSTANTS else beside[index]
        for index, operator in enumerate(graph.operators)
    }


def _called(operator: Operator) -> Iterable[str]:
    """The nodes that the name of a table or of a constant tells."""
    names = {"TABLE": operator.inputs[-1:], "CONST": operator.outputs}.get(operator.name, ())
    for name in names:
        for suffix in (_TABLE, _KNOWN):
            if name.endswith(suffix):
                yield name.removesuffix(suffix).removeprefix("b_")


def debug_handle_map(
    kernels: Iterable[KernelOrigin], by_op: Mapping[int, tuple[Origin, ...]]
) -> dict[int, tuple[int, ...]]:
    """Operation -> debug handles of the edge nodes that it stands for, which Inspector resolves events by."""
    return {
        kernel.index: tuple(sorted({origin.handle for op in kernel.ops for origin in by_op.get(op, ())}))
        for kernel in kernels
    }
