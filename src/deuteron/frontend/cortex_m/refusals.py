"""Errors about operators without an implementation on the Cortex-M."""

from collections.abc import Iterable

from torch import fx

from deuteron.errors import UnsupportedError
from deuteron.frontend.operators import operator_name
from deuteron.frontend.source_lines import source_of


def refusal(node: fx.Node, what: str, hint: str) -> UnsupportedError:
    """Return the error about a node: the problem, its line of the model, and a hint."""
    source = source_of(node)
    at = f", at `{source.code}`" if source else ""
    where = str(source) if source else node.name
    return UnsupportedError(f"`{operator_name(node.target)}` {what}{at}", where=where, hint=hint)


def mixes(node: fx.Node, scales: Iterable[tuple[float, int]]) -> UnsupportedError:
    """Return the error about an operator without its own scale that reads values of several scales and zero points."""
    listed = " and ".join(f"scale {scale:g}, zero point {zero}" for scale, zero in scales)
    return refusal(node, f"would mix values of {listed}", "give both operands the same range")
