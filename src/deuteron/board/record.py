"""What a firmware build can be told, and the record that is kept of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from deuteron.board.bundle import Memory, Value
from deuteron.board.flash import Flash, FlashOptions
from deuteron.board.size import Sizes
from deuteron.board.stack import Bound
from deuteron.board.toolchain import Region
from deuteron.errors import OptionError
from deuteron.records import FileEntry, RecordFile


class Kernels(Enum):
    """Which kernels are linked; the value is its spelling on the command line, as in all of these."""

    SELECTED = "selected"
    ALL = "all"


class Weights(Enum):
    """Where weights and constants lie."""

    AUTO = "auto"
    FLASH = "flash"
    SRAM = "sram"
    EXTERNAL = "external"


class Arenas(Enum):
    """Where the program's memories lie."""

    AUTO = "auto"
    TCM = "tcm"


class IoCopy(Enum):
    """Who copies the program's inputs and outputs."""

    CPU = "cpu"
    DMA = "dma"


@dataclass(frozen=True, slots=True)
class FirmwareOptions:
    """Options of a firmware build.

    Attributes:
        kernels: those that the model's microcode calls, or all that there are.
        weights: `auto` is flash where all fits, else external memory.
        io_copy: `dma` links the board's override of `dtn_io_copy`.
        stack: bytes to keep for the stack; None for what the linker script keeps by itself.
        flash: what is other than the figures that the build was made for.
        use_profiling: record and send events of each run; without it nothing of that is in the image.
        ethosu_driver: directory of Arm's driver, by which the image runs on silicon; None for the stand-in of an
            Ethos-U that emulated boards have.
        arenas: `auto` is SRAM where all fits, else external memory.
    """

    kernels: Kernels = Kernels.SELECTED
    weights: Weights = Weights.AUTO
    io_copy: IoCopy = IoCopy.CPU
    stack: int | None = None
    flash: FlashOptions = field(default_factory=FlashOptions)
    use_profiling: bool = False
    ethosu_driver: str | None = None
    arenas: Arenas = Arenas.AUTO

    def __post_init__(self) -> None:
        if self.stack is not None and not 0 < self.stack < 1 << 32:
            raise OptionError(f"`--stack` is {self.stack:,}, it must be above 0 and below 2^32")


@dataclass(frozen=True, slots=True)
class StepInfo:
    """A step of the program: what it does, and the line of the model that asks for it where that is known."""

    title: str
    source: str


@dataclass(frozen=True, slots=True)
class Firmware:
    """The content of `firmware.json`.

    Attributes:
        deuteron: the version that built it.
        compiler: what the compiler says of itself.
        board: its name.
        options: what was asked for.
        model: the program's name.
        program_sha256: of the `.pte` that it was made from.
        weights: where weights and constants lie.
        arenas: where the program's memories lie.
        kernels: those that are linked.
        inputs: of the program.
        outputs: of the program.
        steps: of the program.
        memories: of the program.
        regions: how full the board's memories are.
        sizes: of the image by part.
        stack: how much of it the image takes.
        flash: what an emulator lets fetches of weights take.
        files: the other files of the directory.
    """

    deuteron: str
    compiler: str
    board: str
    options: FirmwareOptions
    model: str
    program_sha256: str
    weights: str
    arenas: str
    kernels: tuple[str, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    steps: tuple[StepInfo, ...]
    memories: tuple[Memory, ...]
    regions: tuple[Region, ...]
    sizes: Sizes
    stack: Bound
    flash: Flash
    files: Mapping[str, FileEntry]


FILE = RecordFile("firmware.json", 6, "deuteron firmware DIR --board NAME -o OUT", "build the firmware again")
ELF = "firmware.elf"
MAP = "firmware.map"


def read(directory: Path) -> Firmware:
    """The record of a firmware directory, with every file that it lists present and unaltered.

    Raises:
        InputError: when this is no firmware directory.
        FormatError: when the record or a file is damaged.
    """
    return FILE.read(directory, Firmware)
