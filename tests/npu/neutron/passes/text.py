"""Passes on text: graph in, graph out, both checked by the verifier."""

from textwrap import dedent, indent

from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.ir.printer import format_graph
from deuteron.npu.neutron.ir.verify import verify
from deuteron.npu.neutron.passes.base import Pass


def graph(body: str) -> str:
    """A graph's text from the lines between its braces."""
    return f"graph g {{\n{indent(dedent(body).strip(), '  ')}\n}}\n"


def check(step: Pass, before: str, after: str) -> None:
    """Asserts that the pass turns `before` into `after`; both are bodies of a graph."""
    source = parse_graph(graph(before))
    verify(source)
    result = step.apply(source)
    verify(result)
    assert format_graph(result) == graph(after)
    assert step.apply(result) is result or step.apply(result) == result


def check_unchanged(step: Pass, body: str) -> None:
    """Asserts that the pass leaves the graph alone and says so by returning the very object."""
    source = parse_graph(graph(body))
    verify(source)
    assert step.apply(source) is source
