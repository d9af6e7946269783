"""Finds the user's code that a module runs, and the lines that write or read a name in it."""

import ast
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import lru_cache
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
    _uses_in.cache_clear()  # sources may have changed
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


_RETURNS = re.compile(r"(^|[:;])\s*return\b")


def returned_at(function: Callable[..., object]) -> Source | None:
    """Return the last line of a user's function that returns something; None where its source cannot be found."""
    code: CodeType | None = getattr(function, "__code__", None)
    if code is None or is_library(code.co_filename):
        return None
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError):
        return None
    found = [(first + i, line.strip()) for i, line in enumerate(lines) if _RETURNS.search(line)]
    return Source(code.co_filename, *found[-1], "") if found else None


def is_only_written(codes: Iterable[CodeType], name: str) -> bool:
    """True if code only writes a name: assigns, adds or appends to it, such as `self.calls += 1`."""
    uses = [use for code in codes for use in _uses(code, name)]
    return bool(uses) and not any(use.reads for use in uses)


class _Use:
    """One occurrence of a name in code."""

    __slots__ = ("reads", "source", "writes")

    def __init__(self, source: Source, *, writes: bool, reads: bool) -> None:
        self.source, self.writes, self.reads = source, writes, reads


def _uses(code: CodeType, name: str) -> tuple[_Use, ...]:
    """Return the occurrences of a name in a function; if its source is missing, at most the function itself."""
    return _uses_in(code.co_filename, code, name) if _mentions(code, name) else ()


@lru_cache(1024)
def _uses_in(file: str, code: CodeType, name: str) -> tuple[_Use, ...]:
    """Return the same, for the file of the code: equal code may be in several."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # a lambda inside a call, or code without a file
        is_named = name in (*code.co_names, *code.co_freevars, *code.co_consts)
        return (_Use(Source(file, code.co_firstlineno, code.co_name, ""), writes=False, reads=True),) * is_named
    parents = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    uses: list[_Use] = []
    for node in ast.walk(tree):
        if _is_named(node, name):
            line = getattr(node, "lineno", 1)
            source = Source(file, first + line - 1, lines[line - 1].strip(), "")
            uses.append(_use(node, parents, source))
    return tuple(uses)


def _mentions(code: CodeType, name: str) -> bool:
    """True for a function with a name in it, or in a function inside it; parsing thousands of sources takes minutes."""
    nested = (one for one in code.co_consts if isinstance(one, CodeType))
    names = (*code.co_names, *code.co_freevars, *code.co_cellvars, *code.co_varnames, *code.co_consts)
    return name in names or any(_mentions(one, name) for one in nested)


_STORES = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popleft", "remove", "update"}
)
"""Methods of containers that change them, and give nothing to what is written around a call of them."""

_MESSAGES = frozenset({"critical", "debug", "error", "exception", "info", "log", "warn", "warning"})
"""Methods of loggers."""


def _use(node: ast.AST, parents: dict[ast.AST, ast.AST], source: Source) -> _Use:
    """The use of one occurrence of a name, followed through attributes and items: `self.seen[key].append`."""
    whole, method = node, ""
    while isinstance(parent := parents.get(whole), ast.Attribute | ast.Subscript) and parent.value is whole:
        whole, method = parent, parent.attr if isinstance(parent, ast.Attribute) else ""
    stored = isinstance(getattr(whole, "ctx", None), ast.Store | ast.Del)
    is_method = isinstance(parent, ast.Call) and parent.func is whole and whole is not node
    is_statement = is_method and method in _STORES and isinstance(parents.get(cast(ast.AST, parent)), ast.Expr)
    is_text = isinstance(node, ast.Constant)  # `self.register_buffer("seen", value)`
    unread = stored or is_statement or _is_counted(whole, parents) or _is_message(whole, parents)
    return _Use(source, writes=stored or is_method or is_text, reads=not unread)


def _is_counted(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """True in the arithmetic of an assignment to what is read: `self.seen["a"] = self.seen["a"] + 1`."""
    above = parents.get(node)
    while isinstance(above, ast.BinOp | ast.UnaryOp):
        above = parents.get(above)
    return (
        isinstance(above, ast.Assign) and len(above.targets) == 1 and ast.unparse(above.targets[0]) == ast.unparse(node)
    )


def _is_message(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """True in what is printed or logged, and in the condition of a branch that does nothing else."""
    above: ast.AST | None = node
    while above is not None and not isinstance(above, ast.stmt):
        above = parents.get(above)
    if isinstance(above, ast.If):
        return not above.orelse and all(map(_tells, above.body))
    return isinstance(above, ast.Expr) and _tells(above)


def _tells(statement: ast.stmt) -> bool:
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    match statement.value.func:
        case ast.Name(id="print"):
            return True
        case ast.Attribute(value=logger, attr=attribute):
            return attribute in _MESSAGES and "log" in ast.unparse(logger).lower()
        case _:
            return False


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
