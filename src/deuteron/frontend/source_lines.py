"""Finds the source line and the submodule that a node of an exported graph came from."""

import traceback
from collections.abc import Mapping
from typing import Any, cast

from torch import fx

from deuteron.builds.manifest import Source
from deuteron.builds.user_frames import last_user_line
from deuteron.errors import UnsupportedError


def source_of(node: fx.Node) -> Source | None:
    """The innermost line outside of PyTorch and ExecuTorch that made this node; None if there is none.

    For a model that is itself a module of PyTorch, the submodule is the source.
    """
    return source_in(node.meta)


def source_in(meta: Mapping[str, Any]) -> Source | None:
    """The same for the metadata of a node."""
    trace = meta.get("stack_trace")
    user_line = last_user_line(trace) if isinstance(trace, str) else None
    stack = [*cast("dict[str, tuple[str, object]]", meta.get("nn_module_stack") or {}).values()]
    path, kind = stack[-1] if stack else ("", "")
    if user_line:
        file, line, code = user_line
        return Source(file, line, code, path)
    return Source("", 0, _class(kind), path) if stack and _qualified(stack[0][1]).startswith("torch.nn.") else None


def _qualified(kind: object) -> str:
    """The full name of a class in a stack of modules, which contains classes or their names."""
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)


def _class(kind: object) -> str:
    return _qualified(kind).rpartition(".")[2]


def user_line_of(error: BaseException) -> tuple[str, int, str] | None:
    """File, line and code of the user's line that raised an exception."""
    return last_user_line("".join(traceback.format_tb(error.__traceback__)))


def first_line(error: BaseException) -> str:
    """The first line of an exception's text and the lines after its colons; the type if there is no text."""
    lines = [line.strip().removeprefix("- ") for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    last = next((i for i, line in enumerate(lines) if not line.endswith(":")), 0)
    return " ".join(lines[: last + 1])


def not_lowered(backend: str, error: Exception) -> UnsupportedError:
    """The error for a model that a backend failed to lower: the innermost cause, with the model's line if known."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    user_line = last_user_line(str(cause))
    where, at = (f"{user_line[0]}:{user_line[1]}", f", at `{user_line[2]}`") if user_line else (None, "")
    return UnsupportedError(
        f"{backend} cannot lower this model: {type(cause).__name__}: {first_line(cause)}{at}",
        where=where,
        hint="run again with `-v` to see its log",
    )
