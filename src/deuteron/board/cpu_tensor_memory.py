"""Memory of a program's CPU tensors, which share one SRAM budget with its partitions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from deuteron.arch.memory import DepthFirst, MemoryOptions
from deuteron.arch.targets import Arch
from deuteron.board import arena
from deuteron.board.bundle import CONTEXT_BYTES, Bundle
from deuteron.board.io_in_scratch import is_alone
from deuteron.board.translate import translate
from deuteron.errors import UnsupportedError
from deuteron.runtime import pte


@dataclass(frozen=True, slots=True)
class Needed:
    """Bytes of SRAM next to partitions: tensors, state with its working copies, and contexts of partitions.

    A budget for a Neutron does not count contexts; they are then 0.
    """

    tensors: int
    state: int
    contexts: int = 0

    @property
    def total(self) -> int:
        """Return the sum."""
        return self.tensors + self.state + self.contexts


@dataclass(frozen=True, slots=True)
class CpuTensorMemory:
    """Memory of inputs, outputs, CPU tensors and state: from ExecuTorch's plan, or a bundle's if that does not fit.

    Attributes:
        program: a `.pte`; the content of its partitions does not matter.
        arch: its target.
        arenas: bytes of ExecuTorch's plan, in which the state has no status and no working copies.
    """

    program: bytes = field(repr=False)
    arch: Arch
    arenas: int

    @property
    def planned_bytes(self) -> int:
        """Return the bytes of ExecuTorch's plan, with the state as firmware keeps it."""
        try:
            bundle = _bundle(self.program)
        except UnsupportedError:
            return self.arenas
        return bundle.tensor_bytes

    @property
    def needed(self) -> "Needed":
        """Return the bytes that firmware needs next to partitions; ExecuTorch's plan if firmware lacks an operator."""
        try:
            bundle = _bundle(self.program)
        except UnsupportedError:
            state = sum(value.bytes for _, value in pte.read(self.program).methods[0].state)
            return Needed(self.arenas - state, state)
        tensors = sum(memory.bytes for memory in bundle.memories[:-1]) - bundle.state_bytes
        counts_contexts = self.arch.npu is None or not self.arch.npu.plans_sram
        return Needed(
            bundle.planned_bytes if is_alone(bundle) else tensors,  # a new plan may move them out of scratch
            bundle.state_bytes,
            CONTEXT_BYTES * len(bundle.delegates) if counts_contexts else 0,
        )

    def sizes(self, depth_first: DepthFirst) -> Iterator[int]:
        """Yield the sizes for which partitions may be planned, in the order in which they are tried.

        ExecuTorch's plan is first; a bundle's plan, with whole steps and then with least memory, follows if allowed.
        """
        yield self.planned_bytes
        if not arena.may_be_cut(self.arch):
            return
        try:
            yield _alone(self.program, self.arch.cpu.name, DepthFirst.NEVER)
        except UnsupportedError:
            return  # firmware does not support it: only ExecuTorch's plan exists
        if depth_first is not DepthFirst.NEVER:
            yield _alone(self.program, self.arch.cpu.name, DepthFirst.ALWAYS)

    @property
    def is_alone(self) -> bool:
        """Return true if the program is one partition and has no tensors but its inputs and outputs."""
        try:
            return is_alone(_bundle(self.program))
        except UnsupportedError:
            return False

    def bytes_within(self, memory: MemoryOptions, partitions: int) -> int:
        """Return the bytes next to `partitions` bytes of partitions; CapacityError if the budget is too small."""
        if not arena.may_be_cut(self.arch):
            return self.needed.total
        try:
            own = arena.next_to_partitions(_bundle(self.program), memory, self.arch, partitions)
        except UnsupportedError:
            return self.needed.total
        return self.needed.total if own is None else own.memory.nbytes + own.bundle.state_bytes


@lru_cache(maxsize=2)
def _alone(program: bytes, core: str, depth_first: DepthFirst) -> int:
    """Return the bytes of a bundle's plan and its state without a budget."""
    own = arena.planned(_bundle(program), MemoryOptions(depth_first=depth_first), core)
    return own.memory.nbytes + own.bundle.state_bytes


@lru_cache(maxsize=1)
def _bundle(program: bytes) -> Bundle:
    return translate(pte.read(program), name="")
