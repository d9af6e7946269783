"""Keeps source lines through graph passes that create nodes without any."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from torch import fx

from deuteron.frontend.source_lines import source_in, source_of

ORIGIN = ("stack_trace", "nn_module_stack", "source_fn_stack")
"""Keys of a node's metadata with its origin."""

_Origin = dict[str, Any]
T = TypeVar("T")


def keep_sources(model: fx.GraphModule, rewrite: Callable[[fx.GraphModule], T]) -> T:
    """Run `rewrite` on a model; nodes that replace others get their source lines."""
    with model._set_replace_hook(_replaced):  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - no public name
        return rewrite(model)


def fill(graph: fx.Graph) -> None:
    """Give nodes without a line the line of their neighbours if it is unique; no line is better than a wrong one."""
    new = [node for node in graph.nodes if _is_new(node)]
    lines = dict.fromkeys(new, _Origin())
    for node in reversed(new):  # users before what they read
        readers = _only(lines.get(user) or _origin(user) for user in node.users)
        lines[node] = _only([readers, *map(_origin, _sources(node))])
    for node, origin in lines.items():
        node.meta.update(origin)


def name_functions(graph: fx.Graph) -> None:
    """Name the function of each operator without one, as PyTorch does in a strict export alone.

    Without it, ExecuTorch's NXP quantizer annotates no operator, and one of its passes fails.
    """
    for node in graph.nodes:
        if node.op == "call_function":
            node.meta.setdefault("source_fn_stack", [(node.name, node.target)])


def _replaced(old: fx.Node, new: str, user: fx.Node) -> None:  # noqa: ARG001 - called by name
    """Copy the source line of a replaced node to its replacement and to the new nodes that this reads."""
    origin, node = _origin(old), _near(old, new)
    region = _region(node) if node is not None and _is_new(node) else []
    if not any(old in member.all_input_nodes for member in region):  # otherwise the new node reads or precedes `old`
        for member in region:
            member.meta.update(origin)


def _near(node: fx.Node, name: str) -> fx.Node | None:
    """Find a node by name near another one."""
    before = after = node
    for _ in range(len(node.graph.nodes)):
        before, after = before.prev, after.next
        if before.name == name:
            return before
        if after.name == name:
            return after
    return None


def _region(node: fx.Node) -> list[fx.Node]:
    """A new node and the new nodes that it reads, directly or indirectly."""
    region = {node: None}
    left = [node]
    while left:
        for read in left.pop().all_input_nodes:
            if _is_new(read) and read not in region:
                region[read] = None
                left.append(read)
    return [*region]


def _sources(node: fx.Node) -> Iterator[fx.Node]:
    """The nodes with lines that a new one reads; constants and inputs have no lines."""
    for member in _region(node):
        yield from (read for read in member.all_input_nodes if read.op == "call_function" and not _is_new(read))


def _only(origins: Iterable[_Origin]) -> _Origin:
    """The common origin of all, or none."""
    listed = [*origins]
    lines = {str(source_in(origin)) for origin in listed}
    return listed[0] if len(lines) == 1 else {}


def _origin(node: fx.Node) -> _Origin:
    return {} if source_of(node) is None else {key: node.meta[key] for key in ORIGIN if key in node.meta}


def _is_new(node: fx.Node) -> bool:
    return node.op == "call_function" and source_of(node) is None
