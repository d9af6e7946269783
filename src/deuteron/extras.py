"""What not everybody installs: the extras of the Python package, and what is said without one."""

import importlib.util

from deuteron.errors import MissingToolError


def is_installed(package: str) -> bool:
    """Whether a Python package can be imported; it is not."""
    return importlib.util.find_spec(package) is not None


def require(extra: str, package: str, what: str) -> None:
    """Check that the package is there which `what` needs and an extra brings; MissingToolError when not."""
    if not is_installed(package):
        raise MissingToolError(
            f"{what} needs the Python package `{package}`, which is not installed",
            hint=f"install Deuteron with its extra: `pip install 'deuteron[{extra}]'`",
        )
