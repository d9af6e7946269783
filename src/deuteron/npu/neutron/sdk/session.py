"""Session of a conversion: passes failures of the converter from a child process of ExecuTorch to its parent."""

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
"""Environment variable with the session directory of a command and its child processes."""


@cache
def _own() -> "tempfile.TemporaryDirectory[str]":
    """Return a directory that is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="deuteron-session-")


@dataclass(frozen=True, slots=True)
class Session:
    """A private directory to which the converter writes its error.

    The backend may run the converter in a forked process and only gets its exit code; the parent reads the session.
    """

    directory: Path
    verify_each: bool = False
    """True if the compiler checks the graph after every pass; the vendor's options have no field for it."""
    memory: MemoryOptions | None = None
    """Memory options; None to use the vendor's single option."""

    @classmethod
    def of_environment(cls) -> Self:
        """Return the session of the command that this process belongs to, or a new one."""
        return cls(Path(os.environ.get(VARIABLE) or _own().name))

    @property
    def _failure(self) -> Path:
        return self.directory / "failure.pickle"

    def record(self, error: Exception) -> None:
        """Store the error for `raise_failure`; other exceptions become an InternalError with their traceback."""
        if not isinstance(error, DeuteronError):
            text = "".join(traceback.format_exception(error)).rstrip()
            error = InternalError(f"the converter failed: {text}", hint="report it with this text and the TFLite file")
        self._failure.write_bytes(pickle.dumps(error))

    def failure(self) -> DeuteronError | None:
        """Return the stored error once; None if there is none."""
        if not self._failure.exists():
            return None
        error: object = pickle.loads(self._failure.read_bytes())  # noqa: S301 - written by `record`
        self._failure.unlink()
        return error if isinstance(error, DeuteronError) else None

    def raise_failure(self) -> None:
        """Raise the stored error, if any."""
        if error := self.failure():
            raise error
