"""The harness of all benches: arguments, rows that are kept, tables, bounds, and results as JSON.

A bench is a module with a docstring and a function from arguments to `Results`; `main` does the rest:

    if __name__ == "__main__":
        sys.exit(main(results, option("--runs", type=int, default=7, help="runs per figure")))

`tools/measured.py --keep NAME` takes the tables of the JSON file into `docs/reference/measured.md`.
"""

import argparse
import hashlib
import json
import os
import platform
import resource
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, TypeVar

from deuteron import api
from deuteron.native import LIBRARY_DIRECTORY

R = TypeVar("R")
Option = tuple[tuple[str, ...], Mapping[str, Any]]
Column = str | Callable[[Any], object]
"""An attribute or item of a row, with a format if need be (`seconds:.1f`), or a function of the row."""


def option(*names: str, **properties: Any) -> Option:
    """Return an argument of a bench, as `add_argument` takes it."""
    return names, properties


def only(name: str, choices: Iterable[str]) -> Option:
    """Return an option that limits a bench to some of its choices."""
    return option(name, action="append", choices=tuple(choices), help="only these; may be repeated")


BUILDS = option("--builds", type=Path, help="a folder of builds; missing ones are built there")
MINUTES = option("--minutes", type=float, default=float("inf"), help="start nothing new after so many")
ROWS = option("--rows", type=Path, help="keep each row in this folder, and do not measure again what is there")
LINES = option("--rows", type=Path, help="a file of JSON lines: rows that it has are not measured again")
NAMES = option("names", nargs="*", help="beginnings of names; all by default")
MODELS = option("models", nargs="*", help="names of reference models; all by default")
SCHEDULER = option("--scheduler", metavar="ADDRESS", help="run on the workers of this Dask scheduler")
REFERENCES = tuple(example.name for example in api.REFERENCES)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""

    def __str__(self) -> str:
        cells = [self.columns, *self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        numeric = [all(c[:1] in "-+0123456789" for c in column) for column in zip(*self.rows, strict=True)] or widths
        lines = (
            "  ".join(c.rjust(w) if n else c.ljust(w) for c, w, n in zip(row, widths, numeric, strict=True)).rstrip()
            for row in cells
        )
        return "\n".join([*([self.title] if self.title else ()), *lines])


def table(rows: Iterable[Any], columns: Mapping[str, Column], title: str = "") -> Table:
    """Return the table of some rows, with a column for each entry of `columns`."""
    return Table(tuple(columns), tuple(tuple(_cell(row, c) for c in columns.values()) for row in rows), title)


def _cell(row: Any, column: Column) -> str:
    if callable(column):
        value, pattern = column(row), ""
    else:
        name, _, pattern = column.partition(":")
        value = (itemgetter if isinstance(row, Mapping) else attrgetter)(name)(row)
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return format(value, pattern or ("," if isinstance(value, int) else ".4g"))
        case tuple() | list():
            return ", ".join(map(str, value))
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a bench.

    Attributes:
        kind: of the numbers: measured, counted, simulated or estimated.
        rows: dataclasses or mappings, for programs.
        tables: for people and the page of measurements.
        problems: bounds that do not hold.
        notes: lines after the tables.
        data: more for programs.
    """

    kind: str
    rows: Sequence[Any]
    tables: Sequence[Table] = ()
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    data: Mapping[str, object] = field(default_factory=dict[str, object])

    def to_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        rows = [asdict(row) if is_dataclass(row) and not isinstance(row, type) else row for row in self.rows]
        tables = [asdict(each) for each in self.tables]
        return {"kind": self.kind, "machine": machine(), "rows": rows, "tables": tables, **self.data}


def main(
    measure: Callable[[argparse.Namespace], Results],
    *options: Option,
    arguments: Sequence[str] | None = None,
    description: str | None = None,
) -> int:
    """Run a bench and return its exit status: 1 when a bound does not hold."""
    description = description or sys.modules[measure.__module__].__doc__
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    for names, properties in options:
        parser.add_argument(*names, **properties)
    parsed = parser.parse_args(arguments)
    results = measure(parsed)
    print(*results.tables, *results.notes, sep="\n", flush=True)
    if parsed.json is not None:
        write(results.to_json(), parsed.json)
    for problem in results.problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if results.problems else 0


def progress(row: R) -> R:
    """Show a row as soon as it is measured, and return it."""
    print(row, file=sys.stderr, flush=True)
    return row


def machine() -> dict[str, object]:
    """Describe the computer that measures."""
    cpu, load = platform.processor() or platform.machine(), os.getloadavg()[0]
    return {"cpu": cpu, "cores": os.cpu_count(), "load_average": load, "python": sys.version}


@contextmanager
def folder(given: Path | None) -> Iterator[Path]:
    """Provide a given folder, or a temporary one."""
    with tempfile.TemporaryDirectory() as scratch:
        yield given or Path(scratch)


def build_of(directory: Path, model: str, **arguments: Any) -> Path:
    """Return the build of a model in a directory, made if it is missing."""
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        api.build_model(model, output=directory, **arguments)
    return directory


def write(data: Mapping[str, object], file: Path) -> None:
    """Write results to a file, which keeps its old content until all of them are written."""
    whole = file.with_name(f"{file.name}.new")
    whole.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    whole.replace(file)


def kept(folder: Path | None, name: str, kind: type[R], make: Callable[[], R]) -> R:
    """Return a row, a dataclass `kind`: the one that the folder has under this name, else a new one, which is kept."""
    if folder is None:
        return make()
    file = folder / f"{name}.json"
    if file.exists():
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in data.items()})
    row: Any = make()
    folder.mkdir(parents=True, exist_ok=True)
    write(asdict(row), file)
    return row


def read_lines(file: Path | None, kind: type[R]) -> list[R]:
    """Return the rows of a file of JSON lines; none without a file."""
    if file is None or not file.exists():
        return []
    return [kind(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def add_line(file: Path | None, row: Any) -> None:
    """Append a row to a file of JSON lines."""
    if file is not None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(row)) + "\n")


def processor_seconds() -> float:
    """Return the processor time of all processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Rows:
    """Rows in a file, so that a bench resumes after them; they are of the same sources and native libraries.

    Args:
        file: where; None to keep them in memory only.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._sources = "" if file is None else sources()
        kept: Any = json.loads(file.read_text(encoding="utf-8")) if file is not None and file.is_file() else {}
        self._rows: dict[str, Any] = kept["rows"] if kept.get("sources") == self._sources else {}

    def __contains__(self, name: str) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> Any:
        return self._rows[name]

    def __setitem__(self, name: str, row: object) -> None:
        self._rows[name] = row
        if self._file is not None:
            write({"sources": self._sources, "rows": self._rows}, self._file)


def sources() -> str:
    """Return a hash of all that determines results: Deuteron, its native libraries, the benches and the tests."""
    root = Path(__file__).parents[1]
    python = (file for name in ("src", "benches", "tests") for file in root.glob(f"{name}/**/*.py"))
    files = sorted((*python, *(file for file in LIBRARY_DIRECTORY.iterdir() if file.is_file())))
    hashes = (f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files)
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
