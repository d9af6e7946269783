"""Where the native libraries and the C sources are, of a checkout and of an installed wheel.

A checkout's libraries are built by `make native`. A wheel brings those that need no ExecuTorch; what joins ExecuTorch's
runtime is in a wheel that was built beside it, and is otherwise compiled when it is first used.
"""

import ctypes
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any, Literal

from deuteron.errors import MissingToolError

LIBRARY_DIRECTORY = Path(__file__).parent / "runtime" / "lib"

_SHARE = Path(__file__).parent / "share"
_CHECKOUT = Path(__file__).parents[2]

IS_WHEEL = _SHARE.is_dir()
"""Whether this is an installed wheel, with the C sources inside, and not a checkout."""

FIRMWARE = (_SHARE if IS_WHEEL else _CHECKOUT) / "firmware"
"""The C sources of driver, kernels, executor and boards, with the CMake package in `cmake/`."""

CORTEX_M = ("cortex_m::", "deuteron::")
"""What the names of the operators begin with that `load_cortex_m` gives: ExecuTorch's Cortex-M backend's, and ours."""

LibraryName = Literal[
    "driver", "driver_ref", "delegate", "cortex_m", "ethosu", "ethosu_driver", "ethosu_watch", "executor", "packing",
]  # fmt: skip
"""The driver with fast kernels, the same with the reference kernels; for ExecuTorch's runtime the delegate, the
operators of its Cortex-M backend, and the delegate of Ethos-U; Arm's driver API over executed command streams, and who
watches these; the executor of bundles; the search for memory plans."""

RUNNER = "deuteron-runner"
EXECUTORCH_PARTS = frozenset(
    (RUNNER, "libdeuteron_delegate.so", "libdeuteron_cortex_m.so", "libdeuteron_ethosu.so"),
)
"""The files that are linked with ExecuTorch's runtime."""


def cache_directory() -> Path:
    """Where what is compiled on this machine is kept: `build/` of a checkout, otherwise a place of the user's own.

    `DEUTERON_CACHE` names another. All of it may be removed at any time.
    """
    if chosen := os.environ.get("DEUTERON_CACHE"):
        return Path(chosen).absolute()
    if not IS_WHEEL:
        return _CHECKOUT / "build"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "deuteron" / version("deuteron")


def runner() -> Path:
    """The program that runs a `.pte` without Python; MissingToolError when it has not been built."""
    return _file(RUNNER, f"the native program `{RUNNER}` is not built")


def library(name: LibraryName) -> Path:
    """The path of a native library; MissingToolError when it has not been built."""
    return _file(file_of(name), f"the native library `{file_of(name)}` is not built")


def load(name: LibraryName) -> ctypes.CDLL:
    """A native library, in this process.

    Raises:
        MissingToolError: it is not built or does not load; or, of what is returned, it lacks a function.
    """
    path = library(name)
    try:
        return _Library(str(path))
    except OSError as error:
        message = f"the native library `{path.name}` does not load: {error}"
        raise MissingToolError(message, where=str(path), hint=build_again(path)) from error


class _Library(ctypes.CDLL):
    """One that says what to do where it lacks a function, as one that was built from older sources does."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name.startswith("__"):
                raise
            path = Path(self._name)
            message = f"the native library `{path.name}` has no `{name}`: it was built from other sources"
            raise MissingToolError(message, where=str(path), hint=build_again(path)) from error


def build_again(path: Path) -> str:
    """What to do with a library that is there and of no use."""
    if not IS_WHEEL:
        return "run `make native` in Deuteron's checkout"
    return "remove it, and it is compiled again" if path.name in EXECUTORCH_PARTS else "install Deuteron's wheel again"


def file_of(name: LibraryName) -> str:
    """The name of a library's file."""
    return f"libdeuteron_{name}.so"


def is_there(name: str) -> bool:
    """Whether the file of this name is built."""
    return any((directory / name).is_file() for directory in _directories())


def _directories() -> tuple[Path, ...]:
    return (LIBRARY_DIRECTORY, executorch_directory()) if IS_WHEEL else (LIBRARY_DIRECTORY,)


def executorch_directory() -> Path:
    """Where a wheel's parts for ExecuTorch's runtime are that were compiled on this machine.

    Its name is made of what they are compiled from and linked with, so that neither another Deuteron nor another
    ExecuTorch takes them for its own.
    """
    root = executorch_root()
    versions = [one.version for one in distributions(name="executorch")]
    linked = f"{_hash_of(FIRMWARE)} {versions} {root} {LIBRARY_DIRECTORY}"
    return cache_directory() / f"executorch-{hashlib.sha256(linked.encode()).hexdigest()[:16]}"


def executorch_root() -> Path | None:
    """The directory of the installed ExecuTorch package, found without importing it; None when it is not installed."""
    spec = importlib.util.find_spec("executorch")
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


@cache
def _hash_of(folder: Path) -> str:
    """A hash of all files in a folder, with their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    contents = (f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()


def _file(name: str, absent: str) -> Path:
    """Where it is, compiled now if a wheel has it as source."""
    for directory in _directories():
        if (directory / name).is_file():
            return directory / name
    if not IS_WHEEL:
        raise MissingToolError(absent, where=str(LIBRARY_DIRECTORY), hint=build_again(Path(name)))
    if name not in EXECUTORCH_PARTS:
        raise MissingToolError(absent, where=str(LIBRARY_DIRECTORY), hint=build_again(Path(name)))
    _compile_parts()
    return executorch_directory() / name


def _compile_parts() -> None:
    """Have the parts compiled that join ExecuTorch's runtime, in a process of its own."""
    command = (sys.executable, "-m", "deuteron.runtime.build_native", "--for-executorch")
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():  # its progress is ours
            sys.stderr.write(line)
            sys.stderr.flush()
            last = line.strip() or last
        said = process.stdout.read().strip() if process.stdout else ""
    if process.returncode:
        message, _, hint = said.partition("\n\nhint: ")
        message = f"what joins ExecuTorch's runtime cannot be compiled: {message or last}"
        raise MissingToolError(message, hint=hint or None)


def stale(operators: Iterable[str]) -> MissingToolError:
    """The error for operators of ours that the library lacks, once it is loaded."""
    names, path = ", ".join(f"`{name}`" for name in operators), library("cortex_m")
    message = f"the native library of Cortex-M operators lacks {names}: it was built from other sources"
    return MissingToolError(message, where=str(path), hint=build_again(path))


@cache
def load_cortex_m() -> None:
    """Give ExecuTorch's runtime, which must be loaded, its Cortex-M backend's operators that it lacks."""
    load("cortex_m")
