"""Runs a sweep: evaluates its points and writes its dataset."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import cast

from deuteron.errors import InputError, counted
from deuteron.sweeps import dataset, lowering, worker
from deuteron.sweeps.lowering import BuildJob
from deuteron.sweeps.pool import Pool, Task, pool
from deuteron.sweeps.spec import BUILD_AXES, PLAN_AXES, Point, Spec, lacking, without
from deuteron.sweeps.worker import Failed, Row

LARGEST = 4096
"""Maximum number of points in a shard, the unit of work that a lost worker repeats."""


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Progress of a sweep.

    Attributes:
        done: written points.
        kept: points of these that existed before.
        total: all points.
        seconds: time since the start.
        workers: description of the workers.
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
    """Result of a run of a sweep.

    Attributes:
        directory: directory of the sweep.
        points: number of points.
        kept: points that existed before.
        refused: points that cannot be built or do not fit.
        is_blind: true if a search found no fitting point with a figure for each of its goals.
    """

    directory: Path
    points: int
    kept: int
    refused: int
    is_blind: bool = False


def sweep(
    spec: Spec,
    directory: Path,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Callable[[SweepProgress], None] = lambda _: None,
) -> Swept:
    """Evaluate all points that the directory does not have yet, and write them there.

    Points of models that have changed since are removed.

    Args:
        spec: specification of the sweep.
        directory: created if it does not exist.
        scheduler: see `pool`.
        workers: see `pool`.
        progress: called at the start, and for each shard that is written.

    Raises:
        InputError: some points could not be evaluated, for a reason that may not recur.
        DeuteronError: as `opened` and `pool`.
    """
    directory = directory.absolute()
    points = spec.points()
    with dataset.opened(directory, spec, lowering.fingerprint()):
        parts = shards(spec, directory, points)
        there = dataset.keep(directory, {shard.name for shard in parts})
        left = [shard for shard in parts if shard.name not in there]
        kept = len(points) - sum(len(shard.points) for shard in left)
        if left:
            with pool(scheduler, workers, (directory, spec.folder)) as workers_of:
                evaluate(workers_of, left, directory, kept, len(points), progress)
        refused = sum(not row["fits"] for row in dataset.rows(directory))
    return Swept(directory, len(points), kept, refused)


@dataclass(frozen=True, slots=True)
class Shard:
    """Points that share a build and a plan, and the name of their file."""

    name: str
    job: BuildJob
    points: tuple[Point, ...]


def shards(spec: Spec, directory: Path, points: Sequence[Point]) -> list[Shard]:
    """Group the points into shards; one task computes each."""
    jobs: dict[tuple[object, ...], BuildJob] = {}
    parts: list[Shard] = []

    def lowered(point: Point) -> tuple[object, ...]:
        return point.model, point.target, *(getattr(point, axis) for axis in BUILD_AXES)

    def planned(point: Point) -> tuple[object, ...]:
        alike = without(point, lacking(point))
        return (*lowered(alike), *(getattr(alike, axis) for axis in PLAN_AXES))

    for _, group in groupby(points, planned):
        together = tuple(group)
        alike = without(together[0], lacking(together[0]))
        key = lowered(alike)
        if key not in jobs:
            jobs[key] = lowering.job_of(alike, directory, spec.folder, spec.evaluate, code_size=spec.code_size)
        for begin in range(0, len(together), LARGEST):
            part = together[begin : begin + LARGEST]
            parts.append(Shard(dataset.shard_name(part, jobs[key].key), jobs[key], part))
    return parts


def evaluate(
    workers: Pool,
    parts: Sequence[Shard],
    directory: Path,
    kept: int,
    total: int,
    progress: Callable[[SweepProgress], None],
) -> None:
    """Compute shards, and write each when its rows are complete.

    Args:
        workers: the pool.
        parts: shards to compute.
        directory: directory of the sweep.
        kept: points that exist.
        total: all points.
        progress: called at the start, and for each shard that is written.

    Raises:
        InputError: some points could not be evaluated; all others are written.
    """
    begun, done = time.monotonic(), kept
    progress(SweepProgress(done, kept, total, 0.0, workers.workers))
    failures: dict[tuple[str, str], list[str]] = {}
    jobs = {shard.name: shard.job for shard in parts}
    for task, result in workers.results([_task(shard) for shard in parts]):
        if isinstance(result, Failed):
            job = jobs[task.key]
            failures.setdefault((job.model, job.target), []).append(result.why)
            continue
        rows = cast("list[Row]", result)
        dataset.append(directory, task.key, rows)
        done += len(rows)
        progress(SweepProgress(done, kept, total, time.monotonic() - begun, workers.workers))
    if failures:
        (model, target), reasons = next(iter(failures.items()))
        others = f", and {counted(len(failures) - 1, 'other')}" if len(failures) > 1 else ""
        written = "all other points are written: " if done else ""
        raise InputError(
            f"`{model}` on `{target}`{others} could not be evaluated: {reasons[0]}",
            hint=f"{written}fix this, and run the same command again{' to continue' if done else ''}",
        )


def _task(shard: Shard) -> Task:
    """Return the task that computes a shard."""
    title = f"`{shard.job.model}` on `{shard.job.target}`"
    lowered = Task(f"lower-{shard.job.key}", lowering.make, (shard.job,), title)
    return Task(shard.name, worker.evaluate, (shard.points,), title, lowered)
