"""Checks the memory of a planned bundle: tracks the content of every byte, and reports wrong reads of a step.

The reference is the bundle with ExecuTorch's plan: a step must read the same values there. A step for some rows must
read the bytes that these rows depend on. Copies move the bytes that they read, so rows kept for another stripe are
tracked too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deuteron.board.bundle import MEMORY_CONSTANT, Bundle, Step, StepKind, Value
from deuteron.board.row_dependencies import COPY, CPU
from deuteron.npu.provenance import Stripe
from deuteron.operators.access_footprint import Ints, reached_by
from deuteron.operators.kernel_params import CopyParams, KernelParams
from deuteron.operators.program import KernelCall
from deuteron.operators.shadow_memory import NOTHING, Contents

Pairs = tuple[Ints, Ints]
"""For each byte: the value that owns it, and the byte's index in that value."""

_STATE = "the state before the run"

_CONSTANT = -3
"""Owner number of the first constant; the others count down from it."""


def hazards(before: Bundle, after: Bundle, whole: Iterable[KernelCall], calls: Sequence[KernelCall]) -> Sequence[str]:
    """Return everything that makes a planned bundle compute something else; nothing for a sound plan.

    Args:
        before: the bundle with ExecuTorch's plan.
        after: the bundle with our plan.
        whole: the steps of `before` as calls.
        calls: the steps of `after` as calls, one for one.
    """
    source = _Run(before)
    needs = [source.step(at, step) for at, step in enumerate(before.steps)]
    planned = _Planned(after, source, {call.origin[0]: call.params for call in whole}, needs)
    for at, (step, call) in enumerate(zip(after.steps, calls, strict=True)):
        planned.check(at, step, call)
    planned.end([source.read(index) for index in before.outputs])
    return planned.found


def copied(step: Step) -> tuple[Ints, Ints]:
    """Return the bytes that a copy step reads, relative to its source, and those that it writes."""
    start, *words = (word - (word >> 31 << 32) for word in step.params)
    reached = reached_by(CopyParams.from_words(tuple(words)))
    return reached[0], reached[1] + start


class _Run:
    """The memories of a run; each step writes bytes that it owns."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.memories = [Contents(memory.bytes) for memory in bundle.memories]
        self._names = [f"input {i}" for i in range(len(bundle.inputs))] + [_STATE]
        self._firsts: list[int] = []
        for step in bundle.steps:
            self._firsts.append(len(self._names))
            self._names += [step.title] * len(step.outputs)
        for owner, index in enumerate(bundle.inputs):
            self.write(index, owner, np.arange(bundle.values[index].bytes), -1)
        if bundle.state is not None:
            byte = np.arange(bundle.state_bytes)
            self.memories[bundle.state.memory].put(byte, len(bundle.inputs), byte, -1)

    def read(self, index: int) -> Pairs:
        """Return the content of a value."""
        value = self.bundle.values[index]
        if value.memory >= MEMORY_CONSTANT:
            owner = _CONSTANT - (value.memory - MEMORY_CONSTANT)
            return np.full(value.bytes, owner), np.arange(value.bytes) + value.offset
        memory, where = self.memories[value.memory], slice(value.offset, value.offset + value.bytes)
        return memory.owner[where].astype(np.int64), memory.byte[where].astype(np.int64)

    def write(self, index: int, owner: Ints | int, byte: Ints, writer: int, at: Ints | None = None) -> None:
        """Write bytes of a value, all or at some offsets."""
        value = self.bundle.values[index]
        where = np.arange(value.bytes) if at is None else at
        self.memories[value.memory].put(where + value.offset, owner, byte, writer)

    def step(self, at: int, step: Step) -> Sequence[Pairs]:
        """Return what a step reads, then write its outputs."""
        reads = [self.read(index) for index in step.inputs]
        if self.is_copy(step):
            source, target = copied(step)
            self.write(step.outputs[0], reads[0][0][source], reads[0][1][source], at, target)
            return reads
        for output, index in enumerate(step.outputs):
            self.write(index, self.owner(at, output), np.arange(self.bundle.values[index].bytes), at)
        return reads

    def owner(self, at: int, output: int) -> int:
        """Return the owner number of a step's output."""
        return self._firsts[at] + output

    def name(self, owner: int) -> str:
        """Return the name of a value."""
        return f"constant {_CONSTANT - owner}" if owner <= _CONSTANT else self._names[owner]

    def is_copy(self, step: Step) -> bool:
        """Return true if a step only moves bytes."""
        return step.kind is StepKind.OPERATOR and self.bundle.operators[step.index] == COPY


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a whole step that a step for some rows computes.

    Attributes:
        reads: for each input the first byte and the number of bytes in the whole input; None for all.
        first: index of its first written byte in the whole output.
    """

    reads: Sequence[tuple[int, int] | None]
    first: int


class _Planned:
    """Runs a planned bundle step by step and collects the errors."""

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
        """Check the reads of a step, then write its outputs."""
        where = f"step {at}, `{step.title}`"
        values = [self._bundle.values[i] for i in (*step.inputs, *step.outputs)]
        if not (self._are_inside(where, values) and self._writes_are_exclusive(where, len(step.inputs), values)):
            return
        if self._run.is_copy(step):
            source, target = copied(step)
            if source.max(initial=-1) >= values[0].bytes or target.max(initial=-1) >= values[1].bytes:
                self.found.append(f"{where} copies bytes outside its values")
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
        """Check that the outputs hold their values."""
        for number, (index, needed) in enumerate(zip(self._bundle.outputs, outputs, strict=True)):
            self._read(f"output {number}", index, needed)

    def _part(self, where: str, values: Sequence[Value], step: Step, origin: int, stripe: Stripe) -> _Part | None:
        """Return the part of a step for some rows; None if it does not match the rows of its operator."""
        nbytes = values[-1].bytes // (stripe.last - stripe.first)
        rows = CPU.rowwise(self._whole[origin], nbytes)
        if rows is None:
            self.found.append(f"{where} computes rows of {nbytes} bytes, which its operator does not have")
            return None
        own = stripe.first // rows.grain, stripe.last // rows.grain
        part = rows.narrowed(*own)
        sizes = [*(value.bytes for value in values[: len(step.inputs)]), values[-1].bytes]
        words = tuple(word & 0xFFFFFFFF for word in part.words())
        if words != step.params or tuple(sizes) != CPU.operand_bytes(part)[: len(sizes)]:
            self.found.append(f"{where} has parameters or sizes that do not match its rows")
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
                    self.found.append(f"{where}: {_bytes(value)} exceed the {has} bytes of memory {value.memory}")
                    return False
        return True

    def _writes_are_exclusive(self, where: str, reads: int, values: Sequence[Value]) -> bool:
        for at, written in enumerate(values[reads:], reads):
            for other in (*values[:at], *values[at + 1 :]):
                has_gap = written.offset + written.bytes <= other.offset or other.offset + other.bytes <= written.offset
                if written.memory == other.memory and not has_gap:
                    self.found.append(f"{where} would write {_bytes(written)} over {_bytes(other)}, which it also uses")
                    return False
        return True

    def _read(self, what: str, index: int, needed: Pairs) -> None:
        """Report the first byte with wrong content; bytes that no step has written may have any."""
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
