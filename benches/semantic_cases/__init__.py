"""The cases of the bench of semantics, by kind."""

from semantic_cases import aliasing, control, numbers, state
from semantic_cases.case import Case, Cases

KINDS: tuple[Cases, ...] = (numbers.CASES, state.CASES, aliasing.CASES, control.CASES)
CASES: tuple[Case, ...] = tuple(case for kind in KINDS for case in kind)
