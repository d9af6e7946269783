"""Vela and the packages that ExecuTorch's Arm backend needs beside it: whether they are here, and what Vela knows.

Free of PyTorch, and of Vela itself: what is wrong here is told before either is loaded.
"""

import configparser
import importlib.metadata
import importlib.util
from pathlib import Path

from deuteron.arch.targets import EthosU
from deuteron.arch.vela import VelaOptions
from deuteron.errors import MissingToolError, OptionError

PACKAGES = {"ethos-u-vela": ("5.1.0", "Vela"), "tosa-tools": ("2026.5.0", "the TOSA tools")}
"""Versions that this adapter knows, and what errors call each package."""

_INSTALL = "install it with `pip install 'deuteron[ethos-u]'`"


def check_installed() -> None:
    """Check that the packages are installed, in the versions that are known.

    Raises:
        MissingToolError: naming the package.
    """
    for package, (wanted, name) in PACKAGES.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            message = f"{name}, package `{package}`, without which nothing is built for Arm Ethos-U, is not installed"
            raise MissingToolError(message, hint=_INSTALL) from None
        if version != wanted:
            message = f"{name} {wanted} is required to build for Arm Ethos-U, found {version}"
            raise MissingToolError(message, hint=f"install it with `pip install {package}=={wanted}`")


def check(npu: EthosU, options: VelaOptions) -> None:
    """Check that a model can be built for an NPU with these options.

    Raises:
        MissingToolError: a package is missing, or of another version.
        OptionError: Vela's configuration file has no such section for this NPU.
    """
    check_installed()
    chosen = (
        (
            "--vela-system-config",
            options.vela_system_config,
            "System_Config",
            f"{npu.family.title()}_".replace("-", "_"),
        ),
        ("--memory-mode", options.memory_mode, "Memory_Mode", ""),
    )
    for option, value, kind, prefix in chosen:
        names = [name for name in _sections(kind) if name.startswith(prefix)]
        if value is not None and value not in names:
            listed = ", ".join(f"`{name}`" for name in names)
            raise OptionError(f"Vela knows no `{value}` for `{option}` of `{npu.name}`", hint=f"choose one of {listed}")


def _sections(kind: str) -> list[str]:
    """The names of the sections of a kind in the configuration file that Vela comes with."""
    spec = importlib.util.find_spec("ethosu")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    parser = configparser.ConfigParser()
    parser.read([folder / "config_files" / "Arm" / "vela.ini" for folder in folders])
    return [name.partition(".")[2] for name in parser.sections() if name.startswith(f"{kind}.")]
