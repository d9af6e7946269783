"""What firmware needs of an NPU family: one description per family, and what it makes of each partition."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FirmwareBlock:
    """Bytes of a partition that an image holds.

    Attributes:
        name: what the block is, part of its C name.
        data: its content, never written.
        is_weights: whether it lies where the user wants weights, instead of always in flash.
        has_checksum: whether the family checks the bytes itself; the executor does otherwise.
    """

    name: str
    data: bytes
    is_weights: bool = False
    has_checksum: bool = False

    @property
    def crc(self) -> int:
        """What the executor compares the bytes with, 0 where the family checks them."""
        return 0 if self.has_checksum else zlib.crc32(self.data)


@dataclass(frozen=True, slots=True)
class FirmwarePort:
    """A tensor that a partition takes or gives.

    Attributes:
        name: for messages and readers.
        argument: which argument of the partition's call it is.
        bytes: its size.
        channels_last: whether the NPU wants dimension 1 innermost; None where it takes the order that the program has.
        dtype: of its elements, in numpy's spelling; None where the NPU does not know more than the size.
    """

    name: str
    argument: int
    bytes: int
    channels_last: bool | None
    dtype: str | None = "int8"


@dataclass(frozen=True, slots=True)
class FirmwarePartition:
    """A partition as firmware runs it.

    Attributes:
        name: for messages and readers.
        work: what a run of it does, for readers: `3 kernel calls`.
        arguments: how many arguments a call of it has.
        inputs: in the order in which the family's `run` takes them.
        outputs: the same.
        blocks: in the order in which the family's `prepare` takes them.
        working_bytes: what a run needs of the working memory, beside its context: `working_bytes` in C.
        budget_bytes: the part of it that the SRAM budget of a build bounds.
        places: where in the working memory each input, then each output may lie; None for one that lies elsewhere.
        linked_bytes: of its weights, those that the budget bounds because they lie in SRAM all the time.
        fetches_weights: whether a run copies weights by the port's hooks; a smaller budget makes it need less.
        kernels: names of the family's kernels that it calls, for families whose kernels are linked one by one.
        accelerator: what it was compiled for, where drivers are built for one.
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
    """How firmware runs a family's partitions.

    Attributes:
        symbol: the C name of its `dtn_npu_t`.
        partition: the partition with these bytes in a program and this name; raises FormatError when it is damaged.
        recorded: the same, with room for the records of a run's commands; None where its bytes say whether it has that.
        sources: C files that an image compiles beside the library of `firmware/`.
        stand_in: what an emulated board has in the NPU's place, as patterns of files in `firmware/`. The last is what
            starts it, linked as an object; that takes the others from an archive.
    """

    symbol: str
    partition: Callable[[bytes, str], FirmwarePartition]
    recorded: Callable[[bytes, str], FirmwarePartition] | None = None
    sources: tuple[Path, ...] = ()
    stand_in: tuple[str, ...] = ()
