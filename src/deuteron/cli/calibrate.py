"""`deuteron calibrate`: keeps how much longer your boards take than estimated."""

from pathlib import Path

import click

from deuteron.cli.options import PATH
from deuteron.cli.options import command as new_command
from deuteron.cli.printer import Printer


@new_command
@click.argument("profiles", metavar="[PROFILE]...", type=PATH, nargs=-1)
def command(printer: Printer, *, profiles: tuple[Path, ...]) -> None:
    """Keep measured times of a board in a file of yours, and show the band of each board and target.

    PROFILE is of `deuteron profile BUILD --on serial:PORT`. `sim` and `profile` then print the bands. Without a
    profile, this shows what is in the file.
    """
    from deuteron import api
    from deuteron.arch import calibration
    from deuteron.records import plain

    bands = api.calibrate(profiles)
    if printer.as_json:
        rows = [plain(one) | {"ratio": one.ratio} for one in calibration.read()]
        printer.json({"schema": 1, "kind": "measured", "file": str(calibration.path()), "measurements": rows})
    else:
        for band in bands:
            printer.row(f"{band.target}: {band}")
        for one in calibration.read():
            printer.row(f"  {one.ratio:>6.2f}  {one.model} for {one.target} on {one.board}, {one.processor}")
    if profiles:
        printer.note(f"wrote `{calibration.path()}`")
    elif not bands:
        printer.note(f"`{calibration.path()}` has no measurements")
