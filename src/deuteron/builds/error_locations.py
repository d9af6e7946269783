"""Errors of the compiler, which name TFLite operators as `op N`, with the lines of the user's model."""

import re
from collections.abc import Callable
from copy import copy

from deuteron.builds.manifest import Source
from deuteron.errors import DeuteronError

_OPERATOR_INDEX = re.compile(r"\bop (\d+)\b")


def with_lines(failure: DeuteronError, source_of: Callable[[int], Source | None]) -> DeuteronError:
    """The error, its place and each line of its message preceded by the line of the model of the operator in it.

    One operator is named as the place; of several each has a line of the message.
    """

    def placed(line: str) -> str:
        match = _OPERATOR_INDEX.search(line)
        source = source_of(int(match[1])) if match else None
        if source is None:
            return line
        text = line.lstrip()
        return f"{line[: len(line) - len(text)]}{source}: `{source.code}`: {text}"

    first, *others = failure.message.split("\n")
    message = "\n".join((first if failure.where else placed(first), *map(placed, others)))
    where = placed(failure.where) if failure.where else None
    again = copy(failure)
    again.message, again.where = message, where
    return again
