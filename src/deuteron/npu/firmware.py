"""Description of an NPU family, and of its partitions, for firmware."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FirmwareBlock:
    """A block of bytes of a partition in an image.

    Attributes:
        name: part of its C name.
        data: its read-only content.
        is_weights: whether it is placed with the weights, instead of always in flash.
        has_checksum: whether the family checks the bytes; otherwise the executor does.
    """

    name: str
    data: bytes
    is_weights: bool = False
    has_checksum: bool = False

    @property
    def crc(self) -> int:
        """The checksum for the executor, 0 if the family checks the bytes."""
        return 0 if self.has_checksum else zlib.crc32(self.data)


@dataclass(frozen=True, slots=True)
class FirmwarePort:
    """An input or output of a partition.

    Attributes:
        name: name in messages and comments.
        argument: number of the argument in the partition's call.
        bytes: its size.
        channels_last: whether the NPU needs dimension 1 innermost; None if it takes the program's order.
        dtype: numpy name of the element type; None if the program does not contain it.
    """

    name: str
    argument: int
    bytes: int
    channels_last: bool | None
    dtype: str | None = "int8"


@dataclass(frozen=True, slots=True)
class FirmwarePartition:
    """A partition for firmware.

    Attributes:
        name: name in messages and comments.
        work: summary of a run in comments, such as `3 kernel calls`.
        arguments: number of arguments of its call.
        inputs: inputs in the order of the family's `run`.
        outputs: outputs in that order.
        blocks: blocks in the order of the family's `prepare`.
        working_bytes: working memory of a run without its context: `working_bytes` in C.
        budget_bytes: the part of it that counts for the SRAM budget of a build.
        places: offset in the working memory of each input, then of each output; None if it is elsewhere.
        linked_bytes: bytes of weights that count for the budget, because they are always in SRAM.
        fetches_weights: whether a run fetches weights by the hooks of the port.
        kernels: names of the kernels that it calls, for families whose kernels are linked separately.
        accelerator: the accelerator that it was compiled for, if drivers are built for one.
    """

    name: str
    work: str
    arguments: int
    inputs: tuple[FirmwarePort, ...]
    outputs: tuple[FirmwarePort, ...]
    blocks: tuple[FirmwareBlock, ...]
    working_bytes: int
    budget_bytes: int = 0
    places: tuple[int | None, ...] = ()
    linked_bytes: int = 0
    fetches_weights: bool = False
    kernels: frozenset[str] = frozenset()
    accelerator: str = ""


@dataclass(frozen=True, slots=True)
class Firmware:
    """Functions and sources with which firmware runs the partitions of a family.

    Attributes:
        symbol: the C name of its `dtn_npu_t`.
        partition: decodes the partition with these bytes and this name; FormatError if it is damaged.
        recorded: the same, with memory for the records of a run's commands; None if the bytes of a partition define it.
        sources: C files that an image compiles in addition to the library of `firmware/`.
        stand_in: simulator of the NPU for emulated boards, as patterns of files in `firmware/`. The last file starts it
            and is linked as an object; the others are linked from an archive.
    """

    symbol: str
    partition: Callable[[bytes, str], FirmwarePartition]
    recorded: Callable[[bytes, str], FirmwarePartition] | None = None
    sources: tuple[Path, ...] = ()
    stand_in: tuple[str, ...] = ()
