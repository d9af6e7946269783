"""Where the native libraries are. `make native` builds them into `runtime/lib/`."""

import ctypes
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

from deuteron.errors import MissingToolError

LIBRARY_DIRECTORY = Path(__file__).parent / "runtime" / "lib"

CORTEX_M = ("cortex_m::", "deuteron::")
"""What the names of the operators begin with that `load_cortex_m` gives: ExecuTorch's Cortex-M backend's, and ours."""

LibraryName = Literal[
    "driver", "driver_ref", "delegate", "cortex_m", "ethosu", "ethosu_driver", "ethosu_watch", "packing",
]  # fmt: skip
"""The driver with fast kernels, the same with the reference kernels; for ExecuTorch's runtime the delegate, the
operators of its Cortex-M backend, and the delegate of Ethos-U; Arm's driver API over executed command streams, and who
watches these; the search for memory plans."""


def runner() -> Path:
    """The program that runs a `.pte` without Python; MissingToolError when it has not been built."""
    path = LIBRARY_DIRECTORY / "deuteron-runner"
    if not path.is_file():
        message = f"the native program `{path.name}` is not built"
        raise MissingToolError(message, where=str(LIBRARY_DIRECTORY), hint="run `make native` in Deuteron's checkout")
    return path


def library(name: LibraryName) -> Path:
    """The path of a native library; MissingToolError when it has not been built."""
    path = LIBRARY_DIRECTORY / f"libdeuteron_{name}.so"
    if not path.is_file():
        message = f"the native library `{path.name}` is not built"
        raise MissingToolError(message, where=str(LIBRARY_DIRECTORY), hint="run `make native` in Deuteron's checkout")
    return path


def stale(operators: Iterable[str]) -> MissingToolError:
    """The error for operators of ours that the library lacks, once it is loaded."""
    names = ", ".join(f"`{name}`" for name in operators)
    message = f"the native library of Cortex-M operators lacks {names}: it was built from other sources"
    return MissingToolError(message, where=str(LIBRARY_DIRECTORY), hint="run `make native` in Deuteron's checkout")


@cache
def load_cortex_m() -> None:
    """Give ExecuTorch's runtime, which must be loaded, its Cortex-M backend's operators that it lacks."""
    path = library("cortex_m")
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        message = f"the library of Cortex-M operators does not load: {error}"
        raise MissingToolError(message, where=str(path), hint="run `make native` again") from error
