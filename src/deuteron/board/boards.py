"""Boards by name: frozen records, read from the TOML presets next to this file.

The linker scripts in `firmware/port/<board>/` place code and data; a preset has the options of compiler and emulator.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources

from deuteron.arch.preset import Table
from deuteron.errors import OptionError


@dataclass(frozen=True, slots=True)
class Board:
    """A board.

    Attributes:
        name: the name of its preset, and of its directory in `firmware/port/`.
        title: its maker's name for it.
        dma: true if a DMA can copy inputs and outputs.
        tcm: true if data are in tightly coupled memory instead of SRAM.
        cpu: the core.
        flags: compiler options for the core.
        machine: QEMU's name of the board.
        tick_hz: rate of the counter that `dtn_port_ticks` reads.
    """

    name: str
    title: str
    dma: bool
    tcm: bool
    cpu: str
    flags: tuple[str, ...]
    machine: str
    tick_hz: int


@cache
def names() -> tuple[str, ...]:
    """Names of all boards, sorted."""
    presets = resources.files("deuteron.board") / "presets"
    return tuple(sorted(p.name.removesuffix(".toml") for p in presets.iterdir() if p.name.endswith(".toml")))


@cache
def load(name: str) -> Board:
    """Return the board of that name.

    Raises:
        OptionError: there is none; the hint lists all.
    """
    if name not in names():
        listed = ", ".join(f"`{n}`" for n in names())
        raise OptionError(
            f"unknown board `{name}`",
            hint=f"the boards are {listed}; docs/guides/firmware.md explains how to use the firmware on your own board",
        )
    return parse(name, (resources.files("deuteron.board") / "presets" / f"{name}.toml").read_text("utf-8"))


def parse(name: str, text: str) -> Board:
    """Return the board that a preset describes.

    Raises:
        FormatError: when the text is not TOML, or a field is missing, unknown or of the wrong type.
    """
    table = Table.parse(text, f"board `{name}`")
    cpu, emulator = table.table("cpu"), table.table("emulator")
    board = Board(
        name=name,
        title=table.text("title"),
        dma=table.flag("dma"),
        tcm=table.flag("tcm"),
        cpu=cpu.text("name"),
        flags=cpu.texts("flags"),
        machine=emulator.text("machine"),
        tick_hz=emulator.number("tick_hz"),
    )
    for part in (table, cpu, emulator):
        part.finish()
    return board
