"""Optional dependencies (extras of the Python package), and errors if one is missing."""

import importlib.util

from deuteron.errors import MissingToolError


def is_installed(package: str) -> bool:
    """Return True if a Python package is installed, without importing it."""
    return importlib.util.find_spec(package) is not None


def require(extra: str, package: str, what: str) -> None:
    """Check that the package of an extra is installed, which `what` needs; MissingToolError otherwise."""
    if not is_installed(package):
        raise MissingToolError(
            f"{what} needs the Python package `{package}`, which is not installed",
            hint=f"install Deuteron with its extra: `pip install 'deuteron[{extra}]'`",
        )
