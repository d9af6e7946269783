"""Checks Vela, the other packages of ExecuTorch's Arm backend, and the options for Vela.

This file imports neither PyTorch nor Vela, so that errors appear before either is loaded.
"""

import configparser
import importlib.metadata
import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.arch.memory import MemoryOptions
from deuteron.arch.targets import EthosU
from deuteron.arch.vela import DEFAULTS, VelaOptions
from deuteron.errors import InputError, MissingToolError, OptionError

PACKAGES = {"ethos-u-vela": ("5.1.0", "Vela"), "tosa-tools": ("2026.5.0", "the TOSA tools")}
"""Supported versions of the packages, and their names in errors."""

_SYSTEM, _MODE = "System_Config.", "Memory_Mode."
_DRAM, _OUTSIDE = "Dram", "Axi1"
_MEMORIES = ("Sram", _DRAM, "OnChipFlash", "OffChipFlash")
_AREAS = ("Axi0", _OUTSIDE)
_PLACES = {"const_mem_area": _MEMORIES[1:], "arena_mem_area": _MEMORIES[:2], "cache_mem_area": _MEMORIES[:1]}
"""The memories for each area; constants may be in any memory if all three areas are the same."""

_WHOLE = ("ports_used", "burst_length", "read_latency", "write_latency")
"""The optional whole numbers of each memory in Vela's configuration."""
_BY_DEFAULT = ", ExecuTorch's default,"

_INSTALL = "install it with `pip install 'deuteron[ethos-u]'`"


def check_installed() -> None:
    """Check that the packages are installed in the supported versions.

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
        MissingToolError: a package is missing or has another version.
        InputError: the configuration file cannot be read, is incomplete, or has values that Vela does not accept.
        OptionError: it has no such section for this NPU, or the two sections do not fit.
    """
    check_installed()
    file = _own() if options.vela_config is None else _given(options.vela_config)
    default_system, default_mode = DEFAULTS[npu.family]
    prefix = f"{npu.family.title()}_".replace("-", "_")
    systems = file.names(_SYSTEM, prefix)
    system = options.vela_system_config or default_system
    _check_width(file, system, prefix)
    if system not in systems:
        raise _unknown(file, "--vela-system-config", options.vela_system_config, default_system, npu, systems)
    file.number(_SYSTEM + system, "core_clock")
    ports = [file.one_of(_SYSTEM + system, key, _MEMORIES) for key in ("axi0_port", "axi1_port")]
    for port in ports:
        file.number(_SYSTEM + system, f"{port}_clock_scale")
        for key in _WHOLE:
            file.whole(_SYSTEM + system, f"{port}_{key}")
    modes = file.names(_MODE)
    fitting = [mode for mode in modes if ports[1] == _DRAM or file.value(_MODE + mode, "arena_mem_area") != _OUTSIDE]
    mode = options.memory_mode or default_mode
    if mode not in modes:
        raise _unknown(file, "--memory-mode", options.memory_mode, default_mode, npu, fitting)
    if mode not in fitting:
        raise OptionError(
            f"`--memory-mode {mode}`{'' if options.memory_mode else _BY_DEFAULT} has tensors outside the SRAM, where "
            f"`{system}` of `{npu.name}` has {ports[1]}, which cannot be written",
            hint=f"choose one of {_listed(fitting)}",
        )
    areas = {key: file.one_of(_MODE + mode, key, _AREAS) for key in _PLACES}
    for key, area in areas.items():
        memory = ports[_AREAS.index(area)]
        if memory not in _PLACES[key] and (key != "const_mem_area" or len(set(areas.values())) > 1):
            raise InputError(
                f"`{key}` of `[{_MODE}{mode}]` is `{area}`, where `{system}` has {memory}",
                where=file.path,
                hint=f"Vela takes {_listed(_PLACES[key])} there",
            )
    file.whole(_MODE + mode, "arena_cache_size")


def check_memory(npu: EthosU, options: MemoryOptions) -> None:
    """Check that an export session has no budget: only finished programs are cut into stripes; OptionError."""
    if options != MemoryOptions():
        raise OptionError(
            f"the options `sram_budget`, `depth_first` and `effort` for `{npu.name}` need a whole build, and a "
            "recipe is a part of one",
            hint="use `deuteron.build`, or tell Vela by `memory_mode`, `optimise` and `arena_cache_size`",
        )


@dataclass(frozen=True, slots=True)
class _File:
    """A configuration file; the path is empty for Vela's own."""

    path: str
    sections: configparser.ConfigParser

    def names(self, kind: str, prefix: str = "") -> list[str]:
        """The names of the sections of a kind with this prefix."""
        names = self.sections.sections()
        return [name.removeprefix(kind) for name in names if name.startswith(kind + prefix)]

    def get(self, section: str, key: str) -> str | None:
        """Return the value of a key in a section or in one that it inherits from; None if there is none.

        Raises:
            InputError: the section inherits from itself or from a missing section, or the value is malformed.
        """
        try:
            lines = [self.sections[name] for name in self._line(section)]
            return next((part[key] for part in lines if key in part), None)
        except configparser.Error as error:  # a `%`, which names another value
            raise InputError(
                f"`[{section}]`: {str(error).splitlines()[0]}", where=self.path, hint="write `%%` for a percent sign"
            ) from error

    def _line(self, section: str) -> list[str]:
        """The section and the sections that it inherits from."""
        line: list[str] = []
        name: str | None = section
        while name is not None:
            if name in line or name not in self.sections:
                what = "its own heir" if name in line else "not there"
                raise InputError(
                    f"`[{line[-1]}]` inherits from `[{name}]`, which is {what}",
                    where=self.path,
                    hint=f"repair `inherit` of `[{line[-1]}]`",
                )
            line.append(name)
            name = self.sections[name].get("inherit")
        return line

    def value(self, section: str, key: str) -> str:
        """Return the value of a required key.

        Raises:
            InputError: as `get`, and if no section has the key.
        """
        if (text := self.get(section, key)) is None:
            raise InputError(f"`[{section}]` has no `{key}`", where=self.path, hint="add it to the section")
        return text

    def one_of(self, section: str, key: str, allowed: Sequence[str]) -> str:
        """Return the value of a required key, which must be one of those allowed."""
        if (text := self.value(section, key)) not in allowed:
            raise self._no_value(section, key, text, f"choose one of {_listed(allowed)}")
        return text

    def number(self, section: str, key: str) -> None:
        """Check that a key exists and is a number above 0."""
        text = self.value(section, key)
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > 0):
            raise self._no_value(section, key, text, "give a number above 0")

    def whole(self, section: str, key: str) -> None:
        """Check that an optional key is a whole number of 0 or more."""
        text = self.get(section, key)
        try:
            is_whole = text is None or int(text) >= 0
        except ValueError:
            is_whole = False
        if not is_whole:
            raise self._no_value(section, key, text, "give a whole number")

    def _no_value(self, section: str, key: str, text: str | None, hint: str) -> InputError:
        return InputError(f"`{key}` of `[{section}]` cannot be `{text}`", where=self.path, hint=hint)


def _check_width(file: _File, system: str, prefix: str) -> None:
    """Check that Vela accepts the name of a section of the user's file for this NPU."""
    if file.path and not system.startswith("Ethos_U") and _SYSTEM + system in file.sections:
        raise OptionError(
            f"`{system}` does not begin with `{prefix}`, and Vela takes from the name how wide the NPU's ports are",
            where=file.path,
            hint=f"rename the section to `[{_SYSTEM}{prefix}{system}]`",
        )


def _unknown(file: _File, option: str, said: str | None, default: str, npu: EthosU, names: list[str]) -> OptionError:
    """Return the error about a name without a section."""
    knows = f"`{file.path}` has" if file.path else "Vela knows"
    message = f"{knows} no `{said or default}`{'' if said else _BY_DEFAULT} for `{option}` of `{npu.name}`"
    return OptionError(message, hint=f"choose one of {_listed(names)}" if names else "add a section for it")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _own() -> _File:
    """Read Vela's own configuration file."""
    spec = importlib.util.find_spec("ethosu")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    parser = configparser.ConfigParser()
    parser.read([folder / "config_files" / "Arm" / "vela.ini" for folder in folders])
    return _File("", parser)


def _given(path: str) -> _File:
    """Read the user's configuration file."""
    if not path.endswith(".ini") or any(character.isspace() for character in Path(path).name):
        raise OptionError(
            f"`--vela-config {path}`: Vela takes files whose names end in `.ini`, and ExecuTorch parts options at "
            "spaces",
            hint="rename the file",
        )
    parser = configparser.ConfigParser()
    try:
        parser.read_string(Path(path).read_text(encoding="utf-8"), path)
    except OSError as error:
        raise InputError(f"cannot read the configuration file: {error.strerror}", where=path) from error
    except (configparser.Error, UnicodeDecodeError) as error:
        message = f"this is no configuration file: {str(error).splitlines()[0]}"
        raise InputError(message, where=path, hint="see the one that Vela comes with, `Arm/vela.ini`") from error
    return _File(path, parser)
