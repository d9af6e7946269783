"""Finds out why ExecuTorch's NXP backend leaves a node to the CPU.

The partitioner's checks return a bool without a reason. A check that fails runs again under a profiler, which reports
every return. The failed condition is then read from the backend's source, with its comment or docstring and the
compared values. This file has no list of conditions and makes no guesses.
"""

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import cast

import torch

BACKEND = "ExecuTorch's NXP backend"
_CONVERTERS = "ops_converters"
"""The folder of the backend's converters; checks in other folders are identified by name."""

_PLAIN = (bool, int, float, str, torch.dtype, torch.memory_format, type(None))
_MOST_ITEMS = 8
_MISSING = object()


@dataclass(slots=True)
class _Return:
    """The return of a function: its line, value, variables, and the calls that it made."""

    code: CodeType
    line: int = 0
    value: object = None
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    called: list["_Return"] = field(default_factory=list["_Return"])


def refusal(check: Callable[..., object], *args: object) -> str:
    """Describe the condition at which a check of the backend returns False, as a sentence; empty if it passes."""
    with _observed() as calls:
        passed = check(*args)
    return "" if passed else _sentence(_innermost(calls[0]) if calls else None)


@contextmanager
def _observed() -> Generator[list[_Return]]:
    """Collect the calls in this context in order, each with the calls that it makes."""
    outermost: list[_Return] = []
    open_: list[_Return] = []

    def event(frame: FrameType, kind: str, value: object) -> None:
        if kind == "call":
            open_.append(_Return(frame.f_code))
        elif kind == "return" and open_ and open_[-1].code is frame.f_code:
            call = open_.pop()
            call.line, call.value, call.variables = frame.f_lineno, value, dict(frame.f_locals)
            (open_[-1].called if open_ else outermost).append(call)

    before = sys.getprofile()
    sys.setprofile(event)
    try:
        yield outermost
    finally:
        sys.setprofile(before)


@dataclass(frozen=True, slots=True)
class _Guard:
    """The condition of a `return`.

    Attributes:
        call: the function's call.
        condition: the condition that was false, or true if it rejects a node.
        note: the comment above it.
        asked: the call in the condition that returned False, if there is one.
    """

    call: _Return
    condition: ast.expr
    note: str
    asked: _Return | None


def _innermost(call: _Return) -> _Guard | None:
    """The innermost deciding condition: of one operator's checks, or the first that names another check."""
    innermost: _Guard | None = None
    while (guard := _guard(call)) is not None and not isinstance(guard.condition, ast.Constant):
        innermost = guard
        if guard.asked is None or not (_is_of_operator(guard.asked.code) or guard.asked.code.co_name == "is_supported"):
            break
        call = guard.asked
    return innermost


def _is_of_operator(code: CodeType) -> bool:
    return Path(code.co_filename).parent.name == _CONVERTERS


def _guard(call: _Return) -> _Guard | None:
    """The condition of the `return` at which a function ended; None without its source."""
    try:
        lines, first = inspect.getsourcelines(call.code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError):
        return None
    line = call.line - first + 1
    for node, test in _returns(tree):
        if node.value is not None and node.lineno <= line <= (node.end_lineno or node.lineno):
            fixed = isinstance(node.value, ast.Constant) and test is not None
            whole = cast(ast.expr, test if fixed else node.value)
            parts = whole.values if isinstance(whole, ast.BoolOp) else [whole]
            refused = [inner for inner in call.called if inner.value is False and inner.code.co_name in _names(whole)]
            asked = refused[-1] if refused else None
            part = next((part for part in parts if asked and asked.code.co_name in _names(part)), whole)
            return _Guard(call, part, _comment(lines, whole.lineno - 1, node.lineno - 1), asked)
    return None


def _returns(node: ast.AST, test: ast.expr | None = None) -> Iterator[tuple[ast.Return, ast.expr | None]]:
    """Yield each `return` in a syntax tree with the condition of the innermost `if` around it."""
    if isinstance(node, ast.Return):
        yield node, test
    for child in ast.iter_child_nodes(node):
        if isinstance(node, ast.If):
            otherwise = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
            yield from _returns(child, node.test if child in node.body else otherwise)
        else:
            yield from _returns(child, test)


def _names(expression: ast.expr) -> set[str]:
    """The functions that an expression calls."""
    calls = (node.func for node in ast.walk(expression) if isinstance(node, ast.Call))
    return {f.attr if isinstance(f, ast.Attribute) else f.id for f in calls if isinstance(f, ast.Attribute | ast.Name)}


def _comment(lines: Sequence[str], condition: int, answer: int) -> str:
    """The comment above a condition, or else the one between it and the `return`."""
    above: list[str] = []
    for line in reversed(lines[:condition]):
        if not line.strip().startswith("#"):
            break
        above.insert(0, line)
    between = [line for line in lines[condition:answer] if line.strip().startswith("#")]
    words = " ".join(line.strip().lstrip("# ").strip() for line in above or between)
    return "" if words.startswith(("noinspection", "noqa")) else " ".join(words.split())


def _sentence(guard: _Guard | None) -> str:
    if guard is None:
        return f"{BACKEND} does not take it, and does not say why"
    file, asked = Path(guard.call.code.co_filename).name, guard.asked
    note = (guard.note or (_docstring(asked.code) if asked else "")).rstrip(".")
    values = ", ".join(f"{name} is {value}" for name, value in _values(guard))
    condition = f"`{ast.unparse(guard.condition)}`{f' with {values}' if values else ''} ({file}:{guard.call.line})"
    return f"{BACKEND} does not take it: {f'{note}: ' if note else ''}{condition}"


def _docstring(code: CodeType) -> str:
    """The first sentence of a function's docstring."""
    text = next((text for text in code.co_consts[:1] if isinstance(text, str)), "")
    return " ".join(text.split(":param")[0].split()).partition(". ")[0]


def _values(guard: _Guard) -> Iterator[tuple[str, str]]:
    """Yield the names and values of variables in a condition that are plain."""
    named = [node for node in ast.walk(guard.condition) if isinstance(node, ast.Name | ast.Attribute)]
    for name in dict.fromkeys(ast.unparse(node) for node in named):
        first, *attributes = name.split(".")
        value: object = guard.call.variables.get(first, _MISSING)
        for attribute in attributes:
            value = getattr(value, attribute, _MISSING)
        if _is_plain(value):
            yield name, str(list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else value)


def _is_plain(value: object) -> bool:
    """True for values that are readable in an error: numbers, types, and short sequences of them."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return len(items) <= _MOST_ITEMS and all(isinstance(item, _PLAIN) for item in items)
    return isinstance(value, _PLAIN)
