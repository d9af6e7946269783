"""Measurements of boards: energy from the log of a current meter, and what times say about estimates."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deuteron.errors import OptionError

if TYPE_CHECKING:
    from deuteron.arch.calibration import OwnBand
    from deuteron.board.firmware_record import StepInfo
    from deuteron.views.energy import Energy


def energy(
    log: str | Path,
    *,
    run: str,
    step: str | None = None,
    volts: float | None = None,
    firmware: str | Path | None = None,
) -> "Energy":
    """Return the measured energy of runs and steps from the CSV file of a current meter.

    Args:
        log: the file, with columns for time, current and the pins that the port's `dtn_port_trigger` drives.
        run: pin that is high during runs.
        step: pin that changes at the start of each step.
        volts: the supply, in V, for a log without voltage.
        firmware: directory of `deuteron firmware`, which has number and names of the steps.

    Raises:
        DeuteronError: a file cannot be read, or the log has no complete run.
    """
    from deuteron.board import firmware_record
    from deuteron.views.energy import measure
    from deuteron.views.energy_log import read_log

    recorded = read_log(Path(log), [run, *([step] if step else [])])
    if firmware is not None and step is None:
        raise OptionError(f"`{firmware}` names the steps of a run", hint="give their pin too: `--step COLUMN`")
    titles = _titles(firmware_record.read(Path(firmware)).steps) if firmware is not None else ()
    found = measure(recorded, run, step, volts, len(titles) or None)
    return replace(found, titles=titles) if found.steps else found


def _titles(steps: "Sequence[StepInfo]") -> tuple[str, ...]:
    """Return a title for each edge of the step pin: steps that the executor runs in one call have one."""
    titles: list[str] = []
    for step in steps:
        if step.joins_previous:
            titles[-1] = f"{titles[-1]}; {step.title}"
        else:
            titles.append(step.title)
    return tuple(titles)


def calibrate(profiles: Iterable[str | Path] = ()) -> "tuple[OwnBand, ...]":
    """Add profiles of boards to your file of measurements; return the band of each board, target and processor.

    Args:
        profiles: directories or files of `profile` on a line to a board.

    Raises:
        DeuteronError: a profile or the file cannot be read, or a profile has no times of a chip; nothing is added then.
    """
    from deuteron.arch import calibration
    from deuteron.views.profile.calibrate import measurements

    if new := [one for path in profiles for one in measurements(Path(path))]:
        calibration.add(new)
    return calibration.bands()
