"""Turns a TFLite file or a program into a build directory, for commands that take a build."""

import hashlib
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds import output
from deuteron.builds.options import DEFAULT_TARGET, BuildOptions, TfliteOptions
from deuteron.errors import CapacityError, DeuteronError, OptionError, UnsupportedError, absent
from deuteron.runtime import pte, tflite_model
from deuteron.tflite.flat_model import Buffer


def is_tflite(path: Path) -> bool:
    """Return true for a readable file that is a TFLite model by its name or its content."""
    try:
        with path.open("rb") as file:
            return path.suffix == ".tflite" or file.read(8)[4:] == b"TFL3"
    except OSError:
        return False


def is_program(path: Path) -> bool:
    """Return true for a file that is an ExecuTorch program by its name or its content."""
    return (path.suffix == ".pte" and path.is_file()) or pte.is_program(path)


def build_directory(
    path: str | Path,
    target: str | None = None,
    *,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
    profiling: bool = False,
) -> Path:
    """Return a build directory: `path` itself, or for a file one that exists until this process ends.

    A program inside a build directory is that build. The same file always gives the same directory.

    Args:
        path: a build directory, a TFLite file, or a program.
        target: the target of a TFLite file, or of a program that does not name its own.
        etrecord: ETRecord of a program.
        tflite: options of a TFLite file.
        profiling: make microcode of a TFLite file that records when kernels start and stop.

    Raises:
        OptionError: a target is given for a compiled file, an ETRecord for a file that is not a program, or options
            of a TFLite file for another one.
        DeuteronError: the file is damaged, or the NPU does not support it.
    """
    path = Path(path)
    check_given(path)
    if not is_tflite(path):
        tflite.check_unused(path)
    if is_program(path):
        if (build := build_around(path)) is None:
            return _of_program(path.absolute(), target, Path(etrecord) if etrecord else None)
        path = build
    elif etrecord:
        raise OptionError(
            f"`--etrecord` describes a program, but `{path}` is not a program",
            hint="leave it out, or give the `.pte` file",
        )
    elif is_tflite(path):
        with named_default(is_default=target is None):
            return _of_tflite(path.absolute(), target or DEFAULT_TARGET, tflite, profiling=profiling)
    if target:
        raise OptionError(f"`{path}` is already compiled for a target", hint="leave out `--target`")
    return path


def check_given(path: Path) -> None:
    """Raise InputError for a file that does not exist, and for a Python file, each with a hint."""
    if path.suffix == ".py":
        raise tflite_model.is_python(path)
    if path.suffix in (".tflite", ".pte") and not path.exists():
        raise absent(path)


@contextmanager
def named_default(*, is_default: bool) -> Generator[None]:
    """Add the default target to the place of errors that depend on the target, if no other is chosen."""
    try:
        yield
    except (UnsupportedError, CapacityError) as error:
        if not is_default:
            raise
        place = f"{error.where}, " if error.where else ""
        raise error.relocate(f"{place}for the default target `{DEFAULT_TARGET}`") from error


@contextmanager
def opened(
    path: str | Path,
    target: str | None = None,
    *,
    etrecord: str | Path | None = None,
    tflite: TfliteOptions = TfliteOptions(),
) -> Generator[Path]:
    """Yield `build_directory`; errors raised in the context name the given file instead."""
    directory = build_directory(path, target, etrecord=etrecord, tflite=tflite)
    try:
        yield directory
    except DeuteronError as error:
        parts = error.message, error.hint, error.where
        message, hint, where = (part and part.replace(str(directory), str(path)) for part in parts)
        if (message, hint, where) == parts:
            raise
        raise type(error)(str(message), hint=hint, where=where) from error


def missing(path: str | Path, target: str | None = None, etrecord: str | Path | None = None) -> tuple[str, ...]:
    """Return sentences about facts that the given program lacks; none for other files."""
    path = Path(path)
    if not is_program(path) or build_around(path) is not None:
        return ()
    return manifests.read(build_directory(path, target, etrecord=etrecord)).warnings


def build_around(program: Path) -> Path | None:
    """Return the build directory that contains a program, if the program belongs to that build."""
    folder = program.absolute().parent
    if program.name != manifests.PROGRAM or not (folder / manifests.NAME).is_file():
        return None
    try:
        manifests.read(folder)
    except DeuteronError:
        return None
    return folder


@cache
def _scratch() -> "tempfile.TemporaryDirectory[str]":
    """Return the directory for such builds; removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="deuteron-build-")


def _of_tflite(path: Path, target: str, options: TfliteOptions, *, profiling: bool) -> Path:
    from deuteron.board import vela_budget  # imported here because the compiler loads slowly

    directory = _place(path, target, str(options), str(profiling), tflite_model.read(path))
    if not directory.is_dir():
        _write(directory, *vela_budget.build_of(path, target, BuildOptions(use_profiling=profiling, tflite=options)))
    return directory


def _of_program(path: Path, target: str | None, etrecord: Path | None) -> Path:
    from deuteron.runtime import pte_build  # imported here because all NPU families load slowly

    recorded = pte_build.read_bytes(etrecord) if etrecord else b""
    directory = _place(path, str(target), hashlib.sha256(recorded).hexdigest(), pte_build.read_bytes(path))
    if not directory.is_dir():
        _write(directory, *pte_build.build_of(path, target, etrecord))
    return directory


def _place(path: Path, *content: str | Buffer) -> Path:
    """Return the build directory for a file with this content; it has the file's name."""
    key = hashlib.sha256(str(path).encode())
    for part in content:
        key.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return Path(_scratch().name) / key.hexdigest()[:16] / path.name


def _write(directory: Path, manifest: manifests.Manifest, files: dict[str, bytes]) -> None:
    directory.parent.mkdir(exist_ok=True)
    output.write(directory, {**files, manifests.NAME: manifest.to_json().encode()}, force=False)
