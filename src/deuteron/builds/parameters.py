"""Models with parameters: `file.py:function(width=0.5, resolution=96)`."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import cast

from deuteron.errors import OptionError

_CALL = re.compile(r"(.+\.py:\w+)(\(.*\))", re.DOTALL)


def parse(model: str) -> tuple[str, Mapping[str, object]]:
    """Split a model's name from its parameters; a name without parameters is returned unchanged.

    Raises:
        OptionError: the parameters are not names with plain values.
    """
    match = _CALL.fullmatch(model.strip())
    if match is None:
        return model, {}
    try:
        call = ast.parse(f"_{match[2]}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            raise ValueError
        values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
        if len(values) < len(call.keywords):
            raise ValueError
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as e:  # of keys, and of deep nesting
        raise OptionError(
            f"the parameters of `{model}` are not of the form `name=value, ...`",
            hint="values are numbers, texts in quotes, tuples, True, False or None",
        ) from e
    return match[1], values


def named(function: str, values: Mapping[str, object]) -> str:
    """Return the name of a model with these parameters."""
    listed = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"{function}({listed})" if values else function


def choices(model: str) -> tuple[str, Mapping[str, Sequence[object]]]:
    """Split a model's name from the list of values of each parameter.

    Raises:
        OptionError: as `parse`, or a list is empty.
    """
    function, values = parse(model)
    offered = {
        name: cast("list[object]", value) if isinstance(value, list) else [value] for name, value in values.items()
    }
    for name, value in offered.items():
        if not value:
            raise OptionError(f"`{name}` of `{model}` has no values", hint="give at least one, or leave it out")
    return function, offered


def every(model: str) -> Iterator[str]:
    """Yield the names of all models for a name with lists of values."""
    function, offered = choices(model)
    for values in product(*offered.values()):
        yield named(function, dict(zip(offered, values, strict=True)))
