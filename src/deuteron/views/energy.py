"""Energy of runs and steps, from the samples of a current meter and the pins of `dtn_port_trigger`."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np
import numpy.typing as npt

from deuteron.errors import InputError, OptionError
from deuteron.views.energy_log import Log, Numbers

FEW = 10
"""Samples below which the energy of a step depends on where its edges lie between them."""

_GAP = 10
"""Usual times between two samples above which samples are missing."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A run or a step.

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
    """One run: the whole of it, and its steps if their pin shows them all."""

    whole: Interval
    steps: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Energy:
    """Energy of all complete runs of a log.

    Attributes:
        runs: in order.
        cut_runs: runs that the start or the end of the log cuts, which are left out.
        idle_watts: mean power outside of runs; None if there is no such sample.
        gaps: times without samples, for which the sample before them counts.
        titles: the steps; empty if they are unknown, or no run shows them all.
        unclear_runs: runs whose pin shows another number of steps, which count for the whole run only.
        seen: the most frequent number of steps that the pin shows in a run.
        expected: the number of steps of a run; the largest number that the log shows if it is not known.
    """

    runs: tuple[RunEnergy, ...]
    cut_runs: int
    idle_watts: float | None
    gaps: tuple[Gap, ...] = ()
    titles: tuple[str, ...] = ()
    unclear_runs: int = 0
    seen: int = 0
    expected: int = 0

    @property
    def joules(self) -> float:
        """Return the mean energy of a run."""
        return fmean(run.whole.joules for run in self.runs)

    @property
    def steps(self) -> tuple[Interval, ...]:
        """Return mean duration and energy of each step, with the fewest samples."""
        clear = [run.steps for run in self.runs if run.steps]
        return tuple(
            Interval(fmean(p.seconds for p in same), fmean(p.joules for p in same), min(p.samples for p in same))
            for same in zip(*clear, strict=True)
        )


def measure(log: Log, run: str, step: str | None, volts: float | None, steps: int | None = None) -> Energy:
    """Return the energy of each run and step.

    A sample holds until the next one: energy is the sum of current x voltage x time to the next sample. A step lasts
    from an edge of its pin to the next one, or to the end of the run. An edge pair between two samples is not seen: the
    run then shows fewer steps, and counts as a whole only.

    Args:
        log: the samples.
        run: the pin that is high during runs.
        step: the pin that changes at the start of each step; None for runs alone.
        volts: the supply, for a log without it.
        steps: number of steps of a run; None for the largest number that the log shows.

    Raises:
        OptionError: the voltage is given twice or not at all.
        InputError: no run is complete, or its energy is not positive.
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

    def interval(first: int, end: int) -> Interval:
        return Interval(log.seconds[end] - log.seconds[first], energy[end] - energy[first], end - first)

    is_high = log.pins[run]
    whole = list(_pulses(is_high))
    if not whole:
        raise InputError(
            f"column `{run}` has no complete run: it is never low, high and low again",
            hint="record from before the first run to after the last; see `dtn_port_trigger`",
        )
    edges = np.flatnonzero(np.diff(log.pins[step].astype(np.int8))) + 1 if step is not None else np.array([], np.int64)
    starts = [edges[(first <= edges) & (edges < end)].tolist() for first, end in whole]
    wanted = max(map(len, starts)) if steps is None else steps
    runs = tuple(
        RunEnergy(
            interval(first, end),
            tuple(interval(*pair) for pair in pairwise([*at, end])) if len(at) == wanted else (),
        )
        for (first, end), at in zip(whole, starts, strict=True)
    )
    if min(one.whole.joules for one in runs) <= 0:
        raise InputError(
            "the current is 0 or negative in a run", hint="check the channel, its direction and the range of the meter"
        )
    rest = np.where(is_high[:-1], 0.0, np.diff(log.seconds))
    return Energy(
        runs,
        cut_runs=int(is_high[0]) + int(is_high[-1] and not is_high.all()),
        idle_watts=float(watts[:-1] @ rest / rest.sum()) if rest.any() else None,
        gaps=tuple(_gaps(log.seconds, is_high)),
        unclear_runs=sum(len(at) != wanted for at in starts) if step is not None else 0,
        seen=Counter(map(len, starts)).most_common(1)[0][0],
        expected=wanted,
    )


def _gaps(seconds: Numbers, is_high: npt.NDArray[np.bool_]) -> Iterator[Gap]:
    """Yield times without samples: steps of time that are much longer than the median of those that are not 0."""
    steps = np.diff(seconds)
    for i in np.flatnonzero(steps > _GAP * np.median(steps[steps > 0])):
        yield Gap(float(seconds[i]), float(steps[i]), bool(is_high[i]))


def _pulses(is_high: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield the first sample of each complete pulse, and the first after it."""
    change = np.diff(is_high.astype(np.int8))
    rising, falling = np.flatnonzero(change == 1) + 1, np.flatnonzero(change == -1) + 1
    yield from zip(rising.tolist(), falling[falling > rising[0]].tolist() if rising.size else [], strict=False)
