"""The planner's model of the processor that runs a program: rules and costs of its calls."""

from collections.abc import Collection
from typing import Protocol, Self

from deuteron.arch.engine import Engine
from deuteron.operators.kernel_params import KernelParams
from deuteron.operators.program import Kernel, KernelCall
from deuteron.operators.row_dependencies import Rowwise


class CallModel(Protocol):
    """How output rows of calls depend on input rows, and which calls the processor supports."""

    def natural_rows(self, params: KernelParams) -> int | None:
        """Bytes of an output row of a call whose parameters define rows, None for others."""
        ...

    def rowwise(self, params: KernelParams, nbytes: int) -> Rowwise | None:
        """The call as rows of `nbytes` bytes; None where it has no such rows."""
        ...

    def operand_bytes(self, params: KernelParams) -> tuple[int, ...]:
        """Size of each operand of a call."""
        ...

    def may_write_onto(self, params: KernelParams, operand: int) -> bool:
        """Return True if a call may write its output in place of an operand."""
        ...

    def supports(self, call: KernelCall, anywhere: Collection[str]) -> bool:
        """True if a call may run with its operands at their offsets; buffers `anywhere` are aligned by the caller."""
        ...

    def copy(self, count: int, nbytes: int) -> tuple[Kernel, KernelParams]:
        """The call that copies `count` rows of `nbytes` bytes."""
        ...


class Processor(CallModel, Protocol):
    """The same with the cost of calls: cycles of an NPU, instructions of a CPU."""

    @property
    def dispatch(self) -> int:
        """Cost of starting a call."""
        ...

    def work(self, params: KernelParams) -> int:
        """Cost of a call without its dispatch."""
        ...

    def copied(self, nbytes: int) -> int:
        """Cost of a copy without its dispatch."""
        ...

    def fetched(self, nbytes: int, fetches: int) -> int:
        """Cost of so many fetches of constants, which run in parallel to the calls."""
        ...


class FetchingProcessor(Processor, Protocol):
    """A processor whose weights can be fetched from flash while it computes."""

    @property
    def engine(self) -> Engine:
        """Rates of the processor and of its flash."""
        ...

    def compute(self, params: KernelParams) -> int:
        """Cycles of a call with an infinitely fast SRAM port, without its dispatch."""
        ...

    def without_flash(self) -> Self:
        """The processor with the same rates for every flash."""
        ...
