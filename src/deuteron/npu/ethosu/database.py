"""Vela's debug database, which `--enable-debug-db` makes it write: tables of its graph, schedule and commands."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass

from deuteron.errors import FormatError

Row = Mapping[str, str]

_TABLE = re.compile(r'<table name="(\w+)">\s*<!\[CDATA\[\s*(.*?)\]\]>\s*</table>', re.DOTALL)
_HINT = "build the model again; the file is damaged, or another version of Vela wrote it"


@dataclass(frozen=True, slots=True)
class Database:
    """The tables by name, each row by the names of its columns; `where` is what errors call the file."""

    tables: Mapping[str, tuple[Row, ...]]
    where: str

    def rows(self, table: str) -> tuple[Row, ...]:
        """The rows of a table; FormatError where there is none of that name."""
        if table not in self.tables:
            raise FormatError(f"Vela's debug database has no table `{table}`", where=self.where, hint=_HINT)
        return self.tables[table]

    def number(self, row: Row, column: str) -> int:
        """A whole number of a row, 0 for an empty one; FormatError where it is none."""
        text = row.get(column)
        try:
            if text is not None:
                return int(text, 0) if text else 0
        except ValueError:
            pass
        raise FormatError(f"Vela's debug database has {text!r} as `{column}`", where=self.where, hint=_HINT)


def read(text: str, where: str) -> Database:
    """The database in a file's text."""
    return Database({name: tuple(csv.DictReader(body.splitlines())) for name, body in _TABLE.findall(text)}, where)
