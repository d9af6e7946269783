"""What every byte of a bundle's memory holds while it runs, and where that is not what a step needs.

The memory is that of a plan of ours. What each step needs is what it reads in the bundle that was planned, step by
step in the memory of ExecuTorch's plan; of a step for some rows, the part of that which these rows depend on. Copies
move the bytes that they find, so that rows that are kept for another stripe are followed wherever they go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, Step, StepKind, Value
from deuteron.board.row_dependencies import COPY, CPU
from deuteron.npu.neutron.kernels.access_footprint import Ints, reached_by
from deuteron.npu.neutron.kernels.params import CopyParams, KernelParams
from deuteron.npu.neutron.kernels.program import KernelCall
from deuteron.npu.neutron.kernels.shadow_memory import NOTHING, Contents
from deuteron.npu.provenance import Stripe

Pairs = tuple[Ints, Ints]
"""Of each byte the value that it is of, and which byte of that."""

_CONSTANT = -3
"""The owner of the first constant; the others count down from it."""


def hazards(before: Bundle, after: Bundle, whole: Iterable[KernelCall], calls: Sequence[KernelCall]) -> Sequence[str]:
    """Everything that would make a planned bundle compute something else; nothing for a sound plan.

    Args:
        before: the bundle as ExecuTorch has planned it.
        after: as it is planned now.
        whole: the steps of `before` as calls.
        calls: those of `after`, one for one.
    """
    source = _Run(before)
    needs = [source.step(at, step) for at, step in enumerate(before.steps)]
    planned = _Planned(after, source, {call.origin[0]: call.params for call in whole}, needs)
    for at, (step, call) in enumerate(zip(after.steps, calls, strict=True)):
        planned.check(at, step, call)
    planned.end([source.read(index) for index in before.outputs])
    return planned.found


def copied(step: Step) -> tuple[Ints, Ints]:
    """The bytes that a step of `COPY` reads, counted from the start of what it reads, and those that it writes."""
    start, *words = (word - (word >> 31 << 32) for word in step.params)
    reached = reached_by(CopyParams.from_words(tuple(words)))
    return reached[0], reached[1] + start


class _Run:
    """The memories of a run, each step of which writes bytes of its own."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.memories = [Contents(memory.bytes) for memory in bundle.memories]
        self._names = [f"input {i}" for i in range(len(bundle.inputs))]
        self._firsts: list[int] = []
        for step in bundle.steps:
            self._firsts.append(len(self._names))
            self._names += [step.title] * len(step.outputs)
        for owner, index in enumerate(bundle.inputs):
            self.write(index, owner, np.arange(bundle.values[index].bytes), -1)

    def read(self, index: int) -> Pairs:
        """What a value holds."""
        value = self.bundle.values[index]
        if value.memory >= MEMORY_CONSTANT:
            owner = _CONSTANT - (value.memory - MEMORY_CONSTANT)
            return np.full(value.bytes, owner), np.arange(value.bytes) + value.offset
        memory, where = self.memories[value.memory], slice(value.offset, value.offset + value.bytes)
        return memory.owner[where].astype(np.int64), memory.byte[where].astype(np.int64)

    def write(self, index: int, owner: Ints | int, byte: Ints, writer: int, at: Ints | None = None) -> None:
        """Write bytes of a value, all or those at some places of it."""
        value = self.bundle.values[index]
        where = np.arange(value.bytes) if at is None else at
        self.memories[value.memory].put(where + value.offset, owner, byte, writer)

    def step(self, at: int, step: Step) -> Sequence[Pairs]:
        """What a step reads; then it writes."""
        reads = [self.read(index) for index in step.inputs]
        if self.is_copy(step):
            source, target = copied(step)
            self.write(step.outputs[0], reads[0][0][source], reads[0][1][source], at, target)
            return reads
        for output, index in enumerate(step.outputs):
            self.write(index, self.owner(at, output), np.arange(self.bundle.values[index].bytes), at)
        return reads

    def owner(self, at: int, output: int) -> int:
        """What stands for an output of a step."""
        return self._firsts[at] + output

    def name(self, owner: int) -> str:
        """What a value is called."""
        return f"constant {_CONSTANT - owner}" if owner <= _CONSTANT else self._names[owner]

    def is_copy(self, step: Step) -> bool:
        """Whether it moves bytes and does nothing else."""
        return step.kind is StepKind.OPERATOR and self.bundle.operators[step.index] == COPY


@dataclass(frozen=True, slots=True)
class _Part:
    """What a step computes of one that was planned.

    Attributes:
        reads: for each input the first of the bytes that it is of those of the whole, and how many; all where None.
        first: of the bytes that it writes, of those of the whole.
    """

    reads: Sequence[tuple[int, int] | None]
    first: int


class _Planned:
    """A plan as it runs, and what was found so far."""

    def __init__(
        self,
        bundle: Bundle,
        source: _Run,
        whole: Mapping[int, KernelParams],
        needs: Sequence[Sequence[Pairs]],
    ) -> None:
        self.found: list[str] = []
        self._source, self._whole, self._needs = source, whole, needs
        self._run = _Run(bundle)
        self._bundle = bundle

    def check(self, at: int, step: Step, call: KernelCall) -> None:
        """Check what a step reads, then let it write."""
        where = f"step {at}, `{step.title}`"
        values = [self._bundle.values[i] for i in (*step.inputs, *step.outputs)]
        if not (self._are_inside(where, values) and self._are_apart(where, len(step.inputs), values)):
            return
        if self._run.is_copy(step):
            source, target = copied(step)
            if source.max(initial=-1) >= values[0].bytes or target.max(initial=-1) >= values[1].bytes:
                self.found.append(f"{where} copies what lies outside its values")
                return
            owner, byte = self._run.read(step.inputs[0])
            self._run.write(step.outputs[0], owner[source], byte[source], at, target)
            return
        origin = call.origin[0]
        part = None if call.stripe is None else self._part(where, values, step, origin, call.stripe)
        if call.stripe is not None and part is None:
            return
        for operand, needed in enumerate(self._needs[origin]):
            reads = None if part is None else part.reads[operand]
            first, count = (0, len(needed[0])) if reads is None else reads
            own = needed[0][first : first + count], needed[1][first : first + count]
            self._read(f"{where}: operand {operand}", step.inputs[operand], own)
        for output, index in enumerate(step.outputs):
            start = 0 if part is None else part.first
            byte = np.arange(self._bundle.values[index].bytes) + start
            self._run.write(index, self._source.owner(origin, output), byte, at)

    def end(self, outputs: Sequence[Pairs]) -> None:
        """Check that the outputs are there."""
        for number, (index, needed) in enumerate(zip(self._bundle.outputs, outputs, strict=True)):
            self._read(f"output {number}", index, needed)

    def _part(self, where: str, values: Sequence[Value], step: Step, origin: int, stripe: Stripe) -> _Part | None:
        """What a step for some rows reads and writes; None where it is not what the rows of its operator say."""
        nbytes = values[-1].bytes // (stripe.last - stripe.first)
        rows = CPU.rowwise(self._whole[origin], nbytes)
        if rows is None:
            self.found.append(f"{where} computes rows of {nbytes} bytes, which its operator has not")
            return None
        own = stripe.first // rows.grain, stripe.last // rows.grain
        part = rows.narrowed(*own)
        sizes = [*(value.bytes for value in values[: len(step.inputs)]), values[-1].bytes]
        words = tuple(word & 0xFFFFFFFF for word in part.words())
        if words != step.params or tuple(sizes) != CPU.operand_bytes(part)[: len(sizes)]:
            self.found.append(f"{where} has other numbers or sizes than its rows")
            return None
        reads: list[tuple[int, int] | None] = []
        for window in rows.reads:
            low, high = (0, 0) if window is None else window.rows(*own)
            reads.append(None if window is None else (low * window.nbytes, (high - low) * window.nbytes))
        return _Part(reads, stripe.first * nbytes)

    def _are_inside(self, where: str, values: Sequence[Value]) -> bool:
        for value in values:
            if value.memory < MEMORY_CONSTANT:
                has = len(self._run.memories[value.memory].owner)
                if value.offset + value.bytes > has:
                    self.found.append(f"{where}: {_bytes(value)} leave the {has} bytes of memory {value.memory}")
                    return False
        return True

    def _are_apart(self, where: str, reads: int, values: Sequence[Value]) -> bool:
        for at, written in enumerate(values[reads:], reads):
            for other in (*values[:at], *values[at + 1 :]):
                apart = written.offset + written.bytes <= other.offset or other.offset + other.bytes <= written.offset
                if written.memory == other.memory and not apart:
                    self.found.append(f"{where} would write {_bytes(written)} over {_bytes(other)}, which it uses, too")
                    return False
        return True

    def _read(self, what: str, index: int, needed: Pairs) -> None:
        """Reports the first byte that is not what it should be; what nothing has written may be anything."""
        value = self._bundle.values[index]
        owner, byte = needed
        if value.memory >= MEMORY_CONSTANT:
            own = self._run.read(index)
            if not all(map(np.array_equal, own, needed)):
                self.found.append(f"{what} is another constant, or another part of it")
            return
        known = np.flatnonzero(owner != NOTHING)
        memory, words = self._run.memories[value.memory], (f"memory {value.memory}", "step")
        wrong = memory.wrong(known + value.offset, owner[known], byte[known], self._source.name, words)
        if wrong:
            self.found.append(f"{what} {wrong}")


def _bytes(value: Value) -> str:
    return f"bytes {value.offset}..{value.offset + value.bytes - 1}"
