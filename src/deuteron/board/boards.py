"""Boards by name: frozen records, read from the TOML presets next to this file, and ports of other boards.

The linker scripts in `firmware/port/<board>/` place code and data; a preset has the options of compiler and emulator.
The directory of a port has a linker script with its name, and a preset `port.toml` without an emulator.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from deuteron.arch import cores
from deuteron.arch.preset import Table
from deuteron.errors import FormatError, InputError, OptionError, unreadable
from deuteron.native import FIRMWARE

PORT = "port.toml"
"""File of a port's directory that describes the board."""

_START = f"start from a copy of `{FIRMWARE / 'port' / 'nucleo_u575zi'}`; docs/guides/boards.md lists a port's files"

_SERIAL_PORT = re.compile(r"/dev/|COM\d+$", re.IGNORECASE)


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
        machine: QEMU's name of the board; empty if it is not emulated.
        tick_hz: rate of the counter that `dtn_port_ticks` reads.
        directory: C files, `board.h` and linker script of its port.
        pyocd: pyOCD's name of the chip; empty if it is emulated, or the port names none.
    """

    name: str
    title: str
    dma: bool
    tcm: bool
    cpu: str
    flags: tuple[str, ...]
    machine: str
    tick_hz: int
    directory: Path
    pyocd: str = ""


@cache
def names() -> tuple[str, ...]:
    """Names of all boards, sorted."""
    presets = resources.files("deuteron.board") / "presets"
    return tuple(sorted(p.name.removesuffix(".toml") for p in presets.iterdir() if p.name.endswith(".toml")))


@cache
def ports() -> tuple[str, ...]:
    """Names of the boards with a port and without an emulator, sorted."""
    return tuple(sorted(path.parent.name for path in (FIRMWARE / "port").glob(f"*/{PORT}")))


@cache
def load(name: str) -> Board:
    """Return the board of that name.

    Raises:
        OptionError: there is none; the hint lists all, or names the line if the name is that of a serial port.
    """
    if name in ports():
        return read_port(FIRMWARE / "port" / name)
    if name not in names():
        listed, others = (", ".join(f"`{n}`" for n in group) for group in (names(), ports()))
        if _SERIAL_PORT.match(name):
            raise OptionError(f"unknown board `{name}`", hint=f"a serial port is named `--on serial:{name}`")
        kind, colon, rest = name.partition(":")
        if colon and kind.lower() in ("serial", "tcp"):
            hint = f"a line has a name in lower case: `--on {kind.lower()}:{rest}`"
            raise OptionError(f"unknown board `{name}`", hint=hint)
        raise OptionError(
            f"unknown board `{name}`",
            hint=f"the boards are {listed}, and with `--harness serial` {others}; docs/guides/boards.md explains how "
            "to use your own board",
        )
    return parse(name, (resources.files("deuteron.board") / "presets" / f"{name}.toml").read_text("utf-8"))


def load_emulated(name: str) -> Board:
    """Return the emulated board of that name; OptionError if there is none, or it is not emulated."""
    board = load(name)
    if not board.machine:
        raise not_emulated(name)
    return board


def not_emulated(name: str) -> OptionError:
    """Return the error for a run on a board without an emulator."""
    return OptionError(
        f"the board `{name}` is not emulated",
        hint="link firmware for it with `deuteron firmware` and `--harness serial`, load it, and name its line with "
        "`--on serial:PORT`",
    )


def read_port(directory: Path) -> Board:
    """Return the board of a port's directory, whose name is the board's.

    Raises:
        InputError: a file of the port is missing.
        OptionError: its name is that of another board, or is not a name.
        FormatError: `port.toml` is damaged.
    """
    directory = directory.absolute()
    name = directory.name
    if name in names() or not name.isidentifier():
        raise OptionError(
            f"a port cannot have the name `{name}`",
            hint="name its directory by letters, digits and underscores, other than an emulated board",
        )
    if not directory.is_dir():
        raise InputError(f"the port `{directory}` is not a directory", hint="check its name and its folder")
    for needed in (PORT, "board.h", f"{name}.ld", "uart.c"):
        if not (directory / needed).is_file():
            scripts = sorted(directory.glob("*.ld")) if needed.endswith(".ld") else []
            hint = f"rename `{scripts[0].name}` to `{needed}`" if scripts else _START
            raise InputError(f"the port `{directory}` has no `{needed}`", hint=hint)
    try:
        return parse(name, (directory / PORT).read_text("utf-8"), directory)
    except OSError as e:
        raise unreadable(directory / PORT, e) from e
    except UnicodeDecodeError as e:
        raise FormatError(f"`{PORT}` is not UTF-8 text", where=str(directory / PORT), hint=_START) from e
    except FormatError as e:
        raise FormatError(e.message, where=str(directory / PORT), hint=e.hint or _START) from e


def parse(name: str, text: str, directory: Path | None = None) -> Board:
    """Return the board that a preset describes; a port with its directory has no emulator.

    Raises:
        FormatError: when the text is not TOML, or a field is missing, unknown or of the wrong type.
    """
    table = Table.parse(text, f"board `{name}`")
    cpu = table.table("cpu")
    emulator = table.table("emulator") if directory is None else table.table("clock")
    debugger = table.table("debugger") if directory is not None and table.has("debugger") else None
    board = Board(
        name=name,
        title=table.text("title"),
        dma=table.flag("dma"),
        tcm=table.flag("tcm"),
        cpu=cpu.text("name"),
        flags=cpu.texts("flags"),
        machine=emulator.text("machine") if directory is None else "",
        tick_hz=emulator.number("tick_hz"),
        directory=directory or FIRMWARE / "port" / name,
        pyocd=debugger.text("pyocd") if debugger else "",
    )
    if board.cpu not in cores.names():
        raise FormatError(
            f"board `{name}`, table `cpu`: the name is `{board.cpu}`, which is no core",
            hint=f"the cores are {', '.join(cores.names())}",
        )
    for part in (table, cpu, emulator, *([debugger] if debugger else ())):
        part.finish()
    return board
