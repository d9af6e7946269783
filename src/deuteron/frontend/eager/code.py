"""Finds the user's code that a module runs, and the lines that write or read a name in it."""

import ast
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import cast

from deuteron.builds.manifest import Source
from deuteron.builds.user_frames import in_library

_STANDARD = sysconfig.get_path("stdlib")


@contextmanager
def executed(reached: Iterable[CodeType]) -> Generator[dict[CodeType, None]]:
    """Collect the code of all user functions that this context calls, in the order of their first calls.

    If a profiler is active, the result is `reached`, all functions that the module can reach.
    """
    codes: dict[CodeType, None] = {}
    if sys.getprofile() is not None:
        yield dict.fromkeys(reached)
        return

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in codes and not is_library(code.co_filename):
            codes[code] = None

    sys.setprofile(called)
    try:
        yield codes
    finally:
        sys.setprofile(None)


def is_library(file: str) -> bool:
    """True for code of PyTorch, this package, and Python's standard library."""
    return in_library(file) or (file.startswith(_STANDARD) and "site-packages" not in file)


def written_at(codes: Iterable[CodeType], name: str) -> Source | None:
    """Return the first line that assigns to a name or calls a method of its value; else the first with the name."""
    uses = [use for code in codes for use in _uses(code, name)]
    uses.sort(key=lambda use: not use.writes)
    return uses[0].source if uses else None


def is_only_written(codes: Iterable[CodeType], name: str) -> bool:
    """True if code only writes a name: assigns, adds or appends to it, such as `self.calls += 1`."""
    uses = [use for code in codes for use in _uses(code, name)]
    return bool(uses) and not any(use.reads for use in uses)


class _Use:
    """One occurrence of a name in code."""

    __slots__ = ("reads", "source", "writes")

    def __init__(self, source: Source, *, writes: bool, reads: bool) -> None:
        self.source, self.writes, self.reads = source, writes, reads


def _uses(code: CodeType, name: str) -> Iterator[_Use]:
    """Yield the occurrences of a name in a function; if its source is missing, at most the function itself."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # a lambda inside a call, or code without a file
        if name in (*code.co_names, *code.co_freevars, *code.co_consts):
            yield _Use(Source(code.co_filename, code.co_firstlineno, code.co_name, ""), writes=False, reads=True)
        return
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    for node in ast.walk(tree):
        if not _is_named(node, name):
            continue
        line = getattr(node, "lineno", 1)
        source = Source(code.co_filename, first + line - 1, lines[line - 1].strip(), "")
        stored = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        parent = parents.get(node)
        if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Store | ast.Del):
            stored = True  # `self.seen[key] = value`
        called = parents.get(parent) if isinstance(parent, ast.Attribute) and parent.value is node else None
        is_method = isinstance(called, ast.Call) and called.func is parent
        is_statement = is_method and isinstance(
            parents.get(cast(ast.AST, called)), ast.Expr
        )  # `self.seen.append(value)`
        is_text = isinstance(node, ast.Constant)  # `self.register_buffer("seen", value)`
        yield _Use(source, writes=stored or is_method or is_text, reads=not stored and not is_statement)


def _is_named(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Attribute(attr=attribute):
            return attribute == name
        case ast.Name(id=identifier):
            return identifier == name
        case ast.Constant(value=text):  # `self.register_buffer("name", ...)`
            return text == name
        case _:
            return False
