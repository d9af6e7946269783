"""Chooses the subject of a run from a path and a place: a build or a file here, a build or firmware on a board."""

from pathlib import Path

from deuteron.board.build_directory import (
    build_around,
    build_directory,
    check_given,
    is_program,
    is_tflite,
    named_default,
)
from deuteron.board.flash import FlashOptions
from deuteron.board.harness.line import is_line
from deuteron.builds import manifest as manifests
from deuteron.builds.options import DEFAULT_TARGET, TfliteOptions
from deuteron.errors import OptionError
from deuteron.runtime import tflite_ethosu, tflite_model, vela
from deuteron.tflite.decode import decode
from deuteron.views.run.host import BuildOnHost, ProgramOnHost, TfliteOnHost
from deuteron.views.run.subjects import Subject


def subject(
    path: Path,
    *,
    on: str | None = None,
    target: str | None = None,
    etrecord: str | Path | None = None,
    time_out: float | None = None,
    flash: FlashOptions = FlashOptions(),
    origin: Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    baud: int | None = None,
) -> Subject:
    """Return the subject of a run; arguments and errors are those of `deuteron.api.subject`, which calls this."""
    check_given(path)
    if not is_tflite(path):
        tflite.check_unused(path)
    has_flash = flash != FlashOptions()
    for what, value in (
        ("`--build` is", origin),
        ("`--time-out` is", time_out),
        ("the options about the flash are", has_flash),
    ):
        if value and not on:
            raise OptionError(f"{what} for boards", hint="name a board with `--on`")
    on_line = is_line(on)
    if baud is not None and not on_line:
        raise OptionError("`--baud` is for a serial port", hint="name the port with `--on serial:PORT`")
    if on_line and has_flash:
        raise OptionError(
            "the options about the flash are for emulators", hint="leave them out: a board has its own flash"
        )
    if etrecord and (not is_program(path) or build_around(path)):
        raise OptionError(
            f"`--etrecord` is for a program without its build, but `{path}` is not one",
            hint="leave it out, or give the `.pte` file",
        )
    if on:
        chosen = _on_board(path, on, target, etrecord, time_out, flash, origin, tflite, baud)
    else:
        chosen = _on_host(path, target, Path(etrecord) if etrecord else None, tflite)
    if target and chosen.is_compiled and not (on and is_program(path)):
        raise OptionError(f"`{path}` is already compiled for a target", hint="leave out `--target`")
    if not target and not chosen.is_compiled and is_tflite(path) and _compiled_for(path) is None:
        chosen.default_target = DEFAULT_TARGET
    return chosen


def _on_board(
    path: Path,
    board: str,
    target: str | None,
    etrecord: str | Path | None,
    time_out: float | None,
    flash: FlashOptions,
    origin: Path | None,
    tflite: TfliteOptions,
    baud: int | None,
) -> Subject:
    """Return the subject for a board in an emulator, or at the end of a line."""
    from deuteron.views.run.board import OnBoard  # loads slowly
    from deuteron.views.run.line import LineOptions, OnLine

    host = None
    if is_tflite(path):
        host = _tflite_on_host(path, target, tflite)
        path = build_directory(path, target, tflite=tflite)
    elif is_program(path):
        path = build_directory(path, target, etrecord=etrecord)
    if is_line(board):
        return OnLine(path, LineOptions(board, baud, time_out), origin, host)
    return OnBoard(path, board, time_out, flash, origin, host)


def _on_host(path: Path, target: str | None, etrecord: Path | None, tflite: TfliteOptions) -> Subject:
    """Return the subject for this machine; a file's content or name determines its kind."""
    if not path.is_file():
        return _build_on_host(path)
    if is_program(path):
        build = build_around(path)
        return _build_on_host(build) if build else ProgramOnHost(path, etrecord)
    return _tflite_on_host(path, target, tflite)


def _build_on_host(path: Path) -> Subject:
    """A build directory; the build of a TFLite file needs no ExecuTorch runtime."""
    if (path / manifests.NAME).is_file() and manifests.TFLITE in manifests.read(path).files:
        from deuteron.views.run.tflite import BundleOnHost  # what makes firmware takes a while to load

        return BundleOnHost(path)
    return BuildOnHost(path)


def _tflite_on_host(path: Path, target: str | None, tflite: TfliteOptions) -> Subject:
    """A TFLite file: as firmware has it where the target's CPU runs C operators, else by the driver and LiteRT."""
    known = target or _compiled_for(path)
    target = known or DEFAULT_TARGET
    with named_default(is_default=known is None):
        if tflite_model.has_c_operators(target):
            from deuteron.views.run.tflite import BundleOnHost

            return BundleOnHost(build_directory(path, target, tflite=tflite), is_compiled=False)
        return TfliteOnHost(path, target, tflite)


def _compiled_for(path: Path) -> str | None:
    """The target of a file that Vela compiled and left operators of to the CPU; None for all others."""
    with tflite_model.told_where(path):
        model = decode(tflite_model.read(path), partial=True)
        if not vela.is_compiled(model) or not vela.program_of(model).cpu_operators:
            return None
        return tflite_ethosu.target_of(model)
