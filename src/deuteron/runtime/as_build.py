"""What is given in the place of a build, a TFLite file or a program, as a build directory."""

import hashlib
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from deuteron.builds import manifest as manifests
from deuteron.builds import output
from deuteron.builds.options import DEFAULT_TARGET
from deuteron.errors import DeuteronError, InputError, OptionError
from deuteron.runtime import pte, tflite_model
from deuteron.tflite.flat_model import Buffer


def is_tflite(path: Path) -> bool:
    """Whether a file says that it is a TFLite model, by its name or its content; not when it cannot be read."""
    try:
        with path.open("rb") as file:
            return path.suffix == ".tflite" or file.read(8)[4:] == b"TFL3"
    except OSError:
        return False


def is_program(path: Path) -> bool:
    """Whether a file says that it is a program of ExecuTorch's, by its name or its content."""
    return (path.suffix == ".pte" and path.is_file()) or pte.is_program(path)


def build_directory(
    path: str | Path, target: str | None = None, *, etrecord: str | Path | None = None, profiling: bool = False
) -> Path:
    """The directory of a build: `path` itself or, of a file, one that is gone when this process ends.

    A program that lies in its build directory is that build. The same file gives the same directory.

    Args:
        path: a build directory, a TFLite file, or a program.
        target: what a TFLite file is converted for, or what a program was made for, where it does not tell.
        etrecord: of a program.
        profiling: whether the kernels of a TFLite file record when they start and stop.

    Raises:
        OptionError: a target is given for what has been compiled, or an ETRecord for what is no program.
        DeuteronError: the file is damaged, or holds what the NPU does not take.
    """
    path = Path(path)
    check_given(path)
    if is_program(path):
        if (build := build_around(path)) is None:
            return _of_program(path.absolute(), target, Path(etrecord) if etrecord else None)
        path = build
    elif etrecord:
        raise OptionError(
            f"`--etrecord` says what a program was made from, and `{path}` is none",
            hint="leave it out, or give the `.pte` file",
        )
    elif is_tflite(path):
        return _of_tflite(path.absolute(), target or DEFAULT_TARGET, profiling=profiling)
    if target:
        raise OptionError(f"`{path}` has been compiled for its target already", hint="leave out `--target`")
    return path


def check_given(path: Path) -> None:
    """Raise InputError for a file that is not there, and for one of Python, each with what to do about it."""
    if path.suffix == ".py":
        raise tflite_model.is_python(path)
    if path.suffix in (".tflite", ".pte") and not path.exists():
        raise InputError(f"`{path}` does not exist", hint="check its name; a path is taken from the current directory")


@contextmanager
def opened(path: str | Path, target: str | None = None, *, etrecord: str | Path | None = None) -> Generator[Path]:
    """The same directory, for as long as errors about it shall name the file that was given in its place."""
    directory = build_directory(path, target, etrecord=etrecord)
    try:
        yield directory
    except DeuteronError as error:
        parts = error.message, error.hint, error.where
        message, hint, where = (part and part.replace(str(directory), str(path)) for part in parts)
        if (message, hint, where) == parts:
            raise
        raise type(error)(str(message), hint=hint, where=where) from error


def missing(path: str | Path, target: str | None = None, etrecord: str | Path | None = None) -> tuple[str, ...]:
    """Sentences about what a program in the place of a build does not say; none of all else."""
    path = Path(path)
    if not is_program(path) or build_around(path) is not None:
        return ()
    return manifests.read(build_directory(path, target, etrecord=etrecord)).warnings


def build_around(program: Path) -> Path | None:
    """The build directory that a program lies in, if it is that build's."""
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
    """Where such builds are written; removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="deuteron-build-")


def _of_tflite(path: Path, target: str, *, profiling: bool) -> Path:
    from deuteron.runtime import tflite_build  # the compiler takes a while to load

    directory = _place(path, target, str(profiling), tflite_model.read(path))
    if not directory.is_dir():
        _write(directory, *tflite_build.build_of(path, target, profiling=profiling))
    return directory


def _of_program(path: Path, target: str | None, etrecord: Path | None) -> Path:
    from deuteron.runtime import pte_build  # so do all NPU families

    recorded = pte_build.read_bytes(etrecord) if etrecord else b""
    directory = _place(path, str(target), hashlib.sha256(recorded).hexdigest(), pte_build.read_bytes(path))
    if not directory.is_dir():
        _write(directory, *pte_build.build_of(path, target, etrecord))
    return directory


def _place(path: Path, *content: str | Buffer) -> Path:
    """The directory of the build of a file with this content, which has the file's name."""
    key = hashlib.sha256(str(path).encode())
    for part in content:
        key.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return Path(_scratch().name) / key.hexdigest()[:16] / path.name


def _write(directory: Path, manifest: manifests.Manifest, files: dict[str, bytes]) -> None:
    directory.parent.mkdir(exist_ok=True)
    output.write(directory, {**files, manifests.NAME: manifest.to_json().encode()}, force=False)
