"""Parameters of which some run with `--full` only."""

from collections.abc import Iterable
from typing import Any

import pytest


def first(values: Iterable[Any], count: int) -> list[Any]:
    """Return the values; those behind the first `count` run with `--full` only."""
    return [value if i < count else _full(value) for i, value in enumerate(values)]


def only(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Return the values; those that are not `kept` run with `--full` only."""
    return [value if value in kept else _full(value) for value in values]


def _full(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.full)
