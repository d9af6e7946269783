"""Small images for the boards, and what they do in the emulator."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.board.boards import Board
from deuteron.board.toolchain import Source, Toolchain

CHECKOUT = Path(__file__).parents[2]
FIRMWARE = CHECKOUT / "firmware"
BUILD = CHECKOUT / "build" / "board-tests"

WARNINGS = ("-Werror", "-pedantic", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Wconversion", "-Wvla")

START = ("port/cortex_m/startup.c", "port/cortex_m/port.c", "semihost/semihost.c", "semihost/fault.c")
"""What every image takes."""

COPYING = (
    "port/cortex_m/sleep.c",
    "port/{board}/timer.c",
    "port/{board}/dma.c",
    "port/cortex_m/io_copy_dma.c",
)
"""The copies of inputs and outputs by DMA."""

DETERMINISTIC = ("-icount", "shift=6,sleep=off")
"""Instructions are counted: a tick of 50 ns is 50/64 of one, and time passes without waiting for it."""


def instructions(ticks: int) -> int:
    """Instructions in so many ticks of 20 MHz."""
    return ticks * 50 >> 6


@dataclass(frozen=True, slots=True)
class Finished:
    """A run: exit status and console."""

    status: int
    output: str


def build(board: Board, name: str, sources: Sequence[str | Path], flags: Sequence[str] = ()) -> Path:
    """The linked image of sources, given by their place in `firmware/` or as whole paths."""
    toolchain = Toolchain.find(BUILD / "objects")
    files = [FIRMWARE / source.format(board=board.name) if isinstance(source, str) else source for source in sources]
    folders = ("port/cortex_m", f"port/{board.name}", "semihost")
    options = (*board.flags, *WARNINGS, *(f"-I{FIRMWARE / folder}" for folder in folders))
    named = [Source(f"test.{file.stem}", file, tuple(file.parent.glob(f"{file.stem}.bin"))) for file in files]
    objects = toolchain.compile(named, options, FIRMWARE)
    directory = BUILD / board.name
    directory.mkdir(parents=True, exist_ok=True)
    image = directory / f"{name}.elf"
    inputs = [str(item.path) for item in objects]
    script = FIRMWARE / "port" / board.name / f"{board.name}.ld"
    _, fits = toolchain.link(inputs, (*board.flags, *flags), script, image)
    assert fits
    return image


def run(board: Board, image: Path, *words: str | Path, directory: Path | None = None) -> Finished:
    """What the image does with this command line; file names are relative to `directory`."""
    line = ",".join(f"arg={word}" for word in ("image", *words))
    done = subprocess.run(
        [
            "qemu-system-arm", "-M", board.machine, "-nographic", "-monitor", "none", "-serial", "null",
            "-semihosting-config", f"enable=on,target=native,{line}", *DETERMINISTIC, "-kernel", image,
        ],
        cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False, timeout=30,
    )  # fmt: skip
    return Finished(done.returncode, done.stdout)
