"""Finds programs of the system: compilers, emulators."""

import shutil
from pathlib import Path

from deuteron.errors import MissingToolError


def find_program(program: str, package: str, what: str) -> Path:
    """Return a program's path; MissingToolError with its Debian package if it is not on PATH."""
    path = shutil.which(program)
    if path is None:
        message = f"{what} is not installed: found no `{program}` on PATH"
        raise MissingToolError(message, hint=f"install it, on Debian with `apt-get install {package}`")
    return Path(path)
