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
    """What is to be run; arguments and errors are those of `deuteron.api.subject`, which calls this."""
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
