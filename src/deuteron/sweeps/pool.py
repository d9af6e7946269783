"""Runs work in this process, or on the workers of a Dask scheduler.

Work is a list of tasks; a task that needs another's result names it. A task is a function of a module that every worker
has, with arguments that can be pickled. Campaigns of tests and fuzzers use the same pools.
"""

import logging
import os
import subprocess
import sys
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from deuteron.errors import InputError, OptionError
from deuteron.extras import require
from deuteron.sweeps.lowering import fingerprint

TIMEOUT = 10
"""Seconds within which a scheduler must answer and have a worker."""

STARTING = 120
"""Seconds within which workers of this computer, which may be busy, must have started."""

WINDOW = 1000
"""Maximum number of submitted tasks, besides those that others need."""

AGAIN = "give the command again to go on"


@dataclass(frozen=True, slots=True)
class Task:
    """A call of `function`, whose first argument is the result of the task `after`, if there is one.

    `key` identifies the task: tasks of equal key are one. `title` describes the work.
    """

    key: str
    function: Callable[..., object]
    arguments: tuple[object, ...]
    title: str = ""
    after: "Task | None" = None


class Pool(ABC):
    """Runs tasks.

    Attributes:
        workers: description of the workers.
    """

    workers: str = "in this process"

    @abstractmethod
    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, object]]:
        """Yield each task with its result, in the order of completion; tasks that only others need are left out."""


class LocalPool(Pool):
    """Runs everything in this process, one after the other."""

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, object]]:
        """Yield each task with its result."""
        done: dict[str, object] = {}
        for task in tasks:
            yield task, _run(task, done)


def _run(task: Task, done: dict[str, object]) -> object:
    if task.key not in done:
        needed = () if task.after is None else (_run(task.after, done),)
        done[task.key] = task.function(*needed, *task.arguments)
    return done[task.key] if task.after is None else done.pop(task.key)


class Cluster(Pool):
    """Runs tasks on the workers of a Dask client, which may be shared."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._token = uuid.uuid4().hex  # a scheduler merges tasks of equal key from all clients
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        self.workers = f"on {count} worker{'' if count == 1 else 's'}"

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, object]]:
        """Yield each task with its result.

        Raises:
            InputError: a task repeatedly kills its worker, or the connection to the scheduler is lost.
        """
        distributed = import_module("distributed")
        address, closed = self._client.scheduler.address, distributed.comm.core.CommClosedError
        needed: dict[str, Any] = {}
        futures: dict[Any, Task] = {}
        try:
            for task in tasks:
                if task.after is not None and task.after.key not in needed:
                    needed[task.after.key] = self._submit(task.after)
            waiting, ended = iter(tasks), distributed.as_completed()
            self._submit_next(waiting, WINDOW, needed, futures, ended)
            for future in ended:
                task = futures.pop(future)
                try:
                    result = future.result()
                except distributed.KilledWorker as e:
                    raise InputError(
                        f"{task.title} killed its worker {e.allowed_failures + 1} times",
                        hint=f"there may be too little memory: use fewer workers, and {AGAIN}",
                    ) from e
                future.release()
                yield task, result
                self._submit_next(waiting, 1, needed, futures, ended)
        except (closed, CancelledError) as e:
            raise InputError(f"the scheduler at `{address}` does not answer any more", hint=AGAIN) from e
        finally:
            if self._client.status == "running":
                with suppress(closed):
                    self._client.cancel([*futures, *needed.values()])

    def _submit_next(
        self, waiting: Iterator[Task], count: int, needed: dict[str, Any], futures: dict[Any, Task], ended: Any
    ) -> None:
        for task in islice(waiting, count):
            future = self._submit(task, *([needed[task.after.key]] if task.after is not None else []))
            futures[future] = task
            ended.add(future)

    def _submit(self, task: Task, *needed: object) -> Any:
        key = f"{self._token}-{task.key}"
        return self._client.submit(task.function, *needed, *task.arguments, key=key, pure=True)


@contextmanager
def pool(scheduler: str | None, workers: int | None, shared: Sequence[Path]) -> Generator[Pool]:
    """Yield a pool for the length of a context.

    Args:
        scheduler: the address of a Dask scheduler; None for workers of this computer.
        workers: number of workers of this computer; None for one per core, 1 for this process.
        shared: directories that all workers must have.

    Raises:
        MissingToolError: Dask is not installed.
        OptionError: the scheduler does not answer, has no worker, or has an unusable one.
    """
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if count < 1:
        raise OptionError(f"`--workers` is {count}, it must be above 0")
    if scheduler is None and count == 1:
        yield LocalPool()
        return
    require("cluster", "distributed", "`--scheduler`" if scheduler else "more than one worker")
    distributed = import_module("distributed")
    with _silent("distributed", "distributed.client"):
        if scheduler is not None:
            with _client(distributed, scheduler) as client:
                _check_workers(client, scheduler, shared)
                yield Cluster(client)
            return
        nowhere = {"dashboard_address": "127.0.0.1:0", "scheduler_kwargs": {"dashboard": False}}
        with (
            distributed.LocalCluster(n_workers=0, silence_logs=logging.CRITICAL, **nowhere) as cluster,
            distributed.Client(cluster) as client,
            _workers(client, cluster.scheduler_address, count),
        ):
            yield Cluster(client)


@contextmanager
def _silent(*names: str) -> Generator[None]:
    """Silence Dask's messages about workers that come and go, and restore its loggers afterwards."""
    before = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in before:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


@contextmanager
def _workers(client: Any, address: str, count: int) -> Generator[None]:
    """Start workers of this computer for the length of a context.

    They are separate programs: they run nothing of the calling script, and Ctrl-C does not reach them.
    """
    with tempfile.TemporaryDirectory(prefix="deuteron-workers-", ignore_cleanup_errors=True) as scratch:
        options = ["--nthreads", "1", "--nworkers", str(count), "--no-dashboard", "--local-directory", scratch]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dask", "worker", address, *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            limit = time.monotonic() + STARTING
            while len(client.scheduler_info(n_workers=-1)["workers"]) < count:
                if process.poll() is not None or time.monotonic() > limit:
                    raise InputError(
                        f"{count} workers of this computer did not start",
                        hint="`--workers 1` needs none; check that `dask worker --help` runs in this environment",
                    )
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.wait()


@contextmanager
def _client(distributed: Any, scheduler: str) -> Generator[Any]:
    try:
        client = distributed.Client(scheduler, timeout=TIMEOUT)
    except (OSError, ValueError) as e:
        raise OptionError(
            f"no Dask scheduler answers at `{scheduler}`",
            hint="start one with `dask scheduler`, or leave out `--scheduler` to use this computer",
        ) from e
    with client:
        yield client


def _check_workers(client: Any, scheduler: str, shared: Sequence[Path]) -> None:
    """Check that a scheduler has workers, and that each has this Deuteron and the directories."""
    try:
        client.wait_for_workers(1, timeout=TIMEOUT)
    except TimeoutError as e:
        raise OptionError(
            f"the scheduler at `{scheduler}` has no workers", hint=f"start some with `dask worker {scheduler}`"
        ) from e
    hint = "install the same versions of Deuteron and its dependencies on all workers"
    try:
        answers: dict[str, tuple[str, list[str]]] = client.run(about, [str(path) for path in shared])
    except ImportError as e:
        raise OptionError(f"a worker of `{scheduler}` has no Deuteron: {e}", hint=hint) from e
    for worker, (theirs, missing) in answers.items():
        if theirs != fingerprint():
            raise OptionError(f"worker `{worker}` has Deuteron {theirs}, this is {fingerprint()}", hint=hint)
        if missing:
            raise OptionError(
                f"worker `{worker}` has no directory `{missing[0]}`",
                hint="put the files where all workers have them under the same path",
            )


def about(paths: Sequence[str]) -> tuple[str, list[str]]:
    """Return a worker's Deuteron, and the directories that it lacks."""
    return fingerprint(), [path for path in paths if not Path(path).is_dir()]
