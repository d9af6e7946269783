"""Writes a build directory: all of it or nothing."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from deuteron.builds.manifest import NAME
from deuteron.errors import InputError, OptionError, unwritable


def check_output(directory: Path, *, force: bool, record: str = NAME) -> None:
    """Check, before slow work, that files may be written there.

    Only a directory that is empty or has an earlier `record` is ever replaced.

    Raises:
        OptionError: the directory must not be replaced.
        InputError: the parent directory does not exist or is not writable.
    """
    parent = directory.absolute().parent
    if parent.exists() and not parent.is_dir():
        raise InputError(f"`{parent}` is a file, not a folder", hint="choose another output directory")
    if not parent.is_dir():
        raise InputError(f"the folder `{parent}` does not exist", hint="create it first")
    try:
        with _scratch_next_to(directory):
            pass
    except OSError as e:
        raise unwritable(directory, e) from e
    if not (directory.exists() or directory.is_symlink()):
        return
    if directory.is_symlink() or not directory.is_dir():
        raise OptionError(f"`{directory}` is not a directory", hint="choose another output directory")
    if any(directory.iterdir()) and not (directory / record).is_file():
        raise OptionError(
            f"`{directory}` has files but no `{record}`, so it is not replaced",
            hint="choose another output directory, or empty this one yourself",
        )
    if not force:
        raise OptionError(
            f"`{directory}` already exists", hint="choose another output directory, or replace this one with `--force`"
        )


def check_file(path: Path, *, force: bool) -> None:
    """Check, before slow work, that a file may be written there.

    Raises:
        OptionError: the file must not be replaced.
        InputError: its folder does not exist.
    """
    if path.is_dir():
        raise OptionError(f"`{path}` is a directory", hint="name a file")
    if path.exists() and not path.is_file():
        raise OptionError(f"`{path}` is not a regular file, so it is not replaced", hint="choose another name")
    if path.exists() and path.suffix == ".py":
        raise OptionError(f"`{path}` is a Python file, so it is not replaced", hint="choose another name")
    if path.exists() and not force:
        raise OptionError(f"`{path}` exists", hint="choose another name, or replace it with `--force`")
    if not path.absolute().parent.is_dir():
        raise InputError(f"`{path}` cannot be written: there is no directory `{path.parent}`", hint="create it first")


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write each file under a temporary name, and rename all when all are written.

    Raises:
        InputError: a file cannot be written.
    """
    fresh = {path: path.with_name(f".{path.name}.new") for path in files}
    path = next(iter(files))
    try:
        try:
            for path, data in files.items():
                fresh[path].write_bytes(data)
            for path, written in fresh.items():
                written.replace(path)
        finally:
            for written in fresh.values():
                written.unlink(missing_ok=True)
    except OSError as e:
        raise unwritable(path, e) from e


def write(directory: Path, files: Mapping[str, bytes], *, force: bool, record: str = NAME) -> None:
    """Write the files into a temporary directory, and then rename it.

    Raises:
        OptionError: as `check_output`.
        InputError: a file cannot be written.
    """
    check_output(directory, force=force, record=record)
    target = directory.absolute()
    try:
        with _scratch_next_to(directory) as scratch:
            fresh = Path(scratch) / "new"
            fresh.mkdir()
            for name, data in files.items():
                (fresh / name).write_bytes(data)
            _replace(fresh, target, Path(scratch) / "old")
    except OSError as e:
        raise unwritable(directory, e) from e


def _scratch_next_to(directory: Path) -> tempfile.TemporaryDirectory[str]:
    """Yield a temporary directory in the same folder, and therefore on the same disk."""
    return tempfile.TemporaryDirectory(dir=directory.absolute().parent, prefix=f".{directory.name}.")


def _replace(fresh: Path, target: Path, aside: Path) -> None:
    """Rename `fresh` to `target`; an existing `target` becomes `aside`, and is restored on failure."""
    if target.exists():
        target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        if aside.exists():
            aside.rename(target)
        raise
