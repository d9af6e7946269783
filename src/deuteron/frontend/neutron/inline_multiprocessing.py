"""What ExecuTorch's NXP backend uses of `multiprocessing`, without another process.

It gives the vendor's converter a process of its own, since that may end the one that it runs in, and starts another
for the answer. Deuteron's raises exceptions, and two copies of a process with PyTorch in it take longer than most
conversions.
"""

import logging
from collections.abc import Callable
from queue import SimpleQueue


class Manager:
    """Makes queues."""

    @staticmethod
    def Queue() -> SimpleQueue[object]:  # noqa: N802 - as it is called there
        """A queue for what a process says."""
        return SimpleQueue()


class Process:
    """A call that is made when the process is started.

    Attributes:
        exitcode: 0 once the call has returned, 1 if it has raised.
    """

    def __init__(self, target: Callable[..., object], args: tuple[object, ...]) -> None:
        self._target = target
        self._args = args
        self.exitcode: int | None = None

    def start(self) -> None:
        """Make the call; what it raises is told by the session (`deuteron.npu.neutron.sdk.Session`)."""
        try:
            self._target(*self._args)
        except Exception:  # noqa: BLE001 - the end of a process says no more of it either
            self.exitcode = 1
        else:
            self.exitcode = 0

    def join(self) -> None:
        """Return at once: the call is over."""

    def close(self) -> None:
        """Leave the process, which has nothing to close."""


def log_to_stderr() -> logging.Logger:
    """The logger of these processes."""
    return logging.getLogger(__name__)
