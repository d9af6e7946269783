"""`deuteron energy`: energy of runs and steps from the log of a current meter."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer
from deuteron.errors import counted

if TYPE_CHECKING:
    from deuteron.views.energy import Energy


@new_command
@click.argument("log", metavar="LOG.csv", type=PATH)
@click.argument("directory", metavar="DIR", type=PATH, required=False)
@click.option("--run", metavar="COLUMN", required=True, help="Pin that is high during a run (`D0`).")
@click.option("--step", metavar="COLUMN", help="Pin that changes at each step (`D1`).")
@click.option("--volts", type=click.FloatRange(0, min_open=True), metavar="V", help="Supply, if the log has none.")
def command(
    printer: Printer, *, log: Path, directory: Path | None, run: str, step: str | None, volts: float | None
) -> None:
    """Show the measured energy of each run and step of a board from the CSV file of a current meter.

    LOG.csv has columns for time, current and the pins that `dtn_port_trigger` of the port drives. With DIR of `deuteron
    firmware`, steps have their names.
    """
    from deuteron import api

    energy = api.energy(log, run=run, step=step, volts=volts, firmware=directory)
    if energy.unclear_runs:
        printer.warn(_unclear(energy, str(step), log, directory))
    if energy.gaps:
        longest = max(energy.gaps, key=lambda gap: gap.seconds)
        printer.warn(
            f"samples are missing in {counted(len(energy.gaps), 'place')} of `{log}`, "
            f"{sum(gap.is_in_run for gap in energy.gaps)} of them in runs; the longest is {longest.seconds:g} s after "
            f"{longest.at:g} s; the last sample before each counts for it"
        )
    if printer.as_json:
        printer.json(_json(energy))
        return
    for line in _lines(energy):
        printer.row(line)


def _unclear(energy: "Energy", step: str, log: Path, directory: Path | None) -> str:
    """Return a warning about runs with another number of steps than expected, and its likely reasons."""
    left = "no step is shown" if not energy.steps else "their steps are left out"
    expected = f"`{directory}` has {energy.expected:,}" if directory else f"the log has up to {energy.expected:,}"
    reason = (
        f"a step is shorter than the time between two samples, or `{directory or log}` is of another program; sample "
        "faster, or lower the clock of the core"
    )
    if energy.seen > energy.expected:
        reason = f"`{directory}` is of another program, or `{step}` is not the pin of steps"
    elif energy.seen <= 1 < energy.expected:
        reason = f"`--run` and `--step` are swapped, {reason}"
    return (
        f"`{step}` does not show all steps in {counted(energy.unclear_runs, 'run')} of {len(energy.runs):,} (most "
        f"often {energy.seen:,} in a run, {expected}), and {left}: {reason}"
    )


def _json(energy: "Energy") -> dict[str, object]:
    from deuteron.records import plain

    names = energy.titles or [None] * len(energy.steps)
    steps = [{"title": title, **plain(pulse)} for title, pulse in zip(names, energy.steps, strict=True)]
    runs = [plain(one.whole) for one in energy.runs]
    mean = {"joules": energy.joules, "idle_watts": energy.idle_watts}
    left_out = {"cut_runs": energy.cut_runs, "unclear_runs": energy.unclear_runs}
    return {"schema": 2, "kind": "measured", **left_out, **mean, "runs": runs, "steps": steps}


def _lines(energy: "Energy") -> Iterator[str]:
    from deuteron.views.energy import FEW

    micro = [1e6 * one.whole.joules for one in energy.runs]
    millis = [1e3 * one.whole.seconds for one in energy.runs]
    cut = f"; {counted(energy.cut_runs, 'run')} at the ends of the log left out" if energy.cut_runs else ""
    yield f"energy of {counted(len(micro), 'run')} (measured){cut}"
    yield f"  run: {1e6 * energy.joules:,.3f} µJ ({min(micro):,.3f} to {max(micro):,.3f})"
    yield f"  duration: {sum(millis) / len(millis):,.3f} ms ({min(millis):,.3f} to {max(millis):,.3f})"
    if energy.idle_watts is not None:
        yield f"  power between runs: {1e3 * energy.idle_watts:,.3f} mW"
    if not energy.steps:
        return
    yield ""
    yield f"  {'µJ':>12}  {'share':>5}  {'ms':>9}  {'samples':>7}  step"
    for i, pulse in enumerate(energy.steps):
        share, name = pulse.joules / energy.joules, energy.titles[i] if energy.titles else ""
        yield (
            f"  {1e6 * pulse.joules:>12,.3f}  {share:>5.1%}  {1e3 * pulse.seconds:>9,.4f}  {pulse.samples:>7,}  "
            f"{i}{': ' if name else ''}{name}"
        )
    if not energy.titles:
        yield "  steps that are shorter than the time between two samples may be missing; DIR tells how many there are"
    if few := sum(pulse.samples < FEW for pulse in energy.steps):
        yield f"  {counted(few, 'step')} with fewer than {FEW} samples: raise the sampling rate to tell them apart"
