"""Finds the user's line in a printed stack trace."""

import importlib.util
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in .*\n\s*(?P<code>\S[^\n]*)', re.MULTILINE)

_LIBRARIES = ("torch", "torchao", "executorch", "deuteron")

_ELSEWHERE = re.compile(rf"[/\\](?:site|dist)-packages[/\\](?:{'|'.join(_LIBRARIES)})[/\\]")
"""The libraries in another environment, or on another machine."""

_EXAMPLES = re.compile(r"[/\\]executorch[/\\]examples[/\\]")
"""Models in ExecuTorch's examples, which count as users' models."""


@lru_cache(maxsize=4096)
def last_user_line(trace: str) -> tuple[str, int, str] | None:
    """Return (file, line, code) of the innermost frame of a stack trace that is not a library's or generated."""
    return next(iter(user_lines(trace)), None)


def user_lines(trace: str) -> Iterator[tuple[str, int, str]]:
    """Yield (file, line, code) of the frames of a stack trace that are not libraries' or generated, innermost first."""
    for frame in reversed(list(_FRAME.finditer(trace))):
        file = frame["file"]
        if not file.startswith("<") and not in_library(file):
            yield file, int(frame["line"]), frame["code"].strip()


@cache
def _library_folders() -> tuple[str, ...]:
    specs = [importlib.util.find_spec(name) for name in _LIBRARIES]
    return tuple(str(Path(folder)) for spec in specs if spec for folder in spec.submodule_search_locations or ())


def in_library(file: str) -> bool:
    """Return true for a file of PyTorch, ExecuTorch or this package, except for models in ExecuTorch's examples."""
    if _EXAMPLES.search(file):
        return False
    return file.startswith(_library_folders()) or _ELSEWHERE.search(file) is not None
