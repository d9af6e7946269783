"""The release of ExecuTorch that is installed, and the one that the adapters of this package know."""

import importlib.metadata

from deuteron.errors import MissingToolError

EXECUTORCH = "1.5."
"""The releases whose backends the adapters know."""


def check_executorch() -> str:
    """The version of the installed ExecuTorch, which must be one that this adapter knows."""
    try:
        version = importlib.metadata.version("executorch")
    except importlib.metadata.PackageNotFoundError:
        raise MissingToolError(
            "ExecuTorch is not installed", hint="install it with `pip install deuteron[executorch]`"
        ) from None
    if not version.startswith(EXECUTORCH):
        raise MissingToolError(
            f"ExecuTorch {EXECUTORCH}x is required, found {version}",
            hint="install the release that Deuteron was tested with: `pip install executorch==1.5.1`",
        )
    return version
