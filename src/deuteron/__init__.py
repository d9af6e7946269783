"""Deuteron takes a PyTorch model to a microcontroller whose NPU sits beside a Cortex-M.

`import deuteron` costs next to nothing: the public names are loaded when they are first used.
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
