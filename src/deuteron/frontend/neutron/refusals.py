"""Why ExecuTorch's NXP backend leaves a node on the CPU: asked of its partitioner, in its own words.

The partitioner's checks answer yes or no and give no reason. A check that says no is therefore run once more while
Python reports every function that returns: the condition at which it turned the node down is read from the backend's
own source, with the comment or docstring that stands there and the values that were compared. There is no list of
conditions here, and what the backend does not say is not guessed.
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
"""The folder of the backend's modules with one operator each; checks elsewhere are named by what they check."""

_PLAIN = (bool, int, float, str, torch.dtype, torch.memory_format, type(None))
_MOST_ITEMS = 8
_MISSING = object()


@dataclass(slots=True)
class _Return:
    """One function that has returned: where, what, its variables then, and those that it had called."""

    code: CodeType
    line: int = 0
    value: object = None
    variables: Mapping[str, object] = field(default_factory=dict[str, object])
    called: list["_Return"] = field(default_factory=list["_Return"])


def refusal(check: Callable[..., object], *args: object) -> str:
    """The condition at which a check of the backend answers False, as a sentence; empty when it does not."""
    with _observed() as calls:
        passed = check(*args)
    return "" if passed else _sentence(_innermost(calls[0]) if calls else None)


@contextmanager
def _observed() -> Generator[list[_Return]]:
    """The functions that are called, in order, each with those that it calls."""
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
    """The condition at which a function gave its answer.

    Attributes:
        call: the function's.
        condition: what was false, or true of a node that is turned down.
        note: the comment above it.
        asked: the call in it that answered False, if one did.
    """

    call: _Return
    condition: ast.expr
    note: str
    asked: _Return | None


def _innermost(call: _Return) -> _Guard | None:
    """The last condition on the way to an answer: of the checks for one operator, or the first that names another."""
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
    """The condition of the `return` at which a function ended; None where its source cannot be had."""
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
    """Each `return` in a syntax tree, and the condition of the innermost `if` around it."""
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
    """The comment above a condition, or else the one between it and the answer."""
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
    """The first sentence of a function's documentation."""
    text = next((text for text in code.co_consts[:1] if isinstance(text, str)), "")
    return " ".join(text.split(":param")[0].split()).partition(". ")[0]


def _values(guard: _Guard) -> Iterator[tuple[str, str]]:
    """The plain values of the variables that a condition mentions, by their names."""
    named = [node for node in ast.walk(guard.condition) if isinstance(node, ast.Name | ast.Attribute)]
    for name in dict.fromkeys(ast.unparse(node) for node in named):
        first, *attributes = name.split(".")
        value: object = guard.call.variables.get(first, _MISSING)
        for attribute in attributes:
            value = getattr(value, attribute, _MISSING)
        if _is_plain(value):
            yield name, str(list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else value)


def _is_plain(value: object) -> bool:
    """True for what a reader can take in: numbers, types, and short rows of them."""
    if isinstance(value, list | tuple):
        items = cast("Sequence[object]", value)
        return len(items) <= _MOST_ITEMS and all(isinstance(item, _PLAIN) for item in items)
    return isinstance(value, _PLAIN)
