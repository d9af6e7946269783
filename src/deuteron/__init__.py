"""Deuteron compiles PyTorch models for microcontrollers with and without an NPU.

`import deuteron` is fast: public names are loaded at first use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deuteron.api import (
        Activations,
        Build,
        BuildOptions,
        build,
        build_model,
        bundle,
        compare,
        convert_file,
        explain,
        firmware,
        inspect,
        plan,
        profile,
        report,
        run,
        run_each,
        simulate,
        sweep,
    )
    from deuteron.errors import DeuteronError

__all__ = [
    "Activations",
    "Build",
    "BuildOptions",
    "DeuteronError",
    "__version__",
    "build",
    "build_model",
    "bundle",
    "compare",
    "convert_file",
    "explain",
    "firmware",
    "inspect",
    "plan",
    "profile",
    "report",
    "run",
    "run_each",
    "simulate",
    "sweep",
]

__version__: str


def __getattr__(name: str) -> object:
    """The public name, loaded from the module that defines it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("deuteron")
    if name not in __all__:
        raise AttributeError(f"module `deuteron` has no attribute `{name}`")
    from importlib import import_module

    return getattr(import_module("deuteron.errors" if name == "DeuteronError" else "deuteron.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
