"""All errors of Deuteron: one root class, with subclasses by cause."""

import errno
import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Self

_LONG_NAME = re.compile(r"(\S{28})\S{5,}(\S{29})")

_TURN = re.compile(r"/\d+(?=`)")
"""End of the name of a tensor in one turn of an unrolled loop."""

WHERE = -1
"""Key of `DeuteronError.operators` for the operator that `where` names."""


class DeuteronError(Exception):
    """Root of all Deuteron errors: what was found, where, and what to do.

    Args:
        message: what was found and what is allowed, without a full stop.
        hint: what to do about it, in the imperative.
        where: the place: a file, an operator, a tensor or a source line.
        operators: indices of the TFLite operators that lines of the message name, by line; WHERE for `where`.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        where: str | None = None,
        operators: Mapping[int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where
        self.operators = dict(operators or {})

    def relocate(self, where: str | None, message: str | None = None) -> Self:
        """Return a copy of the error with another place and, if given, another message."""
        other = copy(self)
        other.where = where
        other.message = self.message if message is None else message
        return other

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n\nhint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.where), vars(self)


def _rebuild(kind: type[DeuteronError], message: str, hint: str | None, where: str | None) -> DeuteronError:
    """Unpickle an error."""
    return kind(message, hint=hint, where=where)


class InputError(DeuteronError):
    """The user's model, data or file cannot be used as it is."""


class OptionError(DeuteronError):
    """An option or its value is not valid."""

    exit_code = 2


class UnsupportedError(DeuteronError):
    """The model needs something that is not supported."""


class MissingOperatorError(UnsupportedError):
    """Nothing on the target computes the operator, in whatever types."""


def all_refused(refused: Sequence[UnsupportedError]) -> UnsupportedError:
    """Return one error for all unsupported operators, each with its place, and with its hint if hints differ.

    Operators with the same place and reason, such as those of a loop's turns, are listed once, with their number. The
    error is a MissingOperatorError if all are.
    """
    if len(refused) == 1:
        return refused[0]
    hints = dict.fromkeys(error.hint for error in refused)
    lines = [f"{len(refused)} operators cannot be compiled:"]
    operators: dict[int, int] = {}
    for hint in hints:
        alike: dict[tuple[str | None, str, int | None], list[UnsupportedError]] = {}
        for error in (error for error in refused if error.hint == hint):
            key = error.where, _TURN.sub("", error.message), error.operators.get(WHERE)
            alike.setdefault(key, []).append(error)
        for (where, _, operator), errors in alike.items():
            place = f"{where}: " if where else ""
            if operator is not None:
                operators[len(lines)] = operator
            times = f", {len(errors)} times" if len(errors) > 1 else ""
            lines.append(f"  {place}{errors[0].message}{times}")
        if hint and len(hints) > 1:
            lines.append(f"    hint: {hint}")
    is_missing = all(isinstance(error, MissingOperatorError) for error in refused)
    kind = MissingOperatorError if is_missing else UnsupportedError
    return kind("\n".join(lines), hint=None if len(hints) > 1 else refused[0].hint, operators=operators)


class CapacityError(DeuteronError):
    """Something does not fit; the message says needed and available.

    Args:
        needed: bytes that are enough, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        where: str | None = None,
        operators: Mapping[int, int] | None = None,
        needed: int = 0,
    ) -> None:
        super().__init__(message, hint=hint, where=where, operators=operators)
        self.needed = needed


class FormatError(DeuteronError):
    """Bytes that do not follow their format: damaged, truncated or of another version."""


class BoardError(DeuteronError):
    """A board that cannot be reached, does not answer, restarts, or reports a fault."""


class VerifyError(DeuteronError):
    """A graph or program violates a rule of its representation."""

    exit_code = 2


class MissingToolError(DeuteronError):
    """A required compiler, library or program is not installed."""

    exit_code = 2


class InternalError(DeuteronError):
    """A defect of Deuteron itself."""

    exit_code = 2


_ADVICE: Mapping[int | None, str] = {
    errno.ENOENT: "check its name and its folder",
    errno.ENOTDIR: "check its name: what stands there as a folder is a file",
    errno.EISDIR: "give a file: this is a folder",
    errno.EACCES: "give the user who runs this the right to read it",
}


def absent(path: object) -> InputError:
    """Return the error for a path that does not exist."""
    return InputError(f"`{path}` does not exist", hint="check its name; paths are relative to the current directory")


def unreadable(path: object, error: OSError) -> InputError:
    """Return the error for a file that cannot be read."""
    return InputError(f"`{path}` cannot be read: {error.strerror or error}", hint=_ADVICE.get(error.errno))


def unwritable(path: object, error: OSError) -> InputError:
    """Return the error for a file or folder that cannot be written."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    hint = "make room there, or choose another place" if is_full else "choose a folder that you may write to"
    return InputError(f"`{path}` cannot be written: {error.strerror or error}", hint=hint)


def shortened(text: str) -> str:
    """Return text for tables, with the middle of long names left out: TFLite's converter joins those of operators."""
    return _LONG_NAME.sub(r"\1...\2", text)


def counted(count: int, noun: str) -> str:
    """Return a number with a noun: `1 input`, `2 inputs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
