"""A bundle: what `firmware/include/deuteron/bundle.h` describes, as frozen values.

`deuteron.board.translate` makes one from a program, `deuteron.board.emit` writes it as C.
"""

from dataclasses import dataclass
from enum import IntEnum

from deuteron.npu.firmware import Firmware, FirmwarePartition

VERSION = 2
ALIGNMENT = 16
MEMORY_CONSTANT = 0x10000
"""`Value.memory` of constants starts here: MEMORY_CONSTANT + k is `constants[k]`."""

CONTEXT_BYTES = 128
"""DTN_CONTEXT_BYTES of deuteron/driver.h: what a partition keeps in the working memory between runs."""


class ElementType(IntEnum):
    """Element types, numbered as ExecuTorch's ScalarType."""

    U8 = 0
    S8 = 1
    S16 = 2
    S32 = 3
    S64 = 4
    F32 = 6
    F64 = 7
    BOOL = 11


class StepKind(IntEnum):
    """What a step runs."""

    OPERATOR = 0
    DELEGATE = 1


@dataclass(frozen=True, slots=True)
class Quantisation:
    """What an integer stands for: (integer - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: where it lies and what it holds.

    Attributes:
        memory: index of a memory, the last for ends of a partition alone, or MEMORY_CONSTANT + index of a constant.
        offset: bytes from its start, a multiple of 16.
        bytes: its size.
        type: of its elements.
        shape: its logical shape.
        dim_order: its dimensions from the outermost in memory inwards.
        note: what it is, for readers of the C file.
        quantisation: of an integer input or output of a program that leaves quantising to the application.
    """

    memory: int
    offset: int
    bytes: int
    type: ElementType
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    note: str
    quantisation: Quantisation | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the program.

    Attributes:
        kind: what `index` counts in: `operators` or `delegates`.
        index: of what runs.
        inputs: indices of values.
        outputs: the same.
        params: words of an operator, none for a delegate.
        title: what it does, for readers of the C file.
        source: the lines of the model that ask for it; empty where nobody knows.
        instruction: number of the program's that it is of: one may take several steps, or none.
    """

    kind: StepKind
    index: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: tuple[int, ...]
    title: str
    source: str
    instruction: int


@dataclass(frozen=True, slots=True)
class Delegate:
    """A partition for an NPU, and how the NPU's family runs it."""

    firmware: Firmware
    partition: FirmwarePartition


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that the executor is given, and what lies there, for readers."""

    bytes: int
    note: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A program as tables.

    Attributes:
        name: the model's, for readers.
        values: every tensor that a step, an input or an output names.
        steps: in their order.
        inputs: index of the value of each input of the program.
        outputs: the same of each output.
        memories: what the executor is given; the last is the working memory of the delegates.
        operators: names of C functions.
        constants: bytes of constant tensors.
        delegates: the partitions.
        planned_bytes: what ExecuTorch's plan has of the memories.
    """

    name: str
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    memories: tuple[Memory, ...]
    operators: tuple[str, ...]
    constants: tuple[bytes, ...]
    delegates: tuple[Delegate, ...]
    planned_bytes: int = 0
