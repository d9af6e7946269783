"""`python -m deuteron.runtime.build_native`: builds and installs the native libraries with CMake.

Works in a checkout, where `firmware/` and `native/` are next to `src/`; object files are in `build/host` and
`build/native`. With `--for-executorch` it builds the libraries that a wheel lacks, into the user's cache.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deuteron import native
from deuteron.errors import DeuteronError, InternalError, MissingToolError
from deuteron.native import LIBRARY_DIRECTORY
from deuteron.runtime.system_programs import find_program

CHECKOUT = Path(__file__).parents[3]


def executorch_root() -> Path:
    """The directory of the installed ExecuTorch package; MissingToolError when there is none."""
    root = native.executorch_root()
    if root is None:
        message = "ExecuTorch is not installed; the delegate is built against its headers and runtime library"
        raise MissingToolError(message, hint="run `make setup`, or `pip install 'deuteron[executorch]'`")
    return root


def build_native(checkout: Path = CHECKOUT, destination: Path = LIBRARY_DIRECTORY) -> None:
    """Configure, build and install the libraries.

    Raises MissingToolError for missing programs and InternalError when the build fails; CMake and the compiler write to
    this process's output.
    """
    sources = checkout / "firmware"
    if not (sources / "CMakeLists.txt").is_file():
        message = "Deuteron's C sources are missing: native libraries are built in a checkout"
        raise MissingToolError(message, where=str(sources), hint="clone the repository and run `make native` there")
    _check_tools()
    delegate = ("-DDTN_EXECUTORCH=ON", f"-DEXECUTORCH_ROOT={executorch_root()}")
    _build(sources, checkout / "build" / "host", destination, *delegate)
    _build(checkout / "native", checkout / "build" / "native", destination)


def build_for_executorch() -> None:
    """Build the libraries that a wheel has as source; one process builds, others wait for it.

    Also raises MissingToolError if the user's cache cannot be written.
    """
    root = executorch_root()
    _check_tools()
    try:
        _build_into(native.executorch_directory(), root)
    except OSError as error:
        message = f"`{native.cache_directory()}` cannot be written: {error.strerror or error}"
        raise MissingToolError(message, hint="name a directory that can be written with `DEUTERON_CACHE`") from error


def _build_into(destination: Path, root: Path) -> None:
    cache = destination.parent
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if all((destination / name).is_file() for name in native.EXECUTORCH_PARTS):
            return
        sys.stderr.write(f"compiling the libraries for ExecuTorch's runtime (first use) into `{destination}`\n")
        sys.stderr.flush()
        with tempfile.TemporaryDirectory(dir=cache, prefix=".new-") as scratch:
            work = Path(scratch)
            log, installed = cache / "executorch.log", work / "installed"
            log.unlink(missing_ok=True)
            options = ("-DDTN_EXECUTORCH=ON", f"-DEXECUTORCH_ROOT={root}")
            _build(native.FIRMWARE, work / "build", installed, *options, log=log)
            # The delegate must not load a second copy of the wheel's driver into one process.
            for ours in (path for path in installed.iterdir() if (LIBRARY_DIRECTORY / path.name).is_file()):
                ours.unlink()
                ours.symlink_to(LIBRARY_DIRECTORY / ours.name)
            shutil.rmtree(destination, ignore_errors=True)
            installed.rename(destination)


def _check_tools() -> None:
    find_program("cmake", "cmake", "CMake")
    find_program(_first(os.environ.get("CC", "cc")), "gcc", "a C compiler")
    find_program(_first(os.environ.get("CXX", "c++")), "g++", "a C++ compiler")
    find_program("make", "make", "make")


def _build(sources: Path, build: Path, destination: Path, *options: str, log: Path | None = None) -> None:
    _run(
        "cmake", "-S", str(sources), "-B", str(build), "-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_INSTALL_PREFIX={destination}", *options, log=log,
    )  # fmt: skip
    _run("cmake", "--build", str(build), "--parallel", str(os.cpu_count() or 1), log=log)
    _run("cmake", "--install", str(build), log=log)


def _first(command: str) -> str:
    """Return the program of a command with options."""
    return command.split(maxsplit=1)[0]


def _run(*command: str, log: Path | None = None) -> None:
    """Run a command; its output is appended to a file, or goes to this process's output."""
    try:
        if log is None:
            subprocess.run(command, check=True)
        else:
            with log.open("a") as file:
                subprocess.run(command, check=True, stdout=file, stderr=subprocess.STDOUT)
    except subprocess.CalledProcessError as error:
        message = f"the native build failed: `{' '.join(command[:3])} ...` ended with exit code {error.returncode}"
        where = "in the output above this message" if log is None else f"at the end of `{log}`"
        raise InternalError(message, hint=f"the reason is {where}") from error


def main(arguments: Sequence[str] = ()) -> int:
    """Return the exit code. With `--for-executorch` errors go to standard output, for the calling process."""
    for_executorch = "--for-executorch" in arguments
    try:
        if for_executorch:
            build_for_executorch()
        else:
            build_native()
    except DeuteronError as error:
        if for_executorch:
            sys.stdout.write(f"{error}\n")
        else:
            sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
