"""Reads from an image which definitions were linked: overrides of weak functions, and the NPU's driver."""

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from deuteron.errors import InputError

HOOKS = ("dtn_io_copy", "dtn_io_copy_start", "dtn_io_copy_wait")
"""Functions of `deuteron/io.h`; an override may define any of them."""
_PAIR = frozenset(HOOKS[1:])
_GLOBAL = "STB_GLOBAL"


def overridden(elf: Path) -> tuple[str, ...]:
    """Return the hooks that an image has from an override: the library's own are weak symbols."""
    return tuple(hook for hook, binding in _linked(elf, HOOKS).items() if binding == _GLOBAL)


def _linked(elf: Path, names: Iterable[str]) -> Mapping[str, str]:
    """Return the symbols of these names in an image, with their binding."""
    with elf.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        if not isinstance(symbols, SymbolTableSection):
            return {}
        present = ((name, symbol) for name in names for symbol in symbols.get_symbol_by_name(name) or ())
        return {name: symbol["st_info"]["bind"] for name, symbol in present if symbol["st_shndx"] != "SHN_UNDEF"}


class EthosU(Enum):
    """Driver of an Ethos-U in an image; the value is for reports."""

    DRIVER = "driver"
    STAND_IN = "stand-in"


def ethosu_of(elf: Path) -> EthosU | None:
    """Return what implements Arm's driver API in an image, None if nothing calls it."""
    linked = _linked(elf, ("ethosu_invoke_v3", "dtn_ethosu_start"))
    if "ethosu_invoke_v3" not in linked:
        return None
    return EthosU.STAND_IN if "dtn_ethosu_start" in linked else EthosU.DRIVER


def check_symbol(elf: Path, symbol: str) -> None:
    """Check that an image overrides a weak function.

    Raises:
        InputError: it has the weak default, or no such function.
    """
    linked = _linked(elf, (symbol,))
    if not linked:
        raise InputError(
            f"`{elf.name}` has no function `{symbol}`",
            hint="check the name; the linker also drops functions that the image never calls",
        )
    if linked[symbol] != _GLOBAL:
        raise InputError(
            f"`{elf.name}` has the weak default of `{symbol}`, but an override was requested",
            hint=f"link the override as an object; or put its archive first, behind `-Wl,-u,{symbol}`: a linker takes "
            "from an archive only symbols that are still undefined",
        )


def check_override(elf: Path) -> None:
    """Check that an image overrides the copies of inputs and outputs.

    Raises:
        InputError: the image copies nothing, has the weak default, or mixes default and override of start and wait.
    """
    hooks = overridden(elf)
    if not _linked(elf, HOOKS):
        names = ", ".join(f"`{hook}`" for hook in HOOKS)
        raise InputError(
            f"`{elf.name}` has none of {names}: nothing in it copies inputs and outputs",
            hint="give the image of an application that runs a bundle, as the linker wrote it, before `strip`",
        )
    if len(_PAIR.intersection(hooks)) == 1:
        (strong,), (weak,) = _PAIR.intersection(hooks), _PAIR.difference(hooks)
        raise InputError(
            f"`{elf.name}` has an override of `{strong}`, but `{weak}` is the weak default",
            hint=f"define `{weak}` in the file that defines `{strong}`: start and wait must come from the same file",
        )
    if not hooks:
        raise InputError(
            f"`{elf.name}` copies inputs and outputs by the weak default, but an override of `dtn_io_copy` was "
            "requested",
            hint="link the override as an object; or put its archive before the library, and before that "
            "`-Wl,-u,dtn_io_copy_start` or another hook that it defines: a linker takes from an archive only symbols "
            "that are still undefined",
        )
