"""Whether an image copies its inputs and outputs by an override of the weak default, read from the image itself."""

from collections.abc import Mapping
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from deuteron.errors import InputError

HOOKS = ("dtn_io_copy", "dtn_io_copy_start", "dtn_io_copy_wait")
"""The functions of `deuteron/io.h`, any of which an override may define."""
_PAIR = frozenset(HOOKS[1:])


def overridden(elf: Path) -> tuple[str, ...]:
    """The hooks that an image has from an override: the library's own are weak symbols."""
    return tuple(hook for hook, binding in _linked(elf).items() if binding == "STB_GLOBAL")


def _linked(elf: Path) -> Mapping[str, str]:
    """The hooks that an image has, and how each is bound."""
    with elf.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        if not isinstance(symbols, SymbolTableSection):
            return {}
        hooks = ((hook, symbol) for hook in HOOKS for symbol in symbols.get_symbol_by_name(hook) or ())
        return {hook: symbol["st_info"]["bind"] for hook, symbol in hooks if symbol["st_shndx"] != "SHN_UNDEF"}


def check_override(elf: Path) -> None:
    """Checks that an image for which an override was asked has it.

    Raises:
        InputError: when nothing copies, when the weak default was linked, or with the default's start the override's
            wait or the reverse.
    """
    hooks = overridden(elf)
    if not _linked(elf):
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
