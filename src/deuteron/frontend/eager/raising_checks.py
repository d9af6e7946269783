"""Finds the truth value for which a check in the user's code raises no error.

Such a check is `assert not x.isnan().any()`, or an `if` that ends in `raise`. A program need not compute anything for
inputs on which its module raises an error, unless the module handles that error.
"""

import ast
import dis
import functools
import inspect
import itertools
import linecache
from collections.abc import Iterator
from types import CodeType, FrameType

from deuteron.builds.user_frames import user_lines

_MEANT = frozenset({"StopIteration", "StopAsyncIteration", "IndexError", "KeyError", "AttributeError"})
"""Errors that Python itself handles, as at the end of an iteration."""

_Span = tuple[tuple[int, int], tuple[int, int]]
"""The line and column where code starts, and those where it ends."""


def passing(frame: FrameType) -> bool | None:
    """Return the truth value for which the check passes that a frame evaluates; None if it is at no such check."""
    tree = _tree(frame.f_code)
    at, instruction = frame.f_lasti // 2, dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if "JUMP" in instruction:
        at -= 1  # a jump has the position of its statement, what is before it has that of the value
    line, end, column, end_column = next(itertools.islice(frame.f_code.co_positions(), at, None))
    if tree is None or line is None or end is None or column is None or end_column is None:
        return None
    span = (line, column), (end, end_column)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert | ast.If) and _covers(_span(node.test), span):
            is_check = isinstance(node, ast.Assert) or _raises(node)
            found = _wanted(node.test, isinstance(node, ast.Assert), span) if is_check else None
            return found[1] if found and _is_truth(instruction, *found) else None
    return None


def may_be_handled(frame: FrameType) -> bool:
    """Return True if an error that is raised where a frame is need not end the run of the module.

    The frame is in a `try`, in a `with` of other than PyTorch's, or in a generator or special method.
    """
    code, tree = frame.f_code, _tree(frame.f_code)
    is_special = code.co_name.startswith("__") and code.co_name != "__call__"
    if tree is None or is_special or code.co_flags & inspect.CO_GENERATOR:
        return True
    return any(node.lineno <= frame.f_lineno <= (node.end_lineno or 0) for node in _guards(tree))


def may_be_handled_at(trace: str) -> bool:
    """Return True if one of the user's lines of a stack trace is in a `try`, or in a `with` of other than PyTorch's."""
    for file, line, _ in user_lines(trace):
        tree, _ = _parsed("".join(linecache.getlines(file)), file)
        if any(node.lineno <= line <= (node.end_lineno or 0) for node in _guards(tree)):
            return True
    return False


def _tree(code: CodeType) -> ast.Module | None:
    """Return the syntax tree of the file of a function; None without its source, or if that has changed since."""
    linecache.checkcache(code.co_filename)
    tree, codes = _parsed("".join(linecache.getlines(code.co_filename)), code.co_filename)
    found = codes.get((code.co_qualname, code.co_firstlineno))
    is_same = found is not None and [*found.co_positions()] == [*code.co_positions()]
    return tree if is_same and found is not None and found.co_code == code.co_code else None


@functools.lru_cache(maxsize=64)
def _parsed(text: str, file: str) -> tuple[ast.Module, dict[tuple[str, int], CodeType]]:
    """Return the syntax tree of a file, and the code of its functions by name and line."""
    try:
        tree = ast.parse(text)
        module = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return ast.Module([], []), {}
    return tree, {(code.co_qualname, code.co_firstlineno): code for code in _functions(module)}


def _functions(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _functions(constant)


def _guards(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        contexts = [ast.unparse(item.context_expr) for item in node.items] if isinstance(node, ast.With) else []
        is_other = any(not context.startswith("torch.") for context in contexts)
        if isinstance(node, ast.Try | ast.TryStar | ast.With) and (is_other or not isinstance(node, ast.With)):
            yield node


def _raises(node: ast.If) -> bool:
    """Return True for an `if` without `else` that ends in an error which nothing but a handler expects."""
    last = node.body[-1]
    if node.orelse or not isinstance(last, ast.Raise):
        return False
    error = last.exc
    name = error.func if isinstance(error, ast.Call) else error
    return name is not None and ast.unparse(name) not in _MEANT


def _wanted(test: ast.expr, value: bool, span: _Span) -> tuple[ast.expr, bool] | None:
    """Return the part of a condition at a place, and its value for which the condition has a value.

    None for a part after which a run may evaluate further ones.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _wanted(test.operand, not value, span)
    if isinstance(test, ast.BoolOp):
        part = next((one for one in test.values if _covers(_span(one), span)), None)
        is_decided_by_all = isinstance(test.op, ast.And) == value
        return _wanted(part, value, span) if part and (is_decided_by_all or part is test.values[-1]) else None
    return (test, value) if _span(test) == span else None


def _is_truth(instruction: str, test: ast.expr, value: bool) -> bool:
    """Return True if an instruction asks for the truth of a whole expression, not of a value inside it."""
    if "CALL" in instruction:
        name = test.func.id if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) else ""
        return name == "bool" or (name, value) in (("any", False), ("all", True))
    is_chain = isinstance(test, ast.Compare) and len(test.ops) > 1
    return ("JUMP" in instruction or instruction == "TO_BOOL") and not is_chain


def _span(node: ast.expr) -> _Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _covers(outer: _Span, inner: _Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
