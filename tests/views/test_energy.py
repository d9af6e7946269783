"""Energy of runs and steps from the logs of current meters."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from deuteron import api
from deuteron.errors import DeuteronError, FormatError, InputError, OptionError

STEPS = (3, 5)
"""Samples of the steps of a run, with one sample before, between and after them."""


def samples(runs: int) -> list[tuple[int, float, int, int]]:
    """Index, milliamperes and the levels of two pins: 1 mA between runs, 10 mA in them, 20 and 30 mA in their steps."""
    rows: list[tuple[float, int, int]] = [(1, 0, 0)] * 4
    for _ in range(runs):
        rows += [(10, 1, 0), *[(20, 1, 1)] * STEPS[0], (10, 1, 0), *[(30, 1, 1)] * STEPS[1], (10, 1, 0)]
        rows += [(1, 0, 0)] * 4
    return [(i, *row) for i, row in enumerate(rows)]


def ppk2(runs: int) -> str:
    rows = [f"{i / 100:.2f},{1000 * ma:.3f},{a},{b}" for i, ma, a, b in samples(runs)]
    return "\n".join(["Timestamp(ms),Current(uA),D0,D1", *rows])


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


@pytest.mark.parametrize("layout", [ppk2, with_voltage, plain_names, slashes, names_in_a_comment, decimal_commas])
def test_energy_of_runs_and_steps(layout: Callable[[int], str], tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(layout(4), "utf-8")
    found = api.energy(log, run="D0", step="D1", volts=None if "voltage" in layout(0) else 3.0)
    dt, volts = 1e-5, 3.0
    assert (len(found.runs), found.cut_runs) == (4, 0)
    for one in found.runs:
        assert [p.joules for p in one.steps] == pytest.approx([0.02 * 3 * dt * volts, 0.03 * 5 * dt * volts])
        assert one.whole.joules == pytest.approx((0.03 + 0.02 * 3 + 0.03 * 5) * dt * volts)
        assert (one.whole.seconds, one.whole.samples) == (pytest.approx(11 * dt), 11)
    assert found.joules == pytest.approx(found.runs[0].whole.joules)
    assert found.idle_watts == pytest.approx(0.001 * volts)
    assert [p.samples for p in found.steps] == list(STEPS)


def test_runs_at_the_ends_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    header, *rows = ppk2(4).splitlines()
    log.write_text("\n".join([header, *rows[8:-9]]))
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
        (["time,current,D0-D7", "0,1,00000000", "1,1,00000000"], FormatError, "has no column `D0`"),
        (["time (h),current,D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, r"unknown unit in the column `time \(h\)`"),
        (["time,current (V),D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, r"unknown unit in the column `current \(V\)`"),
        (["time,current,D0,D1", "0,1,0,0", "1,x,0,0"], FormatError, "log.csv: line 3 has no number for the current"),
        (["time;current;D0;D1", "0.5;1,2;0;0", "1.5;1,3;0;0"], FormatError, "line 2 has no number for the current"),
        (["time,current,D0,D1", "0,1,0,0", "1,nan,0,0"], FormatError, "line 3 has no number for the current"),
        (["time,current,D0,D1", "0,1,0,0", "1,1,0"], FormatError, "line 3 has no number for the pin D1"),
        (["time,current,D0,D1", "0,1,0,0", "0,1,0,0"], FormatError, "the time never rises"),
        (["time,current,D0,D1", "1,1,0,0", "0,1,0,0"], FormatError, "the time falls after sample 0"),
        (
            ["time,current_ma_avg,D0,D1", "0,1,0,0", "1,1,0,0"],
            FormatError,
            "unknown unit in the column `current_ma_avg`",
        ),
        (["time_msec,current,D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, "unknown unit in the column `time_msec`"),
        (["time,CurrentmA,D0,D1", "0,1,0,0", "1,1,0,0"], FormatError, "unknown unit in the column `CurrentmA`"),
        (["time,current,D0,D1", "0,0,0,0", "1,0,1,1", "2,0,0,0"], InputError, "the current is 0 or negative in a run"),
        (["time,current,D0,D1", "0,1,2,0", "1,1,0,0"], FormatError, "column `D0` has other values than 0 and 1"),
        (["time,current,D0,D1", "0,1,0,0", "1,1,1,0"], InputError, "column `D0` has no complete run"),
        (["time,current,voltage,D0,D1", "0,1,3,0,0", "1,1,3,0,0"], OptionError, "has the voltage of each sample"),
        (
            [
                "time,current,D0,D1",
                *(f"{i},1,{a},{b}" for i, (a, b) in enumerate(["00", "11", "10", "00", "10", "00"])),
            ],
            InputError,
            "runs differ in the number of pulses of `D1`: 0, 1",
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


def test_a_log_without_voltage_needs_it(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(ppk2(1))
    with pytest.raises(OptionError, match="the log has no voltage"):
        api.energy(log, run="D0")
