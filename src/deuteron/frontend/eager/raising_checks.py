"""Tells which result of a check raises no error: of `assert not x.isnan().any()`, or of `if x.min() < 0: raise ...`.

A program need not compute anything for inputs on which its module raises an error.
"""

import ast
import dis
import functools
import itertools
import linecache
from types import FrameType

_MESSAGES = frozenset({"critical", "debug", "error", "info", "warn", "warning"})
"""Functions of loggers and of `warnings`."""

_Span = tuple[tuple[int, int], tuple[int, int]]
"""The line and column where code starts, and those where it ends."""


def passing(frame: FrameType) -> bool | None:
    """Return the truth value for which the check passes that a frame evaluates; None if it is at no such check."""
    at = frame.f_lasti // 2
    if "JUMP" in dis.opname[frame.f_code.co_code[frame.f_lasti]]:
        at -= 1  # a jump has the position of its statement, what is before it has that of the value
    line, end, column, end_column = next(itertools.islice(frame.f_code.co_positions(), at, None))
    if line is None or end is None or column is None or end_column is None:
        return None
    span = (line, column), (end, end_column)
    for test, value in reversed(_checks(frame.f_code.co_filename)):
        if _covers(_span(test), span):
            return _wanted(test, value, span)
    return None


def is_handled(frame: FrameType) -> bool:
    """Return True if the function of a frame may handle an error that is raised where the frame is."""
    return any(frame.f_lineno in lines for lines in _handled(frame.f_code.co_filename))


@functools.cache
def _tree(file: str) -> ast.AST:
    """Return the syntax tree of a file; an empty one without its source."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module([], [])


@functools.cache
def _checks(file: str) -> tuple[tuple[ast.expr, bool], ...]:
    """Return the conditions of the checks in a file, outer ones first, and the results for which they pass."""
    found: list[tuple[ast.expr, bool]] = []
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Assert):
            found.append((node.test, True))
        elif isinstance(node, ast.If) and not node.orelse and all(map(_raises_or_prints, node.body)):
            found.append((node.test, False))
    return tuple(found)


@functools.cache
def _handled(file: str) -> tuple[range, ...]:
    """Return the lines of a file in `try` with handlers, and in `with suppress(...)`."""
    found: list[range] = []
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.Try | ast.TryStar):
            body = node.body if node.handlers else []
        elif isinstance(node, ast.With):
            body = node.body if any("suppress" in ast.dump(item) for item in node.items) else []
        else:
            continue
        found += [range(one.lineno, (one.end_lineno or one.lineno) + 1) for one in body]
    return tuple(found)


def _raises_or_prints(statement: ast.stmt) -> bool:
    """Return True for a statement that raises an error, or calls `print`, a logger or `warnings`."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return isinstance(statement, ast.Raise)
    function = statement.value.func
    if isinstance(function, ast.Attribute):
        owner = ast.unparse(function.value).rpartition(".")[2].lower()
        return function.attr in _MESSAGES and ("log" in owner or owner == "warnings")
    return isinstance(function, ast.Name) and function.id == "print"


def _wanted(test: ast.expr, value: bool, span: _Span) -> bool | None:
    """Return the value of a part of a condition for which the condition has a value."""
    if _span(test) == span and not isinstance(test, ast.BoolOp):
        return not value if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else value
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _wanted(test.operand, not value, span)
    if isinstance(test, ast.BoolOp):
        return next((_wanted(part, value, span) for part in test.values if _covers(_span(part), span)), None)
    is_conversion = isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "bool"
    return value if is_conversion else None


def _span(node: ast.expr) -> _Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _covers(outer: _Span, inner: _Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
