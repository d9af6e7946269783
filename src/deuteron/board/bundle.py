"""A bundle as frozen values; `firmware/include/deuteron/bundle.h` is its C form.

`deuteron.board.translate` makes one from a program, `deuteron.board.emit` writes it as C.
"""

from dataclasses import dataclass
from enum import IntEnum

from deuteron.npu.firmware import Firmware, FirmwarePartition

VERSION = 3
ALIGNMENT = 16
MEMORY_CONSTANT = 0x10000
"""`Value.memory` of constants starts here: MEMORY_CONSTANT + k is `constants[k]`."""

CONTEXT_BYTES = 128
"""DTN_CONTEXT_BYTES of deuteron/driver.h: bytes of the working memory that a partition keeps between runs."""


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
    U32 = 28
    U64 = 29


class StepKind(IntEnum):
    """Runner of a step: CPU operator or delegate."""

    OPERATOR = 0
    DELEGATE = 1


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantization: the integer stands for (integer - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor: its place in memory, its type and its shape.

    Attributes:
        memory: index of a memory, or MEMORY_CONSTANT + index of a constant; the last memory holds only inputs and
            outputs of partitions.
        offset: bytes from its start, a multiple of 16.
        bytes: its size.
        type: element type.
        shape: its logical shape.
        dim_order: its dimensions from the outermost in memory inwards.
        note: description for the C file's comments.
        quantisation: of an integer input or output that the application quantizes or dequantizes.
    """

    memory: int
    offset: int
    bytes: int
    type: ElementType
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    note: str
    quantisation: Quantization | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the program.

    Attributes:
        kind: whether `index` counts `operators` or `delegates`.
        index: index of the operator or delegate.
        inputs: indices of values.
        outputs: indices of values.
        params: parameter words of an operator, none for a delegate.
        title: description for the C file's comments.
        source: the model's source lines for it; empty if unknown.
        instruction: number of the program's instruction; one instruction may need several steps or none.
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
    """A partition for an NPU, in the form of the NPU family's firmware."""

    firmware: Firmware
    partition: FirmwarePartition


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory that the application gives the executor, with a description of its content."""

    bytes: int
    note: str


@dataclass(frozen=True, slots=True)
class StateTensor:
    """A tensor that lasts from one run to the next.

    Attributes:
        name: its name in the model; empty if unknown.
        offset: bytes from the start of the state memory.
        bytes: its size.
    """

    name: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class State:
    """The tensors that last from one run to the next, and the index of their memory, which has nothing else."""

    memory: int
    tensors: tuple[StateTensor, ...]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A program as tables.

    Attributes:
        name: the model's name, for comments.
        values: every tensor that a step, an input or an output uses.
        steps: in execution order.
        inputs: index of the value of each input of the program.
        outputs: index of the value of each output.
        memories: memories that the executor gets; the last is the working memory of the delegates.
        operators: names of C functions.
        constants: bytes of constant tensors.
        delegates: the partitions.
        planned_bytes: bytes of the memories in ExecuTorch's plan, without the state.
        state: None for a program without state.
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
    state: State | None = None

    @property
    def saved_bytes(self) -> int:
        """Return the size of a saved state, 0 without one: a header and all tensors."""
        if self.state is None:
            return 0
        last = self.state.tensors[-1]
        return last.offset + last.bytes + -last.bytes % ALIGNMENT

    @property
    def tensor_bytes(self) -> int:
        """Return the bytes of ExecuTorch's plan with the state, next to which partitions have their own memory."""
        return self.planned_bytes + self.state_bytes

    @property
    def state_bytes(self) -> int:
        """Return the size of the state memory, 0 without one."""
        return 0 if self.state is None else self.memories[self.state.memory].bytes
