"""Replaces `multiprocessing` in ExecuTorch's NXP backend by calls in the same process.

The backend runs the vendor's converter in its own process, because that may end the process, and starts another one for
the result. Deuteron's converter raises exceptions instead. Copying a process with PyTorch takes longer than most
conversions.
"""

import logging
from collections.abc import Callable
from queue import SimpleQueue


class Manager:
    """Makes queues."""

    @staticmethod
    def Queue() -> SimpleQueue[object]:  # noqa: N802 - the name in `multiprocessing`
        """A queue for the result."""
        return SimpleQueue()


class Process:
    """A call that `start` runs.

    Attributes:
        exitcode: 0 after a return, 1 after an exception.
    """

    def __init__(self, target: Callable[..., object], args: tuple[object, ...]) -> None:
        self._target = target
        self._args = args
        self.exitcode: int | None = None

    def start(self) -> None:
        """Run the call; the session reports exceptions (`deuteron.npu.neutron.sdk.Session`)."""
        try:
            self._target(*self._args)
        except Exception:  # noqa: BLE001 - a process reports no more than its exit code
            self.exitcode = 1
        else:
            self.exitcode = 0

    def join(self) -> None:
        """Do nothing: the call has ended."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def log_to_stderr() -> logging.Logger:
    """The logger of these processes."""
    return logging.getLogger(__name__)
