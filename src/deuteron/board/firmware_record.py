"""Options of a firmware build, and its record."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from deuteron.board.bundle import Memory, State, Value
from deuteron.board.flash import Flash, FlashOptions
from deuteron.board.size import Sizes
from deuteron.board.stack import Bound
from deuteron.board.toolchain import Region
from deuteron.errors import OptionError
from deuteron.records import FileEntry, RecordFile


class Kernels(Enum):
    """Kernels to link; the value is the name on the command line, as in all enums here."""

    SELECTED = "selected"
    ALL = "all"


class Weights(Enum):
    """Memory of weights and constants."""

    AUTO = "auto"
    FLASH = "flash"
    SRAM = "sram"
    EXTERNAL = "external"


class Arenas(Enum):
    """Memory of the program's arenas."""

    AUTO = "auto"
    TCM = "tcm"


class IoCopy(Enum):
    """The code that copies the program's inputs and outputs."""

    CPU = "cpu"
    DMA = "dma"


class Harness(Enum):
    """Application of the image: for files of the host by semihosting, or for requests over a serial line."""

    SEMIHOST = "semihost"
    SERIAL = "serial"


@dataclass(frozen=True, slots=True)
class FirmwareOptions:
    """Options of a firmware build.

    Attributes:
        kernels: those that the model's microcode calls, or all.
        weights: `auto` is flash if all fits, else external memory.
        io_copy: `dma` links the board's override of `dtn_io_copy`.
        stack: bytes reserved for the stack; None for the linker script's default.
        flash: figures that differ from those that the build was planned for.
        use_profiling: record and send events of each run; without it the image has no code for events.
        ethosu_driver: directory of Arm's driver, with which the image runs on silicon; None for the Ethos-U stand-in
            of emulated boards.
        arenas: `auto` is SRAM if all fits, else external memory.
        harness: application of the image.
    """

    kernels: Kernels = Kernels.SELECTED
    weights: Weights = Weights.AUTO
    io_copy: IoCopy = IoCopy.CPU
    stack: int | None = None
    flash: FlashOptions = field(default_factory=FlashOptions)
    use_profiling: bool = False
    ethosu_driver: str | None = None
    arenas: Arenas = Arenas.AUTO
    harness: Harness = Harness.SEMIHOST

    def __post_init__(self) -> None:
        if self.stack is not None and not 0 < self.stack < 1 << 32:
            raise OptionError(f"`--stack` is {self.stack:,}, it must be above 0 and below 2^32")


@dataclass(frozen=True, slots=True)
class StepInfo:
    """A step of the program.

    Attributes:
        title: its description.
        source: the line of the model, empty if it is not known.
        joins_previous: whether the executor runs it in one call with the step before, as the steps that change a state.
    """

    title: str
    source: str
    joins_previous: bool = False


@dataclass(frozen=True, slots=True)
class Firmware:
    """The content of `firmware.json`.

    Attributes:
        deuteron: the version that built it.
        compiler: the compiler's version line.
        board: its name.
        options: requested options.
        model: the program's name.
        program_sha256: hash of the `.pte` that it was made from.
        tables_crc: checksum of the program's tables.
        weights: memory of weights and constants.
        arenas: memory of the program's arenas.
        kernels: linked kernels.
        inputs: inputs of the program.
        outputs: outputs of the program.
        steps: steps of the program.
        memories: memories of the program.
        state: its tensors that last from one run to the next; None without any.
        regions: use of the board's memories.
        sizes: sizes of the image by part.
        stack: stack bound of the image.
        flash: timing of fetches in an emulator.
        files: the other files of the directory.
    """

    deuteron: str
    compiler: str
    board: str
    options: FirmwareOptions
    model: str
    program_sha256: str
    tables_crc: int
    weights: str
    arenas: str
    kernels: tuple[str, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    steps: tuple[StepInfo, ...]
    memories: tuple[Memory, ...]
    state: State | None
    regions: tuple[Region, ...]
    sizes: Sizes
    stack: Bound
    flash: Flash
    files: Mapping[str, FileEntry]


FILE = RecordFile("firmware.json", 10, "deuteron firmware DIR --board NAME -o OUT", "build the firmware again")
ELF = "firmware.elf"
MAP = "firmware.map"


def read(directory: Path) -> Firmware:
    """Read the record of a firmware directory, and check that every file that it lists is present and unaltered.

    Raises:
        InputError: this is not a firmware directory.
        FormatError: the record or a file is damaged.
    """
    return FILE.read(directory, Firmware)
