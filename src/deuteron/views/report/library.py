"""The chart library that goes into the page: uPlot (MIT), as the package `uplot-python` carries it."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from deuteron.errors import MissingToolError

PACKAGE = "uplot-python"
HOME = "https://github.com/leeoniya/uPlot"


@dataclass(frozen=True, slots=True)
class Library:
    """The library's texts; the script begins with its copyright notice."""

    script: str
    style: str


def library() -> Library:
    """The library, read without importing the package, which would load more than its files.

    Raises:
        MissingToolError: the package is not installed.
    """
    try:
        static = Path(str(distribution(PACKAGE).locate_file("uplot/static")))
        return Library(
            script=(static / "uPlot.iife.js").read_text(encoding="utf-8"),
            style=(static / "uPlot.min.css").read_text(encoding="utf-8"),
        )
    except (PackageNotFoundError, FileNotFoundError) as e:
        raise MissingToolError(
            f"the report's chart library, Python package `{PACKAGE}`, is not installed",
            hint="install Deuteron again with its dependencies",
        ) from e
