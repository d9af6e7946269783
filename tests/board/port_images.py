"""Small images for the boards, and what they do in the emulator."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.board.boards import Board
from deuteron.board.qemu import emulate
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


def run(board: Board, image: Path, *words: str, directory: Path = BUILD) -> Finished:
    """What the image does with this command line; file names are relative to `directory`."""
    return Finished(*emulate(image, board, ("image", *words), directory, time_out=60))
