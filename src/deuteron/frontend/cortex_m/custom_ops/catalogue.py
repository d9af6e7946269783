"""Lists the lowering patterns of PyTorch operators and the definitions of our operators."""

from collections.abc import Mapping

import torch

from deuteron.frontend.cortex_m.custom_ops import (
    broadcast_binary,
    interpolation,
    layers,
    log_softmax,
    masked_softmax,
    norms,
    pools,
    recurrent,
    reductions,
    requantize,
    resize,
)
from deuteron.frontend.cortex_m.custom_ops.lowering_pattern import Definition, Patterns

_FAMILIES = (
    *(reductions, norms, log_softmax, broadcast_binary, resize, masked_softmax),
    *(layers, pools, interpolation, requantize, recurrent),
)

PATTERNS: Patterns = {
    dtype: {target: pattern for family in _FAMILIES for target, pattern in family.PATTERNS.get(dtype, {}).items()}
    for dtype in (torch.int8, torch.int16)
}
"""The lowering patterns."""

DEFINITIONS: Mapping[str, Definition] = {
    name: definition for family in _FAMILIES for name, definition in family.DEFINITIONS.items()
}
"""The definitions of our operators, by name."""

ROUNDED = frozenset(name for name, definition in DEFINITIONS.items() if definition.rounds)
"""Operators whose results may differ from PyTorch's by one step."""
