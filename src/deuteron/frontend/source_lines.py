"""Where a node of an exported graph came from: the line of the user's model and the submodule it runs in."""

import traceback
from typing import cast

from torch import fx

from deuteron.builds.manifest import Source
from deuteron.builds.traces import last_user_line
from deuteron.errors import UnsupportedError


def source_of(node: fx.Node) -> Source | None:
    """The innermost line outside PyTorch and ExecuTorch that made this node, if it has one."""
    trace = node.meta.get("stack_trace")
    user_line = last_user_line(trace) if isinstance(trace, str) else None
    if user_line is None:
        return None
    file, line, code = user_line
    return Source(file, line, code, _module_path(node))


def user_line_of(error: BaseException) -> tuple[str, int, str] | None:
    """(file, line, code) of the user's line at which an exception arose."""
    return last_user_line("".join(traceback.format_tb(error.__traceback__)))


def first_line(error: BaseException) -> str:
    """The first line of an exception's text, or its type where it has none."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip() if text else type(error).__name__


def not_lowered(backend: str, error: Exception) -> UnsupportedError:
    """The error for a model at which a backend failed: the innermost cause, and the model's line where that has it."""
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


def _module_path(node: fx.Node) -> str:
    """Dotted path of the innermost submodule, empty for the model itself."""
    stack = cast("dict[str, tuple[str, object]]", node.meta.get("nn_module_stack") or {})
    return [path for path, _ in stack.values()][-1] if stack else ""
