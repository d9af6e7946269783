"""Finds the native libraries and the C sources of a checkout or an installed wheel.

`make native` builds the libraries of a checkout. A wheel contains those without ExecuTorch. Libraries for ExecuTorch's
runtime are in wheels that were built with it; otherwise they are compiled at first use.
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
"""True if this is an installed wheel, with the C sources inside, and not a checkout."""

FIRMWARE = (_SHARE if IS_WHEEL else _CHECKOUT) / "firmware"
"""The C sources of driver, kernels, executor and boards, with the CMake package in `cmake/`."""

CORTEX_M = ("cortex_m::", "deuteron::")
"""Namespaces of the operators of `load_cortex_m`: those of ExecuTorch's Cortex-M backend, and ours."""

LibraryName = Literal[
    "driver", "driver_ref", "delegate", "cortex_m", "ethosu", "ethosu_driver", "ethosu_watch", "executor", "packing",
]  # fmt: skip
"""The driver with fast kernels, and with reference kernels. For ExecuTorch's runtime: the delegate, operators of its
Cortex-M backend, the delegate of Ethos-U. Arm's driver API over simulated command streams, and their hazard check. The
executor of bundles. Searches of the planner."""

RUNNER = "deuteron-runner"
EXECUTORCH_PARTS = frozenset(
    (RUNNER, "libdeuteron_delegate.so", "libdeuteron_cortex_m.so", "libdeuteron_ethosu.so"),
)
"""The files that are linked with ExecuTorch's runtime."""


def cache_directory() -> Path:
    """Return the directory of files that are compiled on this machine: `build/` of a checkout, or the user's cache.

    `DEUTERON_CACHE` overrides it. It may be removed at any time.
    """
    if chosen := os.environ.get("DEUTERON_CACHE"):
        return Path(chosen).absolute()
    if not IS_WHEEL:
        return _CHECKOUT / "build"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "deuteron" / version("deuteron")


def runner() -> Path:
    """Return the program that runs a `.pte` without Python; MissingToolError if it is not built."""
    return _file(RUNNER, f"the native program `{RUNNER}` is not built")


def library(name: LibraryName) -> Path:
    """Return the path of a native library; MissingToolError if it is not built."""
    return _file(file_of(name), f"the native library `{file_of(name)}` is not built")


def load(name: LibraryName) -> ctypes.CDLL:
    """Load a native library into this process.

    Raises:
        MissingToolError: it is not built or does not load; later, if a function is missing.
    """
    path = library(name)
    try:
        return _Library(str(path))
    except OSError as error:
        message = f"the native library `{path.name}` does not load: {error}"
        raise MissingToolError(message, where=str(path), hint=build_again(path)) from error


class _Library(ctypes.CDLL):
    """A library whose error for a missing function has a hint: it was built from older sources."""

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
    """Return the hint for a library that is outdated or broken."""
    if not IS_WHEEL:
        return "run `make native` in Deuteron's checkout"
    return "remove it, and it is compiled again" if path.name in EXECUTORCH_PARTS else "install Deuteron's wheel again"


def file_of(name: LibraryName) -> str:
    """Return the file name of a library."""
    return f"libdeuteron_{name}.so"


def is_there(name: str) -> bool:
    """Return True if the file of this name is built."""
    return any((directory / name).is_file() for directory in _directories())


def _directories() -> tuple[Path, ...]:
    return (LIBRARY_DIRECTORY, executorch_directory()) if IS_WHEEL else (LIBRARY_DIRECTORY,)


def executorch_directory() -> Path:
    """Return the directory of a wheel's libraries for ExecuTorch's runtime that were compiled on this machine.

    Its name is a hash of their sources and of the linked libraries, so that other versions do not use them.
    """
    root = executorch_root()
    versions = [one.version for one in distributions(name="executorch")]
    linked = f"{_hash_of(FIRMWARE)} {versions} {root} {LIBRARY_DIRECTORY}"
    return cache_directory() / f"executorch-{hashlib.sha256(linked.encode()).hexdigest()[:16]}"


def executorch_root() -> Path | None:
    """Return the directory of the installed ExecuTorch package without importing it; None if it is not installed."""
    spec = importlib.util.find_spec("executorch")
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


@cache
def _hash_of(folder: Path) -> str:
    """Return a hash of all files in a folder, with their names."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    contents = (f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)
    return hashlib.sha256("\n".join(contents).encode()).hexdigest()


def _file(name: str, absent: str) -> Path:
    """Return the path of a file, compiled now if a wheel has its source."""
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
    """Compile the libraries for ExecuTorch's runtime in a separate process."""
    command = (sys.executable, "-m", "deuteron.runtime.build_native", "--for-executorch")
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():  # show its progress
            sys.stderr.write(line)
            sys.stderr.flush()
            last = line.strip() or last
        said = process.stdout.read().strip() if process.stdout else ""
    if process.returncode:
        message, _, hint = said.partition("\n\nhint: ")
        message = f"the libraries for ExecuTorch's runtime cannot be compiled: {message or last}"
        raise MissingToolError(message, hint=hint or None)


def stale(operators: Iterable[str]) -> MissingToolError:
    """Return the error for operators that the loaded library lacks."""
    names, path = ", ".join(f"`{name}`" for name in operators), library("cortex_m")
    message = f"the native library of Cortex-M operators lacks {names}: it was built from other sources"
    return MissingToolError(message, where=str(path), hint=build_again(path))


@cache
def load_cortex_m() -> None:
    """Register the operators of the Cortex-M backend with ExecuTorch's runtime, which must be loaded."""
    load("cortex_m")
