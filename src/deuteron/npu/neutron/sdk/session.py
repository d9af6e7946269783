"""What outlives one run of the converter: its failures, across the process that ExecuTorch runs it in."""

import os
import pickle
import tempfile
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

from deuteron.arch.memory import MemoryOptions
from deuteron.errors import DeuteronError, InternalError

VARIABLE = "DEUTERON_CONVERTER_SESSION"
"""The environment variable that has the directory of the session of a command and all that it starts."""


@cache
def _own() -> "tempfile.TemporaryDirectory[str]":
    """A directory that is gone when this process ends."""
    return tempfile.TemporaryDirectory(prefix="deuteron-session-")


@dataclass(frozen=True, slots=True)
class Session:
    """A directory, private to the caller, in which the converter leaves the error that ended it.

    The backend may run the converter in a forked process and learns only its exit code; the parent asks the session.
    """

    directory: Path
    verify_each: bool = False
    """Whether the compiler checks the graph after every pass; the vendor's options have no field for it."""
    memory: MemoryOptions | None = None
    """How the program may use memory; None for what the vendor's one option of it means."""

    @classmethod
    def of_environment(cls) -> Self:
        """The session of the command that this process is a part of, or of this process where there is none."""
        return cls(Path(os.environ.get(VARIABLE) or _own().name))

    @property
    def _failure(self) -> Path:
        return self.directory / "failure.pickle"

    def record(self, error: Exception) -> None:
        """Leaves the error for `raise_failure`; one that is not ours becomes an InternalError with its traceback."""
        if not isinstance(error, DeuteronError):
            text = "".join(traceback.format_exception(error)).rstrip()
            error = InternalError(f"the converter failed: {text}", hint="report it with this text and the TFLite file")
        self._failure.write_bytes(pickle.dumps(error))

    def failure(self) -> DeuteronError | None:
        """The error that the converter left, once; None when it left none."""
        if not self._failure.exists():
            return None
        error: object = pickle.loads(self._failure.read_bytes())  # noqa: S301 - written by `record`
        self._failure.unlink()
        return error if isinstance(error, DeuteronError) else None

    def raise_failure(self) -> None:
        """Raises that error; nothing when there is none."""
        if error := self.failure():
            raise error
