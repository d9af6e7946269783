"""The directory of a sweep: its specification, its builds, and one Parquet dataset that grows shard by shard.

A shard is written under a temporary name and then renamed, so that every shard is complete. After a crash, the next run
computes only missing shards.
"""

import fcntl
import hashlib
import io
import json
import os
import shutil
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import cast

from deuteron.errors import FormatError, InputError, OptionError
from deuteron.extras import require
from deuteron.sweeps.lowering import BUILDS
from deuteron.sweeps.spec import AXES, Point, Spec
from deuteron.sweeps.worker import COLUMNS, Row

NAME = "sweep.json"
POINTS = "points"
SCHEMA = 3
AGAIN = "give another directory, or remove this one"


@contextmanager
def opened(
    directory: Path, spec: Spec, fingerprint: str, search: Mapping[str, object] = MappingProxyType({})
) -> Generator[None]:
    """Open or create the directory for this sweep, and lock it for the length of a context.

    `search` identifies a search; it differs between searches, and from a sweep.

    Raises:
        InputError: the directory cannot be written.
        OptionError: it has another sweep, or is in use.
        FormatError: it is damaged, or of another version.
    """
    require("cluster", "pyarrow", "`deuteron sweep`")
    described = {"schema": SCHEMA, "deuteron": fingerprint, **spec.to_json(), **search}
    try:
        for folder in (directory / BUILDS, directory / POINTS):
            folder.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as e:
        raise InputError(f"`{directory}` cannot be written: {e.strerror or e}") from e
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise OptionError(f"another `deuteron sweep` writes to `{directory}`", hint="wait for it to end") from e
        path = directory / NAME
        if path.exists():
            _check(read(directory), described, directory)
        else:
            _write(path, (json.dumps(described, indent=2) + "\n").encode())
        for scratch in (directory / BUILDS).glob(".*"):  # left by a killed process
            shutil.rmtree(scratch, ignore_errors=True)
        yield


def read(directory: Path) -> dict[str, object]:
    """Return the description of the sweep in a directory.

    Raises:
        InputError: there is none.
        FormatError: it is damaged, or of another version.
    """
    path = directory / NAME
    if not path.is_file():
        raise InputError(f"`{directory}` has no `{NAME}`", hint="give a directory of `deuteron sweep`")
    try:
        data = json.loads(path.read_bytes())
    except ValueError as e:
        raise FormatError(f"`{NAME}` is not JSON: {e}", where=str(path), hint=AGAIN) from e
    table = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    if table.get("schema") != SCHEMA:
        raise FormatError(
            f"`{NAME}` has schema {table.get('schema')!r}, this version of Deuteron reads schema {SCHEMA}",
            where=str(path),
            hint=AGAIN,
        )
    return table


def total(directory: Path) -> int | None:
    """Return the number of points of a completed sweep; None for a search. Raises the errors of `read`."""
    described = read(directory)
    return None if "search" in described else prod(len(cast("list[object]", described[name])) for name in AXES)


def _check(there: dict[str, object], described: dict[str, object], directory: Path) -> None:
    """Check that a directory is of the same sweep."""
    if there.get("deuteron") != described["deuteron"]:
        raise FormatError(
            f"`{directory}` is of Deuteron {there.get('deuteron')}, this is {described['deuteron']}", hint=AGAIN
        )
    different = [f"`{key}`" for key in {**described, **there} if there.get(key) != described.get(key)]
    if different:
        differ = "differs" if len(different) == 1 else "differ"
        raise OptionError(f"`{directory}` has another sweep: {', '.join(different)} {differ}", hint=AGAIN)


def shard_name(points: Sequence[Point], build: str) -> str:
    """Return the name of the shard of points that share the build of that key."""
    digest = hashlib.sha256(repr((build, points)).encode()).hexdigest()[:16]
    return f"{points[0].number:08}-{digest}.parquet"


def written(directory: Path) -> frozenset[str]:
    """Return the names of the existing shards."""
    return frozenset(path.name for path in (directory / POINTS).glob("[!.]*.parquet"))


def keep(directory: Path, names: Collection[str]) -> frozenset[str]:
    """Return the existing shards among these; remove others, whose models have changed since."""
    there = written(directory)
    for name in there.difference(names):
        remove(directory, name)
    return there.intersection(names)


def append(directory: Path, name: str, rows: Sequence[Row]) -> None:
    """Write a shard.

    Raises:
        InputError: the shard cannot be written.
    """
    arrow, sink = import_module("pyarrow"), io.BytesIO()
    columns = {column: [row.get(column) for row in rows] for column in COLUMNS}
    schema = arrow.schema([(column, arrow.type_for_alias(kind)) for column, kind in COLUMNS.items()])
    import_module("pyarrow.parquet").write_table(arrow.table(columns, schema=schema), sink)
    _write(directory / POINTS / name, sink.getvalue())


def remove(directory: Path, name: str) -> None:
    """Remove the shard of that name."""
    (directory / POINTS / name).unlink(missing_ok=True)


def rows(directory: Path, names: Collection[str] | None = None) -> list[Row]:
    """Return all rows of a sweep, or of some shards, by number of the point; raises the errors of `read`."""
    require("cluster", "pyarrow", "`deuteron sweep`")
    parquet = import_module("pyarrow.parquet")
    read(directory)
    found: list[Row] = []
    for name in sorted(written(directory) if names is None else names):
        path = directory / POINTS / name
        try:
            found += cast("list[Row]", parquet.ParquetFile(path).read().to_pylist())
        except (OSError, ValueError) as e:  # pyarrow's own errors are of these kinds
            raise FormatError(
                f"not a Parquet file: {e}", where=str(path), hint="remove it, and run the sweep again"
            ) from e
    return sorted(found, key=lambda row: cast("int", row["number"]))


def _write(path: Path, data: bytes) -> None:
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_bytes(data)
        with fresh.open("rb") as file:
            os.fsync(file.fileno())  # else a crash could leave a name without its content
        fresh.replace(path)
    except OSError as e:
        fresh.unlink(missing_ok=True)
        raise InputError(
            f"`{path}` cannot be written: {e.strerror or e}",
            hint="written points are kept: free some space, and run the same command again to continue",
        ) from e
