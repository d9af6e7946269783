"""What a path and a place to run name: a build or a TFLite file on this machine, a build or firmware on a board."""

from pathlib import Path

from deuteron.board.flash import FlashOptions
from deuteron.builds.options import DEFAULT_TARGET
from deuteron.errors import OptionError
from deuteron.views.run.board import OnBoard
from deuteron.views.run.host import BuildOnHost, TfliteOnHost
from deuteron.views.run.subjects import Subject


def subject(
    path: Path,
    *,
    on: str | None = None,
    target: str | None = None,
    time_out: float | None = None,
    flash: FlashOptions = FlashOptions(),
    origin: Path | None = None,
) -> Subject:
    """What is to be run.

    Args:
        path: a build directory, a TFLite file, or with `on` the directory of a build or of firmware.
        on: a board, in an emulator; the host by default.
        target: what a TFLite file is converted for, unless it has been.
        time_out: seconds after which an emulator counts as hung.
        flash: of an emulated board.
        origin: the build that firmware was made from, to be compared with.

    Raises:
        OptionError: an option does not fit.
        DeuteronError: what is at `path` cannot be run.
    """
    has_flash = flash != FlashOptions()
    for what, value in (
        ("`--build` is", origin),
        ("`--time-out` is", time_out),
        ("the options about the flash are", has_flash),
    ):
        if value and not on:
            raise OptionError(f"{what} for emulators", hint="name a board with `--on`")
    chosen: Subject
    if on:
        chosen = OnBoard(path, on, time_out, flash, origin)
    else:
        chosen = TfliteOnHost(path, target or DEFAULT_TARGET) if path.is_file() else BuildOnHost(path)
    if target and chosen.is_compiled:
        raise OptionError(f"`{path}` has been compiled for its target already", hint="leave out `--target`")
    return chosen
