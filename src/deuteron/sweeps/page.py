"""The points of a sweep as one offline page: charts with filters, a table, and details of each point."""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast
from urllib.parse import quote

from deuteron.arch import targets
from deuteron.arch.silicon import band
from deuteron.builds.output import check_file, write_files
from deuteron.errors import OptionError
from deuteron.sweeps import dataset
from deuteron.sweeps.pareto import NOTE, UNFINISHED, untimed
from deuteron.sweeps.spec import AXES
from deuteron.sweeps.worker import COLUMNS, Row
from deuteron.views.report.page import assembled

FILE = "sweep.html"

MOST = 50_000
"""Maximum number of points on a page; browsers get slow with more."""


def write_page(directory: Path, output: Path | None, *, force: bool) -> Path:
    """Write the page of the sweep in a directory, in it unless `output` is given, and return its path.

    Raises:
        OptionError: there are too many points, or the page exists and `force` is not set.
        DeuteronError: the directory has no sweep, or a damaged one, or the page cannot be written.
    """
    rows = dataset.rows(directory)
    if len(rows) > MOST:
        raise OptionError(
            f"`{directory}` has {len(rows):,} points, a page shows at most {MOST:,}",
            hint="`deuteron sweep show` without `--page` shows the best points; pandas and DuckDB read all points",
        )
    target = output or directory / FILE
    check_file(target, force=force or output is None)
    write_files({target: html(directory, rows, target.parent).encode()})
    return target


def html(directory: Path, rows: Sequence[Row], folder: Path) -> str:
    """Return one HTML file, for a folder, that shows the points and makes no network requests."""
    names = dict.fromkeys(str(row["target"]) for row in rows)
    bands = {name: str(known) for name in names if (known := band(targets.load(name)))}
    builds = {cast("int", row["number"]): shlex.split(str(row["command"]))[2] for row in rows if row["command"]}
    pages = {build: directory / build / "profile_sim" / "report.html" for build in dict.fromkeys(builds.values())}
    links = {build: _link(page, folder) for build, page in pages.items() if page.is_file()}
    data = {
        "columns": list(COLUMNS),
        "axes": list(AXES),
        "rows": [[row[column] for column in COLUMNS] for row in rows],
        "notes": [
            *_unfinished(directory, rows),
            NOTE,
            *(f"{name}: {text}" for name, text in bands.items()),
            *(f"{text}, and in no chart" for text in untimed(rows)),
        ],
        "bands": bands,
        "profiles": {
            number: {
                "command": shlex.join(["deuteron", "profile", build, "--on", "sim"]),
                "page": links.get(build),
            }
            for number, build in builds.items()
        },
    }
    return assembled(__package__ or "", "sweep.html", ("sweep.js",), directory.absolute().name, data)


def _link(file: Path, folder: Path) -> str:
    """Return a file's path relative to a folder, for links."""
    return quote(Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix())


def _unfinished(directory: Path, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the number of missing points, if there are any."""
    total = dataset.total(directory)
    if total is not None and len(rows) < total:
        yield f"{len(rows):,} of {total:,} points: {UNFINISHED}"
