"""`python -m deuteron.runtime.build_native`: builds the native libraries with CMake and puts them where `native` looks.

Works in a checkout, where `firmware/` and `native/` lie beside `src/`; object files go to `build/host` and
`build/native`.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

from deuteron.errors import DeuteronError, InternalError, MissingToolError
from deuteron.native import LIBRARY_DIRECTORY
from deuteron.runtime.programs import find_program

CHECKOUT = Path(__file__).parents[3]


def executorch_root() -> Path:
    """The directory of the installed ExecuTorch package, found without importing it."""
    spec = importlib.util.find_spec("executorch")
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if not locations:
        message = "ExecuTorch is not installed; the delegate is built against its headers and runtime library"
        raise MissingToolError(message, hint="run `make setup`, or `pip install 'deuteron[executorch]'`")
    return Path(locations[0])


def build_native(checkout: Path = CHECKOUT, destination: Path = LIBRARY_DIRECTORY) -> None:
    """Configure, build and install the libraries.

    Raises MissingToolError for what is not installed and InternalError when the build fails; the output of CMake and of
    the compiler goes to this process's own.
    """
    sources = checkout / "firmware"
    if not (sources / "CMakeLists.txt").is_file():
        message = "Deuteron's C sources are not here: the native libraries are built in a checkout"
        raise MissingToolError(message, where=str(sources), hint="clone the repository and run `make native` there")
    find_program("cmake", "cmake", "CMake")
    find_program(_first(os.environ.get("CC", "cc")), "gcc", "a C compiler")
    find_program(_first(os.environ.get("CXX", "c++")), "g++", "a C++ compiler")
    find_program("make", "make", "make")
    delegate = ("-DDTN_EXECUTORCH=ON", f"-DEXECUTORCH_ROOT={executorch_root()}")
    _build(sources, checkout / "build" / "host", destination, *delegate)
    _build(checkout / "native", checkout / "build" / "native", destination)


def _build(sources: Path, build: Path, destination: Path, *options: str) -> None:
    _run(
        "cmake", "-S", str(sources), "-B", str(build), "-G", "Unix Makefiles", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_INSTALL_PREFIX={destination}", *options,
    )  # fmt: skip
    _run("cmake", "--build", str(build), "--parallel", str(os.cpu_count() or 1))
    _run("cmake", "--install", str(build))


def _first(command: str) -> str:
    """The program of a command that may have options."""
    return command.split(maxsplit=1)[0]


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        message = f"the native build failed: `{' '.join(command[:3])} ...` ended with exit code {error.returncode}"
        raise InternalError(message, hint="the reason is in the output above this message") from error


def main() -> int:
    """The exit code."""
    try:
        build_native()
    except DeuteronError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
