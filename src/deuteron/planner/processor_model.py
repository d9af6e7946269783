"""What cutting and searching know of the processor that runs a program's calls: a Neutron, or a CPU with a bundle."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels import row_dependencies, rules
from deuteron.npu.neutron.kernels.catalogue import COPY, FILL, Kernel
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.kernels.limits import ALIGNMENT
from deuteron.npu.neutron.kernels.params import CopyParams, KernelParams
from deuteron.npu.neutron.kernels.program import KernelCall
from deuteron.npu.neutron.kernels.row_dependencies import Rowwise


class Kernels(Protocol):
    """How rows of what its calls write depend on rows of what they read, and which calls it takes."""

    def natural_rows(self, params: KernelParams) -> int | None:
        """Bytes of a row of the output of a call whose parameters name its rows, None for others."""
        ...

    def rowwise(self, params: KernelParams, nbytes: int) -> Rowwise | None:
        """The call as rows of `nbytes` bytes; None where it has no such rows."""
        ...

    def operand_bytes(self, params: KernelParams) -> tuple[int, ...]:
        """Size of each operand of a call."""
        ...

    def may_write_onto(self, params: KernelParams, operand: int) -> bool:
        """True where a call may put its output exactly where it reads an operand."""
        ...

    def takes(self, call: KernelCall, anywhere: Collection[str]) -> bool:
        """True where a call may run with its operands where they lie; those in buffers `anywhere` lie as they must."""
        ...

    def copy(self, count: int, nbytes: int) -> tuple[Kernel, KernelParams]:
        """The call that copies `count` rows of `nbytes` bytes."""
        ...


class Costs(Protocol):
    """How long its calls take, in units of its own."""

    @property
    def dispatch(self) -> int:
        """What each call takes beside its work."""
        ...

    def work(self, params: KernelParams) -> int:
        """What a call takes beside that."""
        ...

    def copied(self, nbytes: int) -> int:
        """What a copy takes beside that."""
        ...

    def fetched(self, nbytes: int, fetches: int) -> int:
        """What so many fetches of constants take, which run beside the calls."""
        ...


class _Neutron:
    """The kernels of a Neutron."""

    def natural_rows(self, params: KernelParams) -> int | None:
        """As `Kernels` says."""
        return row_dependencies.natural_rows(params)

    def rowwise(self, params: KernelParams, nbytes: int) -> Rowwise | None:
        """As `Kernels` says."""
        return row_dependencies.rowwise(params, nbytes)

    def operand_bytes(self, params: KernelParams) -> tuple[int, ...]:
        """As `Kernels` says."""
        return rules.operand_bytes(params)

    def may_write_onto(self, params: KernelParams, operand: int) -> bool:
        """As `Kernels` says."""
        return rules.may_write_onto(params, operand)

    def takes(self, call: KernelCall, anywhere: Collection[str]) -> bool:
        """As `Kernels` says (specification, section 4)."""
        if rules.limit_problem(call.params) or rules.form_problem(call.params):
            return False
        aligned = (ref.buffer in anywhere or ref.offset % ALIGNMENT == 0 for ref in call.operands)
        return call.kernel in (COPY, FILL) or all(aligned)

    def copy(self, count: int, nbytes: int) -> tuple[Kernel, KernelParams]:
        """As `Kernels` says."""
        return COPY, row_copy(count, nbytes)


NEUTRON: Kernels = _Neutron()
"""The kernels of a Neutron."""


def row_copy(count: int, nbytes: int) -> CopyParams:
    """The copy of `count` rows of `nbytes` bytes."""
    strides = (0, 0, 0, 0, nbytes, 1)
    return CopyParams(0, (1, 1, 1, 1, count, nbytes), strides, strides)


@dataclass(frozen=True, slots=True)
class Simulated:
    """The cycles of a Neutron's calls."""

    engine: Engine

    @property
    def dispatch(self) -> int:
        """As `Costs` says."""
        return self.engine.call_dispatch

    def work(self, params: KernelParams) -> int:
        """As `Costs` says."""
        return cost(params, self.engine).cycles

    def copied(self, nbytes: int) -> int:
        """As `Costs` says."""
        return self.work(row_copy(1, nbytes))

    def fetched(self, nbytes: int, fetches: int) -> int:
        """As `Costs` says."""
        return self.engine.transfer(nbytes) + fetches * (self.engine.fetch_setup + self.engine.fetch_latency)
