"""Lists the lowering patterns of PyTorch operators and the definitions of our operators."""

from collections.abc import Mapping

from deuteron.frontend.cortex_m.added import (
    broadcast_binary,
    int16,
    log_softmax,
    masked_softmax,
    norms,
    reductions,
    resize,
)
from deuteron.frontend.cortex_m.added.lowering_pattern import Definition, LoweringPattern

_FAMILIES = (reductions, norms, log_softmax, broadcast_binary, resize, masked_softmax)

PATTERNS: Mapping[object, LoweringPattern] = {
    target: pattern for family in _FAMILIES for target, pattern in family.PATTERNS.items()
}
"""The lowering patterns, by the operator of PyTorch's registry."""

DEFINITIONS: Mapping[str, Definition] = {
    name: definition for family in (*_FAMILIES, int16) for name, definition in family.DEFINITIONS.items()
}
"""The definitions of our operators, by name."""

ROUNDED = frozenset(name for name, definition in DEFINITIONS.items() if definition.rounds)
"""Operators whose results may differ from PyTorch's by one step."""
