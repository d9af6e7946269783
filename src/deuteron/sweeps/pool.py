"""Where work is done: in this process, or by the workers of a Dask scheduler, here or elsewhere.

Work is a list of tasks; those that need another's result name it. A task is a function of a module that every worker
has, on arguments that can be sent. Campaigns of tests and fuzzers run on the same pools.
"""

import logging
import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from deuteron.errors import InputError, OptionError
from deuteron.extras import require
from deuteron.sweeps.work import fingerprint

TIMEOUT = 10
"""Seconds in which a scheduler must answer and have a worker."""


@dataclass(frozen=True, slots=True)
class Task:
    """A call of `function`, whose first argument is the result of the task `after` where there is one.

    `key` tells tasks apart: two of one key are one.
    """

    key: str
    function: Callable[..., object]
    arguments: tuple[object, ...]
    after: "Task | None" = None


class Pool(ABC):
    """What runs tasks.

    Attributes:
        workers: in words, for people.
    """

    workers: str = "in this process"

    @abstractmethod
    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, object]]:
        """Each task with its result, as they end; a task that others only need is not among them."""


class Here(Pool):
    """Runs everything in this process, one after the other."""

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, object]]:
        """Each task with its result."""
        done: dict[str, object] = {}
        for task in tasks:
            yield task, _run(task, done)


def _run(task: Task, done: dict[str, object]) -> object:
    if task.key not in done:
        needed = () if task.after is None else (_run(task.after, done),)
        done[task.key] = task.function(*needed, *task.arguments)
    return done[task.key] if task.after is None else done.pop(task.key)


class Cluster(Pool):
    """Runs tasks on the workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        count = len(client.scheduler_info(n_workers=-1)["workers"])
        self.workers = f"on {count} worker{'' if count == 1 else 's'}"

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, object]]:
        """Each task with its result; InputError where one takes its workers with it, time after time."""
        distributed = import_module("distributed")
        needed = {task.after.key: self._submit(task.after) for task in tasks if task.after is not None}
        futures = {
            self._submit(task, *([needed[task.after.key]] if task.after is not None else [])): task for task in tasks
        }
        try:
            for future in distributed.as_completed(list(futures)):
                try:
                    yield futures[future], future.result()
                except distributed.KilledWorker as e:
                    raise InputError(
                        f"`{futures[future].key}` has ended its worker {e.allowed_failures + 1} times",
                        hint="there may be too little memory: start fewer workers, and give the command again to go on",
                    ) from e
                future.release()
        finally:
            self._client.cancel([*futures, *needed.values()], force=True)

    def _submit(self, task: Task, *needed: object) -> Any:
        return self._client.submit(task.function, *needed, *task.arguments, key=task.key, pure=True)


@contextmanager
def pool(scheduler: str | None, workers: int | None, shared: Sequence[Path]) -> Generator[Pool]:
    """A pool for the length of a context.

    Args:
        scheduler: the address of a Dask scheduler; None for workers of this computer.
        workers: their number there; None for one per core, 1 for this process.
        shared: directories that all workers must have.

    Raises:
        MissingToolError: Dask is not installed.
        OptionError: the scheduler does not answer, has no worker, or one that cannot be used.
    """
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if count < 1:
        raise OptionError(f"`--workers` is {count}, it must be above 0")
    if scheduler is None and count == 1:
        yield Here()
        return
    require("cluster", "distributed", "`--scheduler`" if scheduler else "more than one worker")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    distributed = import_module("distributed")
    if scheduler is not None:
        with _client(distributed, scheduler) as client:
            _check_workers(client, scheduler, shared)
            yield Cluster(client)
        return
    options = {"threads_per_worker": 1, "dashboard_address": None, "silence_logs": logging.CRITICAL}
    with _without_interrupts():
        cluster = distributed.LocalCluster(n_workers=count, processes=True, **options)
    with cluster, distributed.Client(cluster) as client:
        yield Cluster(client)


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
    """Check that a scheduler has workers, and each of them this Deuteron and the directories."""
    try:
        client.wait_for_workers(1, timeout=TIMEOUT)
    except TimeoutError as e:
        raise OptionError(
            f"the scheduler at `{scheduler}` has no workers", hint=f"start some with `dask worker {scheduler}`"
        ) from e
    hint = "install the same Deuteron where the workers run"
    try:
        told: dict[str, tuple[str, list[str]]] = client.run(about, [str(path) for path in shared])
    except ImportError as e:
        raise OptionError(f"a worker of `{scheduler}` has no Deuteron: {e}", hint=hint) from e
    for worker, (theirs, missing) in told.items():
        if theirs != fingerprint():
            raise OptionError(f"worker `{worker}` has Deuteron {theirs}, this is {fingerprint()}", hint=hint)
        if missing:
            raise OptionError(
                f"worker `{worker}` has no directory `{missing[0]}`",
                hint="put the sweep and its models where all workers have them under the same path",
            )


def about(paths: Sequence[str]) -> tuple[str, list[str]]:
    """Which Deuteron a worker has, and which of some directories it has not."""
    return fingerprint(), [path for path in paths if not Path(path).is_dir()]


@contextmanager
def _without_interrupts() -> Generator[None]:
    """Processes that are started meanwhile leave Ctrl-C to this one, which ends them."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
