"""All operators of PyTorch that become one of ours, and all of ours."""

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
from deuteron.frontend.cortex_m.added.lowering_pattern import Definition, Form

_FAMILIES = (reductions, norms, log_softmax, broadcast_binary, resize, masked_softmax)

FORMS: Mapping[object, Form] = {target: form for family in _FAMILIES for target, form in family.FORMS.items()}
"""The forms, by the operator of PyTorch's registry."""

DEFINITIONS: Mapping[str, Definition] = {
    name: definition for family in (*_FAMILIES, int16) for name, definition in family.DEFINITIONS.items()
}
"""What our operators compute, by their names."""

ROUNDED = frozenset(name for name, definition in DEFINITIONS.items() if definition.rounds)
"""Those whose results may be one step off PyTorch's."""
