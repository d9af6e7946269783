"""Energy of runs and steps from the logs of current meters."""

import bisect
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deuteron import api
from deuteron.errors import DeuteronError, FormatError, InputError, OptionError
from deuteron.views.energy import measure
from deuteron.views.energy_log import read_log

STEPS = (3, 5)
"""Samples of the steps of a run, with one sample before them; the step pin changes at the start of each."""


def samples(runs: int) -> list[tuple[int, float, int, int]]:
    """Index, milliamperes and the levels of two pins: 1 mA between runs, 10 mA in them, 20 and 30 mA in their steps."""
    rows: list[tuple[float, int, int]] = [(1, 0, 0)] * 4
    for _ in range(runs):
        rows += [(10, 1, 0), *[(20, 1, 1)] * STEPS[0], *[(30, 1, 0)] * STEPS[1]]
        rows += [(1, 0, 0)] * 4
    return [(i, *row) for i, row in enumerate(rows)]


def ppk2(runs: int) -> str:
    """The export of PPK2's application with "Digital logic pins (separate fields)"."""
    rows = [f"{i / 100},{1000 * ma:.3f},{a},{b},0,0,0,0,0,0" for i, ma, a, b in samples(runs)]
    return "\n".join(["Timestamp(ms),Current(uA),D0,D1,D2,D3,D4,D5,D6,D7", *rows])


def ppk2_single_field(runs: int) -> str:
    """The export of PPK2's application with "Digital logic pins (single string field)"."""
    rows = [f"{i / 100},{1000 * ma:.3f},{a}{b}000000" for i, ma, a, b in samples(runs)]
    return "\n".join(["Timestamp(ms),Current(uA),D0-D7", *rows])


def ppk2_both_fields(runs: int) -> str:
    rows = [f"{i / 100},{1000 * ma:.3f},XX000000,{a},{b},0,0,0,0,0,0" for i, ma, a, b in samples(runs)]
    return "\n".join(["Timestamp(ms),Current(uA),D0-D7,D0,D1,D2,D3,D4,D5,D6,D7", *rows])


def joulescope(runs: int) -> str:
    """The export of Joulescope's application, `#time (s),current (A),voltage (V)`, with digital inputs added."""
    rows = [f"{i * 1e-5:.9g},{ma / 1000:.9g},3.0,{a},{b}" for i, ma, a, b in samples(runs)]
    return "\n".join(["#time (s),current (A),voltage (V),D0,D1", *rows])


def joulescope_statistics(runs: int) -> str:
    """The statistics of Joulescope's application, `#time,current,voltage,power,charge,energy`, with inputs added."""
    rows = [f"{i * 1e-5:.9g},{ma / 1000:.9g},3.0,0,0,0,{a},{b}" for i, ma, a, b in samples(runs)]
    return "\n".join(["#time,current,voltage,power,charge,energy,D0,D1", *rows])


def otii(runs: int) -> str:
    """The export of Otii's application with times of the day, with digital inputs added."""
    rows = [
        f'"2026-11-30 09:00:59.{i * 10 + 99_000:06}","{ma / 1000}","3","0","{a}","{b}"' for i, ma, a, b in samples(runs)
    ]
    names = '"Wall-clock time (UTC)","Arc Main Current (A)","Arc Main Voltage (V)","Arc Main Energy (J)","D0","D1"'
    return "\n".join([names, *rows])


def with_voltage(runs: int) -> str:
    rows = [f"{i * 1e-5};{ma / 1000};3.0;{a};{b}" for i, ma, a, b in samples(runs)]
    return "\n".join(["# a comment", '"time (s)";"current (A)";"voltage (V)";D0;D1', *rows])


def plain_names(runs: int) -> str:
    rows = [f"{i * 1e-5}\t{ma / 1000}\t{a}\t{b}" for i, ma, a, b in samples(runs)]
    return "\n".join(["time\tMain current\tD0\tD1", *rows, ""])


def slashes(runs: int) -> str:
    rows = [f"{i * 10},{ma},{a},{b}" for i, ma, a, b in samples(runs)]
    return "\n".join(["Time/us,Current/mA,D0,D1", *rows])


def names_in_a_comment(runs: int) -> str:
    rows = [f"{i * 1e-5:.6f},{ma / 1000:.6f},3.0,{a},{b}" for i, ma, a, b in samples(runs)]
    return "\n".join(["# a comment", "#time (s),current (A),voltage (V),D0,D1", *rows])


def decimal_commas(runs: int) -> str:
    return names_in_a_comment(runs).replace(",", ";").replace(".", ",").replace("#time", "time")


LAYOUTS = [
    ppk2, ppk2_single_field, ppk2_both_fields, joulescope, joulescope_statistics, otii, with_voltage, plain_names,
    slashes, names_in_a_comment, decimal_commas,
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_energy_of_runs_and_steps(layout: Callable[[int], str], tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(layout(4), "utf-8")
    found = api.energy(log, run="D0", step="D1", volts=None if "voltage" in layout(0).lower() else 3.0)
    dt, volts = 1e-5, 3.0
    assert (len(found.runs), found.cut_runs, found.unclear_runs) == (4, 0, 0)
    for one in found.runs:
        assert [p.joules for p in one.steps] == pytest.approx([0.02 * 3 * dt * volts, 0.03 * 5 * dt * volts])
        assert one.whole.joules == pytest.approx((0.01 + 0.02 * 3 + 0.03 * 5) * dt * volts)
        assert (one.whole.seconds, one.whole.samples) == (pytest.approx(9 * dt), 9)
    assert found.joules == pytest.approx(found.runs[0].whole.joules)
    assert found.idle_watts == pytest.approx(0.001 * volts)
    assert [p.samples for p in found.steps] == list(STEPS)


def test_runs_at_the_ends_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    header, *rows = ppk2(4).splitlines()
    log.write_text("\n".join([header, *rows[6:-7]]))
    found = api.energy(log, run="D0", step="D1", volts=3.0)
    assert (len(found.runs), found.cut_runs) == (2, 2)
    assert found.runs[0].whole.joules == pytest.approx(found.runs[1].whole.joules)


@pytest.mark.parametrize(
    ("lines", "error", "text"),
    [
        ([], FormatError, "has fewer than two samples"),
        (["time,D0,D1", "0,0,0", "1,0,0"], FormatError, "has no column for the current"),
        (
            ["time,current,current 2,D0,D1", "0,0,0,0,0", "1,0,0,0,0"],
            FormatError,
            "has several columns for the current",
        ),
        (["time (s),current (A),D0-D7", "0,1,00000000", "1,1,0000000"], InputError, "column `D0` has no complete run"),
        (
            ["time (s),current (A),D0-D7", "0,1,00000000", "1,1,0X000000"],
            FormatError,
            "line 3 has `X` for the pin D1, it must",
        ),
        (
            ["time (s),current (A),D0-D7", "0,1,00000000", "1,1"],
            FormatError,
            "line 3 has `` for the pin D0, it must be 0",
        ),
        (["time (s),current (A),D2-D7", "0,1,000000", "1,1,000000"], FormatError, "has no column `D0`"),
        (["time (s),current (A),X0-D7", "0,1,000000", "1,1,000000"], FormatError, "has no column `D0`"),
        (
            ["timestamp,current,D0,D1", "1000000000,1,0,0", "1000010000,1,1,1", "1000020000,1,0,0"],
            FormatError,
            "the column `timestamp` has no unit, and in seconds its samples are 10000 s apart",
        ),
        (["time,current,D0,D1", "0,1,0,0", "1,1,1,1", "2,1,0,0"], FormatError, "in seconds its samples are 1 s apart"),
        (
            ["time,current,D0,D1", "2026-11-30T09:00:00,1,0,0", "09:00:01,1,0,0"],
            FormatError,
            "line 3 has no number for the time",
        ),
        (
            ["time,current,D0,D1", "2026-11-30T09:00:01,1,0,0", "2026-11-30T09:00:00Z,1,0,0"],
            FormatError,
            "the time falls after sample 0",
        ),
        (
            ["time,current,D0,D1", "2026-11-30T09:00:00,1,0,0", "2026-13-01T09:00:01,1,0,0"],
            FormatError,
            "line 3 has no number for the time",
        ),
        (
            ["Timestamp(ms),Current,D0,D1", "0,1,0,0", "1,1,0,0"],
            FormatError,
            r"the column `Current` has no unit, but `Timestamp\(ms\)` has one",
        ),
        (
            ["time (s),current (A),voltage,D0,D1", "0,1,3,0,0", "1,1,3,0,0"],
            FormatError,
            r"`voltage` has no unit, but `time \(s\)`, `current \(A\)` have one",
        ),
        (["time (h),current,D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, r"unknown unit in the column `time \(h\)`"),
        (["time,current (V),D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, r"unknown unit in the column `current \(V\)`"),
        (
            ["time (s),current (A),D0,D1", "0,1,0,0", "1,x,0,0"],
            FormatError,
            "log.csv: line 3 has no number for the current",
        ),
        (["time;current;D0;D1", "0.5;1,2;0;0", "1.5;1,3;0;0"], FormatError, "line 2 has no number for the current"),
        (["time (s),current (A),D0,D1", "0,1,0,0", "1,nan,0,0"], FormatError, "line 3 has no number for the current"),
        (["time (s),current (A),D0,D1", "0,1,0,0", "1,1,0"], FormatError, "line 3 has no number for the pin D1"),
        (["time (s),current (A),D0,D1", "0,1,0,0", "0,1,0,0"], FormatError, "the time never rises"),
        (["time,current,D0,D1", "1,1,0,0", "0,1,0,0"], FormatError, "the time falls after sample 0"),
        (
            ["time,current_ma_avg,D0,D1", "0,1,0,0", "1,1,0,0"],
            FormatError,
            "unknown unit in the column `current_ma_avg`",
        ),
        (["time_msec,current,D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, "unknown unit in the column `time_msec`"),
        (["time,CurrentmA,D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, "unknown unit in the column `CurrentmA`"),
        (
            ["time (s),current (A),D0,D1", "0,0,0,0", "1,0,1,1", "2,0,0,0"],
            InputError,
            "the current is 0 or negative in a run",
        ),
        (
            ["time (s),current (A),D0,D1", "0,1,2,0", "1,1,0,0"],
            FormatError,
            "column `D0` has other values than 0 and 1",
        ),
        (["time (s),current (A),D0,D1", "0,1,0,0", "1,1,1,0"], InputError, "column `D0` has no complete run"),
        (
            ["time (s),current (A),voltage (V),D0,D1", "0,1,3,0,0", "1,1,3,0,0"],
            OptionError,
            "has the voltage of each sample",
        ),
    ],
)
def test_a_log_that_says_nothing_is_refused(
    lines: Sequence[str], error: type[DeuteronError], text: str, tmp_path: Path
) -> None:
    log = tmp_path / "log.csv"
    log.write_text("\n".join(lines))
    with pytest.raises(error, match=text):
        api.energy(log, run="D0", step="D1", volts=3.0)


@pytest.mark.parametrize(
    "lines",
    [
        ["time,current,D0", *(f"2026-11-30T09:00:0{at},1,{at % 2}" for at in range(4))],
        ["#time,current,D0", *(f"2026-11-30T09:00:0{at}.0Z,1,{at % 2}" for at in range(4))],
        ["Timestamp (s),Wall-clock time (UTC),current (A),D0",
         *(f"{at},2026-11-30 09:00:0{at},1,{at % 2}" for at in range(4))],
    ],
    ids=["slow", "in a comment", "with numbers"],
)  # fmt: skip
def test_dates_as_times(lines: Sequence[str], tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("\n".join(lines))
    assert read_log(log, ["D0"]).seconds.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("step", "volts", "text"),
    [("D0", 3.0, "is the pin of runs and of steps"), ("D1", float("nan"), "is nan, it must be above 0")],
)
def test_options_that_say_nothing_are_refused(step: str, volts: float, text: str, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(ppk2(1))
    with pytest.raises(OptionError, match=text):
        api.energy(log, run="D0", step=step, volts=volts)
    with pytest.raises(InputError, match="cannot be read"):
        api.energy(tmp_path, run="D0", volts=3.0)
    with pytest.raises(InputError, match=r"nope.csv` cannot be read"):
        api.energy(tmp_path / "nope.csv", run="D0", firmware=tmp_path)


@pytest.mark.parametrize("layout", [ppk2_single_field, ppk2_both_fields])
def test_a_column_of_several_channels_is_no_pin(layout: Callable[[int], str], tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(layout(1))
    with pytest.raises(FormatError, match="name one channel of `D0-D7`, such as `D0`"):
        api.energy(log, run="D0-D7", volts=3.0)


def test_a_log_without_voltage_needs_it(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(ppk2(1))
    with pytest.raises(OptionError, match="the log has no voltage"):
        api.energy(log, run="D0")


def modelled(seed: int, rate: float, shortest: float = 80e-6) -> tuple[str, list[float]]:
    """The log of a meter with a rate of samples, and the microseconds of twelve steps of random length.

    Half a microsecond between two steps is the executor's. The current has the number of the step, in mA.
    """
    chance = random.Random(seed)
    lengths = [shortest, *(chance.uniform(80e-6, 900e-6) for _ in range(11))]
    changes: list[tuple[float, int, int, int]] = [(0.0, 1, 0, 0)]
    at = 1e-4
    for _ in range(5):
        changes.append((at, 1, 1, 0))
        at += chance.uniform(0.3e-6, 0.9e-6)
        for i, length in enumerate(lengths):
            changes.append((at, i + 1, 1, 1 - i % 2))
            at += length + 0.5e-6
        changes += [(at, 1, 0, 0)]
        at += chance.uniform(4e-4, 5e-4)
    starts = [start for start, *_ in changes]
    rows = ["Timestamp(ms),Current(uA),D0,D1"]
    for i in range(int(at * rate)):
        _, ma, run, step = changes[bisect.bisect_right(starts, i / rate) - 1]
        rows.append(f"{1000 * i / rate:.3f},{1000 * ma},{run},{step}")
    return "\n".join(rows), lengths


@pytest.mark.parametrize("seed", range(5))
def test_steps_without_a_pause_are_seen_at_the_rate_of_a_meter(tmp_path: Path, seed: int) -> None:
    """100,000 samples a second, as of PPK2, and half a microsecond between steps."""
    log = tmp_path / "log.csv"
    text, lengths = modelled(seed, 100e3)
    log.write_text(text)
    found = api.energy(log, run="D0", step="D1", volts=2.0)
    assert (len(found.runs), found.unclear_runs, len(found.steps)) == (5, 0, 12)
    for i, (step, length) in enumerate(zip(found.steps, lengths, strict=True)):
        assert step.seconds == pytest.approx(length, abs=10e-6)
        assert step.joules == pytest.approx((i + 1) * 1e-3 * 2.0 * length, abs=12e-3 * 2.0 * 10e-6)


def test_a_step_that_no_sample_sees_is_never_given_to_another(tmp_path: Path) -> None:
    """A step of 5 us is seen in some runs at 100,000 samples a second: the others count as a whole only."""
    log = tmp_path / "log.csv"
    text, lengths = modelled(0, 100e3, shortest=5e-6)
    log.write_text(text)
    found = api.energy(log, run="D0", step="D1", volts=2.0)
    assert 0 < found.unclear_runs < 5
    assert sum(not run.steps for run in found.runs) == found.unclear_runs
    assert [step.seconds for step in found.steps[1:]] == pytest.approx(lengths[1:], abs=11e-6)
    log.write_text(modelled(3, 100e3, shortest=0.1e-6)[0])
    found = measure(read_log(log, ["D0", "D1"]), "D0", "D1", 2.0, steps=12)
    assert (found.unclear_runs, found.steps, found.seen) == (5, (), 10)
    assert found.joules > 0
