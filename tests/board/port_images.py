"""Small images for the boards, and what they do in the emulator."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deuteron.board.boards import Board
from deuteron.board.bundle import Bundle
from deuteron.board.emit import EmitOptions, emit
from deuteron.board.image import OBJECTS
from deuteron.board.qemu import emulate, with_texts
from deuteron.board.toolchain import PLACE_ALL, Object, Source, Toolchain

CHECKOUT = Path(__file__).parents[2]
FIRMWARE = CHECKOUT / "firmware"
BUILD = CHECKOUT / "build" / "board-tests"

START = ("port/cortex_m/startup.c", "port/cortex_m/port.c", "semihost/semihost.c", "semihost/fault_handler.c")
"""The options of every image."""

LAYER_CALLS = tuple(f"tests/{file}.c" for file in ("layer_call", "layer_call_s16", "layer_call_winograd"))
"""Random calls of Cortex-M layers."""

COPYING = (
    "port/cortex_m/sleep.c",
    "port/{board}/timer.c",
    "port/{board}/dma.c",
    "port/cortex_m/io_copy_dma.c",
)
"""The copies of inputs and outputs by DMA."""


EXECUTOR = (
    *(
        path.relative_to(FIRMWARE).as_posix()
        for part in ("executor", "driver", "kernels/check")
        for path in sorted((FIRMWARE / "src" / part).glob("*.c"))
    ),
    "src/kernels/fast/dtn_k_fully_connected_s8.c",
)
"""Return the driver for a bundle whose partitions call only this kernel."""

OWN_TABLE = """#include "deuteron/kernel.h"
int32_t (*const neutronKernels[DTN_KERNEL_KINDS])(const dtn_call_t *call, dtn_phase_t phase) = {
    [DTN_KERNEL_FULLY_CONNECTED_S8] = dtn_k_fully_connected_s8,
};
"""


_LINKED: dict[Path, tuple[object, ...]] = {}
"""The objects of each linked image. The path of an object contains the hash of its content."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A run: exit status and console."""

    status: int
    output: str


def build(
    board: Board,
    name: str,
    sources: Sequence[str | Path | Source],
    flags: Sequence[str] = (),
    *,
    script: Path | None = None,
    archived: Sequence[Source] = (),
    library: Sequence[Object] = (),
) -> Path:
    """Link an image of sources, given relative to `firmware/` or as whole paths, with the board's script.

    The linker takes the needed objects of the `archived` sources and of the `library`.
    """
    toolchain = Toolchain.find(OBJECTS)
    placed = (FIRMWARE / source.format(board=board.name) if isinstance(source, str) else source for source in sources)
    folders = ("port/cortex_m", f"port/{board.name}", "port/template", "runner", "semihost")
    options = (*board.flags, *(f"-I{FIRMWARE / folder}" for folder in folders))
    named = [
        file
        if isinstance(file, Source)
        else Source(f"test.{file.stem}", file, tuple(file.parent.glob(f"{file.stem}.bin")))
        for file in placed
    ]
    objects = toolchain.compile(named, options, FIRMWARE)
    directory = BUILD / board.name
    directory.mkdir(parents=True, exist_ok=True)
    image = directory / f"{name}.elf"
    inputs = [str(item.path) for item in objects]
    later = (*toolchain.compile(archived, board.flags, FIRMWARE), *library)
    if script is None:
        script, flags = FIRMWARE / "port" / board.name / f"{board.name}.ld", (PLACE_ALL, *flags)
    parts = (*inputs, *(item.path.read_bytes() for item in later), *board.flags, *flags, script)
    if _LINKED.get(image) == parts:
        return image
    if later:
        toolchain.archive(later, directory / f"{name}.a")
        inputs.append(f"{name}.a")
    _LINKED.pop(image, None)
    _, fits = toolchain.link(inputs, (*board.flags, *flags), script, image)
    assert fits
    _LINKED[image] = parts
    return image


def generate(bundle: Bundle, name: str, options: EmitOptions = EmitOptions()) -> tuple[Path, ...]:
    """The files of a bundle and of a table with its kernel, written; those to be compiled."""
    directory = BUILD / name
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in (*emit(bundle, options).items(), ("kernel_override.c", OWN_TABLE.encode())):
        (directory / file).write_bytes(content)
    return tuple(directory / file for file in (f"{options.symbol}.c", f"{options.symbol}_data.S", "kernel_override.c"))


def run(board: Board, image: Path, *words: str, directory: Path = BUILD) -> Finished:
    """Run the image with this command line; file names are relative to `directory`, errors have their texts."""
    status, output = emulate(image, board, ("image", *words), directory, time_out=60)
    return Finished(status, with_texts(output))
