"""Programs of kernel calls over buffers without addresses: the input of planner and encoder."""

from dataclasses import dataclass, replace

from deuteron.npu.provenance import Stripe
from deuteron.operators.kernel_params import KernelParams


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of an NPU, or an operator of a CPU.

    Attributes:
        kind: its number in the microcode and in the table `neutronKernels`; never reused.
        name: what disassembly, reports and profiles call it.
        reads: names of the operands it reads, in encoding order.
        params: the parameter record of its call.
        workspace: whether it needs scratch memory, which is then its last operand.
    """

    kind: int
    name: str
    reads: tuple[str, ...]
    params: type[KernelParams]
    workspace: bool = False

    @property
    def operands(self) -> tuple[str, ...]:
        """All operand names in encoding order: those read, `output`, and `workspace` where there is one."""
        return (*self.reads, "output", *(("workspace",) if self.workspace else ()))

    @property
    def symbol(self) -> str:
        """The C function that runs it."""
        return f"dtn_k_{self.name}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A block of bytes. Constants (`data` given) go to the weights image, the others to inputs, outputs or scratch.

    `part_of` says which bytes of a larger value the buffer holds, if that value is never whole in memory.
    """

    name: str
    nbytes: int
    data: bytes | None = None
    part_of: "Ref | None" = None


@dataclass(frozen=True, slots=True)
class Ref:
    """`nbytes` bytes of a buffer from `offset` on: one operand of a kernel call."""

    buffer: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call: operands in the catalogue's order, parameters, and the TFLite operators it came from.

    A call that computes some rows of an original call has a `stripe`.
    """

    kernel: Kernel
    operands: tuple[Ref, ...]
    params: KernelParams
    origin: tuple[int, ...]
    stripe: Stripe | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """Kernel calls in execution order over named buffers.

    `inputs` and `outputs` name the caller's buffers in argument order. Every other buffer without data is scratch. A
    tensor that shares another's storage (a reshape) has no buffer. Inputs and outputs in `placed` are in scratch.
    """

    buffers: tuple[Buffer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    calls: tuple[KernelCall, ...]
    placed: frozenset[str] = frozenset()

    @property
    def with_ends_placed(self) -> "Program":
        """The program with all inputs and outputs in scratch, except buffers that are both, or constants."""
        constants = {buffer.name for buffer in self.buffers if buffer.data is not None}
        once = [name for name in (*self.inputs, *self.outputs) if (*self.inputs, *self.outputs).count(name) == 1]
        return replace(self, placed=frozenset(once) - constants)
