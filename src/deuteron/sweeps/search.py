"""Searches the best points of a sweep that is too large to evaluate, with Optuna.

Points are evaluated in rounds, whose results are reported in order: the evaluated points depend neither on the number
of workers nor on interruptions. The dataset is the only state of a search: another run repeats the same questions and
finds their answers there.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from deuteron.builds import manifest as manifests
from deuteron.builds import parameters
from deuteron.errors import OptionError
from deuteron.extras import require
from deuteron.sweeps import dataset, lowering, run
from deuteron.sweeps.pareto import GOALS, check_goals
from deuteron.sweeps.pool import Pool, pool
from deuteron.sweeps.run import SweepProgress, Swept
from deuteron.sweeps.spec import AXES, Spec
from deuteron.sweeps.worker import Row

ROUND = 8
"""Points of a round."""

STALE = 20
"""Number of consecutive rounds without a new point after which the search ends."""


def search(
    spec: Spec,
    directory: Path,
    count: int,
    minimise: Sequence[str],
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Callable[[SweepProgress], None] = lambda _: None,
) -> Swept:
    """Evaluate `count` points of a sweep, chosen by the results so far, and write them to the directory.

    Args:
        spec: specification of the sweep.
        directory: created if it does not exist; existing points of the same search are not computed again.
        count: number of points; fewer if there are no more.
        minimise: names of `GOALS`; accuracy is maximised.
        scheduler: see `pool`.
        workers: see `pool`.
        progress: as of a sweep.

    Raises:
        MissingToolError: Optuna is not installed.
        OptionError: there is no such goal, nothing measures it, or `count` is 0.
        DeuteronError: as of a sweep.
    """
    require("search", "optuna", "`--search`")
    check_goals(minimise)
    if "accuracy" in minimise and not (spec.evaluate or any(_is_build(spec.folder / model) for model in spec.written)):
        raise OptionError(
            "no point has an `accuracy`: nothing measures it",
            hint='add `evaluate = "file.py:function"` to the sweep',
        )
    if count < 1:
        raise OptionError(f"`--search` is {count}, it must be above 0")
    directory = directory.absolute()
    with dataset.opened(directory, spec, lowering.fingerprint(), {"search": list(minimise)}):
        rows = _there(spec, directory)
        kept = len(rows)
        with pool(scheduler, workers, (directory, spec.folder)) as workers_of:
            seen = _Search(spec, directory, min(count, spec.count), minimise, workers_of, progress).run(rows)
    fitting = [rows[number] for number in seen if rows[number]["fits"]]
    is_blind = bool(fitting) and all(None in _figures(row, minimise) for row in fitting)
    return Swept(directory, len(seen), min(kept, len(seen)), len(seen) - len(fitting), is_blind)


def _figures(row: Row, goals: Sequence[str]) -> Sequence[object]:
    """Return a point's figure for each goal."""
    return [row[GOALS[goal]] for goal in goals]


def _is_build(path: Path) -> bool:
    """Return true if a model is a build, or a program in one, which stores its metrics."""
    try:
        return path.suffix == ".pte" or (path / manifests.NAME).is_file()
    except OSError:
        return False  # reading the model reports this


def _there(spec: Spec, directory: Path) -> dict[int, Row]:
    """Return the existing rows by number; remove rows of models that have changed since."""
    rows: dict[int, Row] = {}
    for name in dataset.written(directory):
        own = {int(str(row["number"])): row for row in dataset.rows(directory, [name])}
        shards = run.shards(spec, directory, [spec.point(number) for number in sorted(own)])
        if [shard.name for shard in shards] == [name]:
            rows |= own
        else:
            dataset.remove(directory, name)
    return rows


class _Search:
    """The rounds of a search."""

    def __init__(
        self,
        spec: Spec,
        directory: Path,
        count: int,
        minimise: Sequence[str],
        workers: Pool,
        progress: Callable[[SweepProgress], None],
    ) -> None:
        self._spec, self._directory, self._count, self._minimise = spec, directory, count, minimise
        self._workers, self._progress = workers, progress
        self._places = {model: place for place, model in enumerate(spec.axes["model"])}
        self._optuna: Any = import_module("optuna")
        self._optuna.logging.set_verbosity(self._optuna.logging.WARNING)
        self._study: Any = self._optuna.create_study(
            directions=["maximize" if goal == "accuracy" else "minimize" for goal in minimise],
            sampler=self._optuna.samplers.TPESampler(seed=1),
        )

    def run(self, rows: dict[int, Row]) -> list[int]:
        """Return the numbers of the evaluated points, in order; adds their rows to `rows`."""
        seen: dict[int, None] = {}
        stale = 0
        while len(seen) < self._count and stale < STALE:
            trials = [self._study.ask() for _ in range(ROUND)]
            asked = [self._chosen(trial) for trial in trials]
            fresh = [number for number in dict.fromkeys(asked) if number not in seen][: self._count - len(seen)]
            stale = 0 if fresh else stale + 1
            seen |= dict.fromkeys(fresh)
            self._evaluate([number for number in fresh if number not in rows], rows, len(seen))
            for trial, number in zip(trials, asked, strict=True):
                if number in seen:
                    self._tell(trial, rows[number])
        return list(seen)

    def _evaluate(self, numbers: Sequence[int], rows: dict[int, Row], seen: int) -> None:
        if not numbers:
            return
        shards = run.shards(self._spec, self._directory, [self._spec.point(number) for number in sorted(numbers)])
        run.evaluate(self._workers, shards, self._directory, seen - len(numbers), self._count, self._progress)
        for row in dataset.rows(self._directory, [shard.name for shard in shards]):
            rows[int(str(row["number"]))] = row

    def _tell(self, trial: Any, row: Row) -> None:
        values = _figures(row, self._minimise)
        if row["fits"] and None not in values:
            self._study.tell(trial, values)
        else:
            self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)

    def _chosen(self, trial: Any) -> int:
        """Return the number of the point that a trial suggests: ordered values by index, others by name."""
        places: list[int] = []
        for axis in AXES:
            values = self._spec.axes[axis]
            if axis == "model":
                places.append(self._places[self._model(trial)])
            elif isinstance(values[0], int) and len(values) > 1:
                ordered = sorted(values, key=lambda value: int(str(value)))
                places.append(values.index(ordered[trial.suggest_int(axis, 0, len(values) - 1)]))
            else:
                places.append(trial.suggest_categorical(axis, range(len(values))) if len(values) > 1 else 0)
        return self._spec.number(places)

    def _model(self, trial: Any) -> str:
        """Suggest a model, with a value for each of its parameters."""
        written = self._spec.written
        name = written[trial.suggest_categorical("model", range(len(written))) if len(written) > 1 else 0]
        function, offered = parameters.choices(name)
        return parameters.named(function, dict(_picked(trial, name, offered.items())))


def _picked(trial: Any, model: str, offered: Iterable[tuple[str, Sequence[object]]]) -> Iterator[tuple[str, object]]:
    """Suggest a value for each parameter."""
    for name, values in offered:
        yield name, values[trial.suggest_int(f"{model} {name}", 0, len(values) - 1)] if len(values) > 1 else values[0]
