"""Work in separate processes: a crash or a hang is one more result."""

import multiprocessing
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Generic, ParamSpec, Self, TypeVar

from tests.differential.check import Checked, Kind

P = ParamSpec("P")
T = TypeVar("T")
SECONDS = 60.0


class Worker(Generic[T]):
    """One process that computes `work(item)` for one item after the other, and is started again when it dies.

    Args:
        work: a function of a module; it may crash and hang.
        seconds: what takes longer hangs.
    """

    def __init__(self, work: Callable[[T], Checked], seconds: float = SECONDS) -> None:
        self._work = work
        self._seconds = seconds
        self._began = 0.0
        self._start()

    def begin(self, item: T) -> None:
        """Start; the result is to be asked for with `poll`."""
        self.item = item
        self._began = time.monotonic()
        self._connection.send(item)

    def poll(self) -> Checked | None:
        """The result, None as long as there is none; `wait_any` says when to ask."""
        if self._connection.poll():
            try:
                result: object = self._connection.recv()
                assert isinstance(result, Checked)
                return result
            except EOFError:
                self._process.join()
        if self._process.is_alive() and time.monotonic() - self._began < self._seconds:
            return None
        hangs = self._process.is_alive()
        self.close()
        code = self._process.exitcode or 0
        reason = f"no end after {self._seconds:g} s" if hangs else _ending(code)
        self._start()
        checked = Checked()
        checked.fail(Kind.CRASH, reason)
        return checked

    def run(self, item: T) -> Checked:
        """The result for one item."""
        self.begin(item)
        while True:
            if (result := self.poll()) is not None:
                return result
            wait_any([self])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def waits_for(self) -> tuple[Connection, int]:
        """Return the handle that becomes ready when `poll` has a result or the process has ended."""
        return self._connection, self._process.sentinel

    def _start(self) -> None:
        # Forks of a process that has imported what takes long: crashes cost little, of which shrinking one makes many.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["__main__", "tests.differential.check", "ai_edge_litert.interpreter"])
        self._connection, far = context.Pipe()
        self._process = context.Process(target=_serve, args=(far, self._work), daemon=True)
        self._process.start()
        far.close()


def wait_any(workers: list[Worker[T]], seconds: float = 1.0) -> None:
    """Return when one of the workers has something to say, or after `seconds`."""
    wait([ready for worker in workers for ready in worker.waits_for], seconds)


def _serve(connection: Connection, work: Callable[[T], Checked]) -> None:
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        connection.send(work(item))


def _ending(code: int) -> str:
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"the process ended with {name}"
