"""The Pareto-optimal points of a sweep, per model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import cast

from deuteron.arch import targets
from deuteron.arch.silicon import band
from deuteron.errors import OptionError
from deuteron.sweeps import dataset
from deuteron.sweeps.spec import AXES
from deuteron.sweeps.worker import Row

GOALS = {"latency": "latency_us", "sram": "sram_bytes", "flash": "flash_bytes", "accuracy": "accuracy"}
"""Goals and their columns; all are minimised, except accuracy."""

SCHEMA = 1
_UNITS = {"arena_cache_size": "B", "sram_budget": "B", "weights_budget": "B", "flash_bandwidth": "B/s", "clock": "Hz"}
NOTE = (
    "latency: NPU simulated (for an Ethos-U estimated by Vela) plus CPU operators (estimated), "
    "or > for the NPU alone if a CPU operator has no cycle count"
)
UNFINISHED = "the sweep is not complete, and missing points may be better; run its command again to continue"


@dataclass(frozen=True, slots=True)
class Table:
    """The best points of a sweep.

    Attributes:
        path: the sweep.
        rows: rows of all points.
        best: numbers of the Pareto-optimal points, by model and latency.
        at_most: maximum latency in microseconds; None for any.
        total: expected number of points; None for a search.
    """

    path: str
    rows: tuple[Row, ...]
    best: tuple[Row, ...]
    at_most: float | None
    total: int | None = None

    @property
    def missing(self) -> int:
        """Return the number of missing points."""
        return 0 if self.total is None else self.total - len(self.rows)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        fitting = [row for row in self.rows if row["fits"]]
        limit = "" if self.at_most is None else f" of at most {self.at_most / 1000:g} ms"
        best = f"{len(self.best):,} Pareto-optimal{limit}"
        fit = "fits" if len(fitting) == 1 else "fit"
        of = f"{len(self.rows):,} of {self.total:,} points" if self.missing else _points(len(self.rows))
        yield f"{self.path}: {of}, {len(fitting):,} {fit}; {best}"
        if self.missing:
            yield UNFINISHED
        yield from untimed(self.rows)
        if self.best:
            yield NOTE
            yield from self._bands()
            varied = [axis for axis in AXES[1:] if len({row[axis] for row in self.best}) > 1]
            heads = [axis.replace("_", " ") + (f" {_UNITS[axis]}" if axis in _UNITS else "") for axis in varied]
            cells = [["-" if axis in _ignored(row) else _cell(row[axis]) for axis in varied] for row in self.best]
            yield from self._same()
            widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
            named = [f"{head:>{width}}" for head, width in zip(heads, widths, strict=True)]
            for model in dict.fromkeys(str(row["model"]) for row in self.best):
                yield ""
                yield model
                yield "  ".join(
                    [
                        f"{'number':>8}  {'us':>12}  {'bound':<8}  {'SRAM B':>12}  {'flash B':>12}  {'NPU MACs':>8}",
                        *named,
                    ]
                )
                for row, words in zip(self.best, cells, strict=True):
                    if row["model"] == model:
                        shown = [f"{word:>{width}}" for word, width in zip(words, widths, strict=True)]
                        yield "  ".join([_figures(row), *shown])
        yield from self._refusals()

    def _same(self) -> Iterator[str]:
        """Yield the values that all best points share, and the values that targets ignore."""
        alike = [axis for axis in AXES[1:] if len({row[axis] for row in self.best}) == 1]
        common = [(axis, self.best[0][axis], _UNITS.get(axis, "")) for axis in alike if self.best[0][axis] is not None]
        if common:
            yield "all with " + ", ".join(
                f"{axis.replace('_', ' ')} {_cell(value)}{unit and ' '}{unit}" for axis, value, unit in common
            )
        for names, places in self.ignored().items():
            change = "change" if "," in names else "changes"
            yield f"{', '.join(places)}: without {names.replace('_', ' ')}, which {change} nothing there"

    def ignored(self) -> Mapping[str, Sequence[str]]:
        """Return the axes without effect, as the column has them, and their targets, or models on targets."""
        seen: dict[str, dict[str, dict[str, None]]] = {}
        for row in self.rows:
            if row["fits"] or row["ignored"]:  # a failed build does not have this
                models = seen.setdefault(str(row["target"]), {})
                models.setdefault(str(row["model"]), {})[str(row["ignored"])] = None
        places: dict[str, dict[str, None]] = {}
        for target, models in seen.items():
            is_same = len({names for kinds in models.values() for names in kinds}) == 1
            for model, kinds in models.items():
                place = f"{'some points of ' if len(kinds) > 1 else ''}{model} on {target}"
                for names in filter(None, kinds):
                    places.setdefault(names, {})[target if is_same else place] = None
        return {names: [*where] for names, where in places.items()}

    def _bands(self) -> Iterator[str]:
        """Yield the published ratio of silicon times to such times, per band with its targets."""
        named: dict[str, list[str]] = {}
        for target in dict.fromkeys(str(row["target"]) for row in self.best):
            if known := band(targets.load(target)):
                named.setdefault(str(known), []).append(target)
        yield from (f"{', '.join(names)}: {ratio}" for ratio, names in named.items())

    def _refusals(self) -> Iterator[str]:
        """Yield the reasons why points do not fit, most frequent first."""
        reasons: dict[str, int] = {}
        for row in self.rows:
            if not row["fits"]:
                why = f"{row['model']} on {row['target']}: {str(row['why']).splitlines()[0].rstrip(':')}"
                reasons[why] = reasons.get(why, 0) + 1
        if reasons:
            yield ""
            count = sum(reasons.values())
            yield f"{_points(count)} {'does' if count == 1 else 'do'} not fit:"
            ordered = sorted(reasons, key=lambda why: -reasons[why])
            yield from (f"{reasons[why]:>8,}  {why}" for why in ordered[:_LISTED])
            if ordered[_LISTED:]:
                others = f"{sum(reasons[why] for why in ordered[_LISTED:]):>8,}  {len(ordered) - _LISTED} other reasons"
                yield f"{others}: column `why` of `{self.path}/{dataset.POINTS}`"

    def to_json(self) -> dict[str, object]:
        """Return the report as plain values."""
        return {
            "schema": SCHEMA,
            "path": self.path,
            "points": len(self.rows),
            "total": self.total,
            "fit": sum(bool(row["fits"]) for row in self.rows),
            "at_most_us": self.at_most,
            "best": list(self.best),
        }


_LISTED = 20


def table(directory: Path, *, at_most: float | None = None, minimise: Sequence[str] = ("latency", "sram")) -> Table:
    """Return the best points of the sweep in a directory.

    Args:
        directory: directory of a sweep.
        at_most: maximum latency in microseconds.
        minimise: names of `GOALS`; accuracy is maximised.

    Raises:
        OptionError: there is no such goal, or `at_most` is not above 0.
        DeuteronError: the directory has no sweep, or a damaged one.
    """
    check_goals(minimise)
    if at_most is not None and not at_most > 0:  # also rejects NaN
        raise OptionError(
            f"`--at-most` is {at_most / 1000:g} ms, it must be above 0",
            hint="give the maximum time of a run",
        )
    rows = dataset.rows(directory)
    fitting = [row for row in rows if row["fits"] and _within(row, at_most)]
    best = [row for model in dict.fromkeys(row["model"] for row in fitting) for row in _front(fitting, model, minimise)]
    return Table(str(directory), tuple(rows), tuple(best), at_most, dataset.total(directory))


def check_goals(goals: Sequence[str]) -> None:
    """Check that each is one of `GOALS`; OptionError otherwise."""
    for goal in goals:
        if goal not in GOALS:
            raise OptionError(
                f"`{goal}` cannot be minimised", hint=f"allowed are {', '.join(f'`{name}`' for name in GOALS)}"
            )


def _within(row: Row, at_most: float | None) -> bool:
    return at_most is None or (row["latency_us"] is not None and cast("float", row["latency_us"]) <= at_most)


def _front(rows: Sequence[Row], model: object, minimise: Sequence[str]) -> list[Row]:
    """Return the Pareto-optimal points of a model, fastest first; the first of equal ones.

    Points that lack a figure come last, and are compared with those that lack the same one.
    """
    scores: dict[tuple[tuple[_Lack, str], ...], dict[tuple[float, ...], Row]] = {}
    for row in rows:
        if row["model"] == model:
            lacking = tuple(_lacking(row, goal) for goal in minimise)
            scores.setdefault(lacking, {}).setdefault(tuple(_score(row, goal) for goal in minimise), row)
    return [row for lacking in sorted(scores) for row in _unbettered(scores[lacking])]


def _unbettered(scores: Mapping[tuple[float, ...], Row]) -> Iterator[Row]:
    """Yield the rows on the Pareto front of the scores."""
    front: list[tuple[float, ...]] = []
    for score in sorted(scores):
        if not any(all(a <= b for a, b in zip(other, score, strict=True)) for other in front):
            front.append(score)
            yield scores[score]


class _Lack(IntEnum):
    """Kind of missing figure of a point; points are compared with those of the same kind."""

    NOTHING = 0
    PART = 1
    CLOCK = 2
    TIME = 3


_LACKS = {
    _Lack.PART: (
        "the time of the NPU alone (>), as a CPU operator has no cycle count or, with an Ethos-U, the CPU's clock is "
        "unknown",
        "such",
    ),
    _Lack.CLOCK: ("no time, as the clock of {targets} is unknown (give `clock`)", "such on the same target"),
    _Lack.TIME: ("no time, as a CPU operator has no cycle count", "such on the same target"),
}
"""Text for each kind of missing time, and the points it is compared with."""


def untimed(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the number of points without a whole time, the reason, and their comparison."""
    for lack, (what, rivals) in _LACKS.items():
        those = [row for row in rows if row["fits"] and _lacking(row, "latency")[0] is lack]
        if those:
            has, they = ("point that fits has", "it is") if len(those) == 1 else ("points that fit have", "they are")
            targets = ", ".join(dict.fromkeys(str(row["target"]) for row in those))
            yield f"{len(those):,} {has} {what.format(targets=targets)}: {they} compared with {rivals} alone"


def _lacking(row: Row, goal: str) -> tuple[_Lack, str]:
    """Return the kind of missing figure; without a time also the target, as cycles of targets are not comparable."""
    if row[GOALS[goal]] is not None:
        return _Lack.NOTHING, ""
    if goal != "latency" or row["npu_us"]:
        return _Lack.PART, ""
    return _Lack.TIME if row["cycles"] is None else _Lack.CLOCK, str(row["target"])


def _score(row: Row, goal: str) -> float:
    value = row[GOALS[goal]]
    if value is None and goal == "latency":
        value = row["npu_us"] or row["cycles"]  # 0 us of an idle NPU is not a time
    if value is None:
        return 0.0
    return -float(value) if goal == "accuracy" else float(value)


def _figures(row: Row) -> str:
    share = row["npu_share"]
    latency, npu, sram = row["latency_us"], row["npu_us"], row["sram_bytes"]
    known = f"{latency:,.1f}" if latency is not None else f">{npu:,.1f}" if npu else "-"
    return (
        f"{row['number']:>8}  {known:>12}  {row['bound']:<8}  "
        f"{'-' if sram is None else f'{sram:,}':>12}  {row['flash_bytes']:>12,}  "
        f"{'-' if share is None else f'{share:.0%}':>8}"
    )


def _points(count: int) -> str:
    return f"{count:,} point{'' if count == 1 else 's'}"


def _ignored(row: Row) -> Sequence[str]:
    """Return the axes of a point without effect on its target."""
    return str(row["ignored"]).split(", ")


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
