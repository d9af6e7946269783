"""How a bench ends, and goes on: results as JSON where they are wanted, and what is wrong with them on stderr."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from deuteron.native import LIBRARY_DIRECTORY

R = TypeVar("R")


def finish(data: Mapping[str, object], problems: Sequence[str], file: Path | None) -> int:
    """The exit status: 1 when there are problems."""
    if file is not None:
        write(data, file)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def write(data: Mapping[str, object], file: Path) -> None:
    """Write results to a file, which keeps what it had until all of them are written."""
    whole = file.with_name(f"{file.name}.new")
    whole.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    whole.replace(file)


def kept(folder: Path | None, name: str, kind: type[R], make: Callable[[], R]) -> R:
    """A row, a dataclass `kind`: that of this name in the folder, whatever made it, else a new one, which is kept."""
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


class Rows:
    """Rows that were measured, kept in a file to go on behind them: those of the same sources and native libraries.

    Args:
        file: where; None to keep them in memory alone.
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
    """A hash of what gives a bench its results: Deuteron, its native libraries, the benches and what they share."""
    root = Path(__file__).parents[1]
    python = (file for name in ("src", "benches", "tests") for file in root.glob(f"{name}/**/*.py"))
    files = sorted((*python, *(file for file in LIBRARY_DIRECTORY.iterdir() if file.is_file())))
    hashes = (f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files)
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()
