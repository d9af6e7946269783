"""Measurements of boards: energy from the log of a current meter, and what times say about estimates."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from deuteron.errors import OptionError

if TYPE_CHECKING:
    from deuteron.arch.calibration import OwnBand
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
        run: column of the pin that is high during runs.
        step: column of the pin that is high during steps.
        volts: the supply, in V, for a log without voltage.
        firmware: directory of `deuteron firmware`, which names the steps.

    Raises:
        DeuteronError: a file cannot be read, or the log has no complete run.
    """
    from deuteron.board import record
    from deuteron.views import energy as energies

    if firmware is not None and step is None:
        raise OptionError(f"`{firmware}` names the steps of a run", hint="give their pin too: `--step COLUMN`")
    titles = tuple(info.title for info in record.read(Path(firmware)).steps) if firmware is not None else ()
    found = energies.measure(energies.read_log(Path(log), [run, *([step] if step else [])]), run, step, volts)
    return replace(found, titles=titles) if len(titles) == len(found.steps) else found


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
