"""The processor model of the Neutron for the planner (`FetchingProcessor`): rules and cycles of its kernels."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Self

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.kernels.catalogue import COPY, FILL
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.operators import row_dependencies, rules
from deuteron.operators.kernel_params import KernelParams, row_copy
from deuteron.operators.limits import ALIGNMENT
from deuteron.operators.program import Kernel, KernelCall
from deuteron.operators.row_dependencies import Rowwise


class NeutronCalls:
    """Rows and rules of the kernels."""

    def natural_rows(self, params: KernelParams) -> int | None:
        """Bytes of an output row of a call whose parameters define rows, None for others."""
        return row_dependencies.natural_rows(params)

    def rowwise(self, params: KernelParams, nbytes: int) -> Rowwise | None:
        """The call as rows of `nbytes` bytes; None where it has no such rows."""
        return row_dependencies.rowwise(params, nbytes)

    def operand_bytes(self, params: KernelParams) -> tuple[int, ...]:
        """Size of each operand of a call."""
        return rules.operand_bytes(params)

    def may_write_onto(self, params: KernelParams, operand: int) -> bool:
        """Return True if a call may write its output in place of an operand."""
        return rules.may_write_onto(params, operand)

    def supports(self, call: KernelCall, anywhere: Collection[str]) -> bool:
        """Return True if a call obeys section 4 of the specification; buffers `anywhere` are aligned by the caller."""
        if rules.limit_problem(call.params) or rules.form_problem(call.params):
            return False
        aligned = (ref.buffer in anywhere or ref.offset % ALIGNMENT == 0 for ref in call.operands)
        return call.kernel in (COPY, FILL) or all(aligned)

    def copy(self, count: int, nbytes: int) -> tuple[Kernel, KernelParams]:
        """The call that copies `count` rows of `nbytes` bytes."""
        return COPY, row_copy(count, nbytes)


CALLS = NeutronCalls()


@dataclass(frozen=True, slots=True)
class NeutronProcessor(NeutronCalls):
    """The same with the cycles of the simulator's model."""

    engine: Engine

    @property
    def dispatch(self) -> int:
        """Cycles of the CPU per call."""
        return self.engine.call_dispatch

    def work(self, params: KernelParams) -> int:
        """Cycles of a call on the NPU."""
        return cost(params, self.engine).cycles

    def compute(self, params: KernelParams) -> int:
        """Cycles of a call with an infinitely fast SRAM port."""
        return cost(params, self.engine).compute

    def copied(self, nbytes: int) -> int:
        """Cycles of a copy on the NPU."""
        return self.work(row_copy(1, nbytes))

    def fetched(self, nbytes: int, fetches: int) -> int:
        """Cycles of so many fetches of constants."""
        return self.engine.transfer(nbytes) + fetches * (self.engine.fetch_setup + self.engine.fetch_latency)

    def without_flash(self) -> Self:
        """The processor with the same rates for every flash."""
        return replace(self, engine=self.engine.without_flash())
