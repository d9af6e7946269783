"""Presets: TOML tables that are read field by field, and their figures.

A figure is a number with its unit, source and certainty, so that a report can cite them.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Self, TypeVar, cast

from deuteron.errors import FormatError

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Enum)


class Certainty(Enum):
    """Certainty of a figure; the value is its name in presets and reports."""

    MEASURED = "measured"
    QUOTED = "quoted"
    DERIVED = "derived"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Figure:
    """One hardware figure: a whole number in `unit` (empty for a plain count), its certainty and its source."""

    value: int
    unit: str
    certainty: Certainty
    source: str


def _merged(base: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    """Return the first mapping with the changes of the second, table by table."""
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        tables = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merged(cast(dict[str, object], old), cast(dict[str, object], value)) if tables else value
    return merged


class Table:
    """A TOML table whose fields must all be read; a wrong field is a FormatError."""

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Parse the text of a preset."""
        try:
            return cls(tomllib.loads(text), where)
        except tomllib.TOMLDecodeError as e:
            raise FormatError(f"not a TOML file: {e}", where=where) from e

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        self._left = dict(data)
        self._where = where

    def over(self, base: Self) -> Self:
        """Return this table, with missing fields from another."""
        return type(self)(_merged(base._left, self._left), self._where)

    def has(self, key: str) -> bool:
        """Return True if the field is there and unread."""
        return key in self._left

    def _take(self, key: str, kind: type[_T]) -> _T:
        value = self._left.pop(key, None)
        if value is None:
            raise FormatError(f"field `{key}` is missing", where=self._where)
        if type(value) is not kind:
            raise FormatError(f"field `{key}` is {value!r}, which is no {kind.__name__}", where=self._where)
        return value

    def text(self, key: str) -> str:
        """The string in a field."""
        return self._take(key, str)

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings in a field."""
        items = cast(list[object], self._take(key, list))
        if not all(isinstance(item, str) for item in items):
            raise FormatError(f"field `{key}` is {items!r}, which is no list of str", where=self._where)
        return tuple(cast(list[str], items))

    def number(self, key: str) -> int:
        """The whole number in a field."""
        return self._take(key, int)

    def flag(self, key: str) -> bool:
        """The truth value in a field."""
        return self._take(key, bool)

    def choice(self, key: str, kind: type[_E]) -> _E:
        """The member of an enum with the value of a field."""
        value = self._take(key, str)
        allowed = [str(member.value) for member in kind]
        if value not in allowed:
            raise FormatError(f"field `{key}` is `{value}`, allowed are {', '.join(allowed)}", where=self._where)
        return kind(value)

    def table(self, key: str) -> "Table":
        """The table in a field."""
        return Table(cast(dict[str, object], self._take(key, dict)), f"{self._where}, table `{key}`")

    def tables(self, key: str) -> tuple["Table", ...]:
        """The array of tables in a field."""
        items = cast(list[dict[str, object]], self._take(key, list))
        return tuple(Table(item, f"{self._where}, `{key}` {i}") for i, item in enumerate(items))

    def figure(self, key: str) -> Figure:
        """The figure in a field."""
        table = self.table(key)
        figure = Figure(
            table.number("value"), table.text("unit"), table.choice("certainty", Certainty), table.text("source")
        )
        if figure.value <= 0:
            raise FormatError(f"figure `{key}` is {figure.value}, it must be above 0", where=self._where)
        table.finish()
        return figure

    def finish(self) -> None:
        """Check that every field was read."""
        if self._left:
            raise FormatError(f"unknown field `{min(self._left)}`", where=self._where)
