"""Adds source lines of the user's model to errors of the compiler, which number TFLite operators."""

from collections.abc import Callable

from deuteron.builds.manifest import Source
from deuteron.errors import WHERE, DeuteronError


def with_lines(failure: DeuteronError, source_of: Callable[[int], Source | None]) -> DeuteronError:
    """Return the error with the model's line before its place, and before each line of its message with an operator."""

    def located(text: str, line: int) -> str:
        operator = failure.operators.get(line)
        source = None if operator is None else source_of(operator)
        if source is None:
            return text
        content = text.lstrip()
        return f"{text[: len(text) - len(content)]}{source}: `{source.code}`: {content}"

    message = "\n".join(located(text, line) for line, text in enumerate(failure.message.split("\n")))
    return failure.relocate(located(failure.where, WHERE) if failure.where else None, message)
