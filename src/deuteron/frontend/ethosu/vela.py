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

DEFAULTS = {
    "ethos-u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "ethos-u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}
"""The system configuration and the memory mode that ExecuTorch names where a build names none."""

_SYSTEM, _MODE = "System_Config.", "Memory_Mode."
_DRAM = "Dram"

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
        OptionError: Vela's configuration file has no such section for this NPU, or the two do not go together.
    """
    check_installed()
    file = _configuration()
    systems = _sections(file, _SYSTEM, f"{npu.family.title()}_".replace("-", "_"))
    if options.vela_system_config not in (None, *systems):
        raise _unknown("--vela-system-config", options.vela_system_config, npu, systems)
    default_system, default_mode = DEFAULTS[npu.family]
    system = options.vela_system_config or default_system
    modes = _sections(file, _MODE)
    port = file[_SYSTEM + system]["axi1_port"]
    fitting = [mode for mode in modes if port == _DRAM or not _computes_outside(file, mode)]
    if options.memory_mode not in (None, *modes):
        raise _unknown("--memory-mode", options.memory_mode, npu, fitting)
    mode = options.memory_mode or default_mode
    if mode not in fitting:
        default = "" if options.memory_mode else ", which ExecuTorch names where nobody does,"
        raise OptionError(
            f"`--memory-mode {mode}`{default} has tensors outside the SRAM, where `{system}` of `{npu.name}` has "
            f"{port}, which cannot be written",
            hint=f"choose one of {_listed(fitting)}",
        )


def _unknown(option: str, value: str | None, npu: EthosU, names: list[str]) -> OptionError:
    """What to say of a name that no section has."""
    message = f"Vela knows no `{value}` for `{option}` of `{npu.name}`"
    return OptionError(message, hint=f"choose one of {_listed(names)}")


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _configuration() -> configparser.ConfigParser:
    """The configuration file that Vela comes with."""
    spec = importlib.util.find_spec("ethosu")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    parser = configparser.ConfigParser()
    parser.read([folder / "config_files" / "Arm" / "vela.ini" for folder in folders])
    return parser


def _sections(file: configparser.ConfigParser, kind: str, prefix: str = "") -> list[str]:
    """The names of the sections of a kind."""
    return [name.removeprefix(kind) for name in file.sections() if name.startswith(kind + prefix)]


def _computes_outside(file: configparser.ConfigParser, mode: str) -> bool:
    """Whether a memory mode has tensors behind the second port, as it says or the one that it inherits from."""
    section = file[_MODE + mode]
    while "arena_mem_area" not in section:
        section = file[section["inherit"]]
    return section["arena_mem_area"] == "Axi1"
