"""Which of several definitions an image was linked with, read from the image itself: overrides, the NPU's driver."""

from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from deuteron.errors import InputError

HOOKS = ("dtn_io_copy", "dtn_io_copy_start", "dtn_io_copy_wait")
"""The functions of `deuteron/io.h`, any of which an override may define."""
_PAIR = frozenset(HOOKS[1:])
_GLOBAL = "STB_GLOBAL"


def overridden(elf: Path) -> tuple[str, ...]:
    """The hooks that an image has from an override: the library's own are weak symbols."""
    return tuple(hook for hook, binding in _linked(elf, HOOKS).items() if binding == _GLOBAL)


def _linked(elf: Path, names: Iterable[str]) -> Mapping[str, str]:
    """The symbols of these names that an image has, and how each is bound."""
    with elf.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        if not isinstance(symbols, SymbolTableSection):
            return {}
        present = ((name, symbol) for name in names for symbol in symbols.get_symbol_by_name(name) or ())
        return {name: symbol["st_info"]["bind"] for name, symbol in present if symbol["st_shndx"] != "SHN_UNDEF"}


class EthosU(Enum):
    """What an image calls for an Ethos-U; the value is for readers."""

    DRIVER = "driver"
    STAND_IN = "stand-in"


def ethosu_of(elf: Path) -> EthosU | None:
    """What an image has behind the API of Arm's driver, None where nothing is called by it."""
    linked = _linked(elf, ("ethosu_invoke_v3", "dtn_ethosu_start"))
    if "ethosu_invoke_v3" not in linked:
        return None
    return EthosU.STAND_IN if "dtn_ethosu_start" in linked else EthosU.DRIVER


def check_symbol(elf: Path, symbol: str) -> None:
    """Checks that an image has an override of a weak function.

    Raises:
        InputError: when it has the weak default, or no such function.
    """
    linked = _linked(elf, (symbol,))
    if not linked:
        raise InputError(
            f"`{elf.name}` has no function `{symbol}`",
            hint="look at the spelling; or nothing in the image calls it, and the linker has left it out",
        )
    if linked[symbol] != _GLOBAL:
        raise InputError(
            f"`{elf.name}` has the weak default of `{symbol}`, though an override was asked for",
            hint=f"link the override as an object; or put its archive first, behind `-Wl,-u,{symbol}`: a linker takes "
            "from an archive only what is asked for, and not what it has already found",
        )


def check_override(elf: Path) -> None:
    """Checks that an image for which an override of the copies was asked has it.

    Raises:
        InputError: when nothing copies, when the weak default was linked, or with the default's start the override's
            wait or the reverse.
    """
    hooks = overridden(elf)
    if not _linked(elf, HOOKS):
        names = ", ".join(f"`{hook}`" for hook in HOOKS)
        raise InputError(
            f"`{elf.name}` holds none of {names}: nothing in it copies inputs and outputs",
            hint="give the image of an application that runs a bundle, as the linker wrote it, before `strip`",
        )
    if len(_PAIR.intersection(hooks)) == 1:
        (strong,), (weak,) = _PAIR.intersection(hooks), _PAIR.difference(hooks)
        raise InputError(
            f"`{elf.name}` has an override of `{strong}`, but `{weak}` is the weak default",
            hint=f"define `{weak}` in the file that defines `{strong}`: neither knows of the other's copies",
        )
    if not hooks:
        raise InputError(
            f"`{elf.name}` copies inputs and outputs by the weak default, though an override of `dtn_io_copy` was "
            "asked for",
            hint="link the override as an object; or put its archive before the library, and before that "
            "`-Wl,-u,dtn_io_copy_start` or another hook that it defines: a linker takes from an archive only what is "
            "asked for, and not what it has already found",
        )
