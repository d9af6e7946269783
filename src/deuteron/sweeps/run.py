"""A sweep from its points to its dataset."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import cast

from deuteron.sweeps import dataset, work
from deuteron.sweeps.pool import Pool, Task, pool
from deuteron.sweeps.spec import PLAN_AXES, Point, Spec
from deuteron.sweeps.work import BuildJob, Row


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is.

    Attributes:
        done: points that are written.
        kept: of these, those that were there before.
        total: all points.
        seconds: since it began.
        workers: who works, in words.
    """

    done: int
    kept: int
    total: int
    seconds: float
    workers: str

    def __str__(self) -> str:
        fresh = self.done - self.kept
        if not fresh or self.done == self.total:
            return self.workers
        rate = fresh / self.seconds
        return f"{rate:,.1f} points per second {self.workers}, {(self.total - self.done) / rate:,.0f} s left"


@dataclass(frozen=True, slots=True)
class Swept:
    """What a run of a sweep has written.

    Attributes:
        directory: where.
        points: of the sweep.
        kept: of these, those that were there before.
        refused: those that cannot be.
    """

    directory: Path
    points: int
    kept: int
    refused: int


def sweep(
    spec: Spec,
    directory: Path,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Callable[[SweepProgress], None] = lambda _: None,
) -> Swept:
    """Evaluate all points that the directory does not have yet, and write them there; errors as of `opened` and `pool`.

    Args:
        spec: what it is over.
        directory: made if it is not there.
        scheduler: see `pool`.
        workers: see `pool`.
        progress: is called at the begin, and for each shard that is written.
    """
    directory = directory.absolute()
    points = spec.points()
    with dataset.opened(directory, spec, work.fingerprint()):
        shards = _shards(spec, directory, points)
        there = dataset.written(directory)
        left = [shard for shard in shards if shard.name not in there]
        kept = len(points) - sum(len(shard.points) for shard in left)
        if left:
            with pool(scheduler, workers, (directory, spec.folder)) as workers_of:
                _evaluate(workers_of, left, directory, kept, len(points), progress)
        refused = sum(not row["fits"] for row in dataset.rows(directory))
    return Swept(directory, len(points), kept, refused)


@dataclass(frozen=True, slots=True)
class Shard:
    """Points that share a build and what it is planned for, and the name of the file that they are written to."""

    name: str
    job: BuildJob
    points: tuple[Point, ...]


def _shards(spec: Spec, directory: Path, points: Sequence[Point]) -> list[Shard]:
    """The points in shards; each is computed by one task."""
    jobs: dict[tuple[object, ...], BuildJob] = {}
    shards: list[Shard] = []

    def lowered(point: Point) -> tuple[object, ...]:
        return point.model, point.target, *(getattr(point, axis) for axis in work.BUILD_AXES)

    def planned(point: Point) -> tuple[object, ...]:
        return (*lowered(point), *(getattr(point, axis) for axis in PLAN_AXES))

    for _, group in groupby(points, planned):
        together = tuple(group)
        key = lowered(together[0])
        if key not in jobs:
            jobs[key] = work.job_of(together[0], directory, spec.folder, spec.evaluate)
        shards.append(Shard(dataset.shard_name(together, jobs[key].key), jobs[key], together))
    return shards


def _evaluate(
    workers: Pool,
    shards: Sequence[Shard],
    directory: Path,
    kept: int,
    total: int,
    progress: Callable[[SweepProgress], None],
) -> None:
    """Run what is left, and write each shard when its rows are there."""
    begun, done = time.monotonic(), kept
    progress(SweepProgress(done, kept, total, 0.0, workers.workers))
    tasks = [
        Task(shard.name, work.evaluate, (shard.points,), Task(f"lower-{shard.job.key}", work.make, (shard.job,)))
        for shard in shards
    ]
    for task, rows in workers.results(tasks):
        written = cast("list[Row]", rows)
        dataset.append(directory, task.key, written)
        done += len(written)
        progress(SweepProgress(done, kept, total, time.monotonic() - begun, workers.workers))
