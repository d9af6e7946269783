"""The cases of the bench of semantics, by kind."""

from semantic_cases import (
    aliasing,
    blocks,
    constants,
    containers,
    control,
    core_aten,
    indices,
    layers,
    losses,
    numbers,
    rewritten,
    sequences,
    state,
    stateful,
    structure,
)
from semantic_cases.case import Case, Cases

KINDS: tuple[Cases, ...] = tuple(
    kind.CASES
    for kind in (
        *(numbers, state, stateful, aliasing, control, constants, containers, indices),
        *(layers, losses, sequences, structure, blocks, rewritten, core_aten),
    )
)
CASES: tuple[Case, ...] = tuple(case for kind in KINDS for case in kind)
