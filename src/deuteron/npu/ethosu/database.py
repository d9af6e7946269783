"""Reads Vela's debug database (`--enable-debug-db`): tables of its graph, schedule and commands."""

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from deuteron.errors import FormatError

Row = Mapping[str, str]

_TABLE = re.compile(r'<table name="(\w+)">\s*<!\[CDATA\[\s*(.*?)\]\]>\s*</table>', re.DOTALL)
_HINT = "build the model again; the file is damaged, or another version of Vela wrote it"


@dataclass(frozen=True, slots=True)
class Database:
    """The tables by name, with rows by column name; `where` is the name of the file in errors."""

    tables: Mapping[str, tuple[Row, ...]]
    where: str

    def rows(self, table: str) -> tuple[Row, ...]:
        """Return the rows of a table; FormatError if it is missing."""
        if table not in self.tables:
            raise FormatError(f"Vela's debug database has no table `{table}`", where=self.where, hint=_HINT)
        return self.tables[table]

    def of_stream(self, number: int) -> "Database":
        """Return the database with the commands of one of several streams alone."""
        streams = [row["id"] for row in self.rows("cmdstream")]
        queue = [row for row in self.rows("queue") if [row["cmdstream_id"]] == streams[number : number + 1]]
        return replace(self, tables={**self.tables, "queue": tuple(queue)})

    def number(self, row: Row, column: str) -> int:
        """Return an integer of a row, 0 if empty; FormatError if it is no integer."""
        text = row.get(column)
        try:
            if text is not None:
                return int(text, 0) if text else 0
        except ValueError:
            pass
        raise FormatError(f"Vela's debug database has {text!r} as `{column}`", where=self.where, hint=_HINT)


def read(text: str, where: str) -> Database:
    """Parse the text of a database."""
    return Database({name: tuple(csv.DictReader(body.splitlines())) for name, body in _TABLE.findall(text)}, where)
