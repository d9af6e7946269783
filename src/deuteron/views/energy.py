"""Energy of runs and steps, from the CSV file of a current meter that also records the pins of `dtn_port_trigger`."""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import numpy.typing as npt

from deuteron.errors import FormatError, InputError, OptionError, unreadable

Numbers = npt.NDArray[np.float64]

FEW = 10
"""Samples below which the energy of a pulse depends on where its edges lie between them."""

_GAP = 10
"""Usual times between two samples above which samples are missing."""

_QUANTITIES = {
    "time": (re.compile(r"time|timestamp"), "s"),
    "current": (re.compile(r"current|\bamps?\b"), "a"),
    "voltage": (re.compile(r"voltage|volts?\b"), "v"),
}
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "m": 1e-3, "": 1.0}  # both signs for micro
_UNIT = re.compile(r"[\s(\[_/](?P<prefix>[nuµμm]?)(?P<unit>[sav])[)\]]?$")
_PLAIN = re.compile(r"[a-z ]*\b(time|timestamp|current|amps?|amperes|voltage|volts?)( \d+)?")
"""A name without a unit: it is the SI unit then."""
_NUMBER = re.compile(r"[\s\"]*[-+]?[.,]?\d[\deE.+-]*[\s\"]*[,;\t]")
"""Start of a line of samples."""
_LAYOUT = "the first line names the columns with their units, such as `Timestamp(ms),Current(uA),D0,D1`"


@dataclass(frozen=True, slots=True)
class Log:
    """Samples of a current meter.

    Attributes:
        seconds: time of each sample, not falling: meters may round it.
        amperes: current of each.
        volts: voltage of each; None if the file has no such column.
        pins: levels of digital channels by their names.
    """

    seconds: Numbers
    amperes: Numbers
    volts: Numbers | None
    pins: Mapping[str, npt.NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Pulse:
    """The time from a rising edge to the falling one.

    Attributes:
        seconds: duration.
        joules: energy.
        samples: number of samples of the current in it.
    """

    seconds: float
    joules: float
    samples: int


@dataclass(frozen=True, slots=True)
class Gap:
    """A time without samples: its start, its duration, and whether it is in a run."""

    at: float
    seconds: float
    is_in_run: bool


@dataclass(frozen=True, slots=True)
class RunEnergy:
    """One run: the whole of it, and its steps if their pin was recorded."""

    whole: Pulse
    steps: tuple[Pulse, ...]


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of all complete runs of a log.

    Attributes:
        runs: in order; all have the same number of steps.
        cut_runs: runs that the start or the end of the log cuts, which are left out.
        idle_watts: mean power outside of runs; None if there is no such sample.
        gaps: times without samples, for which the sample before them counts.
        titles: the steps; empty if they are unknown, or not as many as the pulses of a run.
    """

    runs: tuple[RunEnergy, ...]
    cut_runs: int
    idle_watts: float | None
    gaps: tuple[Gap, ...] = ()
    titles: tuple[str, ...] = ()

    @property
    def joules(self) -> float:
        """The mean energy of a run."""
        return fmean(run.whole.joules for run in self.runs)

    @property
    def steps(self) -> tuple[Pulse, ...]:
        """Mean duration and energy of each step, with the fewest samples."""
        return tuple(
            Pulse(fmean(p.seconds for p in same), fmean(p.joules for p in same), min(p.samples for p in same))
            for same in zip(*(run.steps for run in self.runs), strict=True)
        )


def read_log(path: Path, pins: Sequence[str]) -> Log:
    """Read a CSV file with one column for the time, one for the current, and one for each of the pins.

    Args:
        path: the file. Commas, semicolons and tabs separate columns; the last two allow decimal commas.
            Lines that start with `#` are ignored, but the last one before the first number may have the names.
        pins: columns of digital channels, whose values are 0 and 1.

    Raises:
        FormatError: it has no line with names, not these columns, or a value that is not a number.
    """
    try:
        text = path.read_text("utf-8-sig").splitlines()
    except OSError as error:
        raise unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise FormatError(f"`{path}` is not a text file: {error.reason}", hint=_LAYOUT) from None
    lines = _lines(text)
    if len(lines) < 3:
        raise FormatError(f"`{path}` has fewer than two samples", hint=_LAYOUT)
    header = lines.pop(min(lines)).lstrip("# ")
    separator = next((mark for mark in "\t;" if mark in header), ",")
    names = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
    found = {quantity: _column(path, names, quantity, pins) for quantity in _QUANTITIES}
    for quantity in ("time", "current"):
        if found[quantity] is None:
            raise FormatError(f"`{path}` has no column for the {quantity}: {_listed(names)}", hint=_LAYOUT)
    for pin in pins:
        if names.count(pin) != 1:
            raise FormatError(
                f"`{path}` has no column `{pin}`: {_listed(names)}",
                hint="name a column with one digital channel; PPK2's application writes them with `separate fields`",
            )
    columns = {name: at for name, at in found.items() if at is not None} | {f"pin {p}": names.index(p) for p in pins}
    values = _values(path, lines, separator, columns)
    scaled = {q: values[q] * _scale(path, names[at], q) for q, at in found.items() if at is not None}
    steps = np.diff(scaled["time"])
    if (falling := np.flatnonzero(steps < 0)).size or not steps.any():
        where = f"falls after sample {falling[0]:,}" if falling.size else "never rises"
        raise FormatError(f"`{path}`: the time {where}", hint="export the samples in order, with the time of each")
    for pin in pins:
        if (odd := values[f"pin {pin}"])[(odd != 0) & (odd != 1)].size:
            raise FormatError(f"`{path}`: column `{pin}` has other values than 0 and 1")
    levels = {pin: values[f"pin {pin}"] == 1 for pin in pins}
    return Log(scaled["time"], scaled["current"], scaled.get("voltage"), levels)


def measure(log: Log, run: str, step: str | None, volts: float | None) -> Energy:
    """Return the energy of each run and step.

    A sample holds until the next one: energy is the sum of current x voltage x time to the next sample, from the first
    sample of a pulse to the first after it.

    Args:
        log: the samples.
        run: the pin that is high during runs.
        step: the pin that is high during steps; None for runs alone.
        volts: the supply, for a log without it.

    Raises:
        OptionError: the voltage is given twice or not at all.
        InputError: no run is complete, or runs differ in their number of steps.
    """
    if step == run:
        raise OptionError(f"`{run}` is the pin of runs and of steps", hint="record them with two pins")
    if volts is not None and not 0 < volts < math.inf:
        raise OptionError(f"`--volts` is {volts}, it must be above 0")
    if (volts is None) == (log.volts is None):
        raise OptionError(
            "the log has no voltage" if volts is None else "the log has the voltage of each sample",
            hint="give it with `--volts 3.3`" if volts is None else "leave out `--volts`",
        )
    watts: Numbers = log.amperes * (log.volts if log.volts is not None else np.float64(volts or 0))
    # Energy before each sample: the last one has no end.
    energy = np.concatenate([[0.0], np.cumsum(watts[:-1] * np.diff(log.seconds))])

    def pulse(first: int, end: int) -> Pulse:
        return Pulse(log.seconds[end] - log.seconds[first], energy[end] - energy[first], end - first)

    is_high = log.pins[run]
    whole = list(_pulses(is_high))
    inner = list(_pulses(log.pins[step])) if step is not None else []
    runs = tuple(RunEnergy(pulse(*a), tuple(pulse(*b) for b in inner if a[0] <= b[0] and b[1] <= a[1])) for a in whole)
    if not runs:
        raise InputError(
            f"column `{run}` has no complete run: it is never low, high and low again",
            hint="record from before the first run to after the last; see `dtn_port_trigger`",
        )
    if len(counts := {len(one.steps) for one in runs}) > 1:
        raise InputError(
            f"runs differ in the number of pulses of `{step}`: {', '.join(map(str, sorted(counts)))}",
            hint="raise the sampling rate: a step or the pause after it is shorter than the time between two samples",
        )
    if min(one.whole.joules for one in runs) <= 0:
        raise InputError(
            "the current is 0 or negative in a run", hint="check the channel, its direction and the range of the meter"
        )
    rest = np.where(is_high[:-1], 0.0, np.diff(log.seconds))
    idle = float(watts[:-1] @ rest / rest.sum()) if rest.any() else None
    cut_runs = int(is_high[0]) + int(is_high[-1] and not is_high.all())
    return Energy(runs, cut_runs, idle, tuple(_gaps(log.seconds, is_high)))


def _gaps(seconds: Numbers, is_high: npt.NDArray[np.bool_]) -> Iterator[Gap]:
    """The times without samples: steps of time that are much longer than the median of those that are not 0."""
    steps = np.diff(seconds)
    for i in np.flatnonzero(steps > _GAP * np.median(steps[steps > 0])):
        yield Gap(float(seconds[i]), float(steps[i]), bool(is_high[i]))


def _pulses(is_high: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The first sample of each complete pulse, and the first after it."""
    change = np.diff(is_high.astype(np.int8))
    rising, falling = np.flatnonzero(change == 1) + 1, np.flatnonzero(change == -1) + 1
    yield from zip(rising.tolist(), falling[falling > rising[0]].tolist() if rising.size else [], strict=False)


def _column(path: Path, names: Sequence[str], quantity: str, pins: Sequence[str]) -> int | None:
    pattern, _ = _QUANTITIES[quantity]
    found = [i for i, name in enumerate(names) if name not in pins and pattern.search(name.lower())]
    if len(found) > 1:
        raise FormatError(
            f"`{path}` has several columns for the {quantity}: {_listed([names[i] for i in found])}",
            hint="export one channel of the meter",
        )
    return found[0] if found else None


def _scale(path: Path, name: str, quantity: str) -> float:
    """SI units per unit of a column; without a unit in its name it is the SI unit."""
    unit = _QUANTITIES[quantity][1]
    match = _UNIT.search(name.lower())
    if match is None and _PLAIN.fullmatch(name.lower()):
        return 1.0
    if match is None or match["unit"] != unit:
        raise FormatError(
            f"`{path}`: unknown unit in the column `{name}`", hint=f"use `{unit.upper()}`, `m`, `u` or `n` before it"
        )
    return _PREFIXES[match["prefix"]]


def _lines(text: Sequence[str]) -> dict[int, str]:
    """The lines with names and samples, by their numbers in the file."""
    lines = {number: line for number, line in enumerate(text, 1) if line.strip() and line[0] != "#"}
    first = min(lines, default=0)
    if first and _NUMBER.match(lines[first]):  # then a comment has the names
        above = [number for number in range(1, first) if text[number - 1].startswith("#")]
        lines |= {number: text[number - 1] for number in above[-1:]}
    return lines


def _values(path: Path, lines: Mapping[int, str], separator: str, columns: Mapping[str, int]) -> dict[str, Numbers]:
    """The values of the columns."""
    rows = list(lines.values())
    if separator != "," and not any("." in row for row in rows):
        rows = [row.replace(",", ".") for row in rows]
    table = _table(rows, separator, columns.values())
    if table is None:
        at = _first_wrong(rows, separator, columns.values())
        wrong = (name for name, column in columns.items() if _table([rows[at]], separator, [column]) is None)
        raise _without_number(path, list(lines)[at], next(wrong))
    if (odd := np.argwhere(~np.isfinite(table))).size:
        row, column = (int(at) for at in odd[0])
        raise _without_number(path, list(lines)[row], list(columns)[column])
    return dict(zip(columns, table.T, strict=True))


def _table(rows: Sequence[str], separator: str, columns: Iterable[int]) -> Numbers | None:
    """The values of these columns; None if a row lacks one, or it is not a number."""
    try:
        return np.loadtxt(rows, delimiter=separator, usecols=list(columns), ndmin=2, comments=None, quotechar='"')
    except (ValueError, IndexError):
        return None


def _first_wrong(rows: Sequence[str], separator: str, columns: Iterable[int]) -> int:
    """The first row that `_table` rejects, by bisection."""
    columns, first, end = list(columns), 0, len(rows)
    while end - first > 1:
        middle = (first + end) // 2
        if _table(rows[first:middle], separator, columns) is None:
            end = middle
        else:
            first = middle
    return first


def _without_number(path: Path, line: int, column: str) -> FormatError:
    return FormatError(
        f"line {line:,} has no number for the {column}",
        where=str(path),
        hint="export a range in which every sample has numbers, with decimal points if commas separate columns",
    )


def _listed(names: Sequence[str]) -> str:
    return "columns are " + ", ".join(f"`{name}`" for name in names)
