"""What lies between the steps of a program, beside its partitions in one budget: the bytes that count of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.arch.targets import Arch
from deuteron.board import arena
from deuteron.board.bundle import Bundle
from deuteron.board.io_in_scratch import is_alone
from deuteron.board.translate import translate
from deuteron.errors import UnsupportedError
from deuteron.runtime import pte


@dataclass(frozen=True, slots=True)
class Between:
    """Inputs, outputs and what a CPU computes, as ExecuTorch plans them or, where that does not fit, as a bundle does.

    Attributes:
        program: a `.pte`; what its partitions have does not matter.
        arch: its target.
        planned_bytes: that ExecuTorch plans.
    """

    program: bytes = field(repr=False)
    arch: Arch
    planned_bytes: int

    def sizes(self, depth_first: DepthFirst) -> Iterator[int]:
        """The bytes beside which partitions may be planned, in the order in which they are tried.

        ExecuTorch's are the first; a bundle's, with whole steps and then in the least, come where it may have its own.
        """
        yield self.planned_bytes
        if not arena.may_be_cut(self.arch):
            return
        try:
            yield _alone(self.program, self.arch.cpu.name, DepthFirst.NEVER)
        except UnsupportedError:
            return  # no firmware has it: ExecuTorch's plan is all there is
        if depth_first is not DepthFirst.NEVER:
            yield _alone(self.program, self.arch.cpu.name, DepthFirst.ALWAYS)

    @property
    def is_alone(self) -> bool:
        """Whether the program is one partition, beside whose inputs and outputs there are no tensors."""
        try:
            return is_alone(_bundle(self.program))
        except UnsupportedError:
            return False

    def beside(self, memory: MemoryOptions, partitions: int) -> int:
        """The bytes beside `partitions` bytes that partitions have; CapacityError where the budget is too small."""
        if not arena.may_be_cut(self.arch):
            return self.planned_bytes
        try:
            own = arena.beside(_bundle(self.program), memory, self.arch, partitions)
        except UnsupportedError:
            return self.planned_bytes
        return self.planned_bytes if own is None else own.memory.nbytes


@lru_cache(maxsize=2)
def _alone(program: bytes, core: str, depth_first: DepthFirst) -> int:
    """Bytes of a bundle's own memory without a budget."""
    return arena.planned(_bundle(program), MemoryOptions(depth_first=depth_first), core).memory.nbytes


@lru_cache(maxsize=1)
def _bundle(program: bytes) -> Bundle:
    return translate(pte.read(program), name="")
