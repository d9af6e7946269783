"""Lifetimes of the blocks of scratch.

A chain of calls that runs depth first reads one block and writes another row by row. A row is dead after the last chain
has read it, and needs no memory before the first chain writes it. Such blocks have parts with separate lifetimes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.operators.program import KernelCall, Program, Ref
from deuteron.operators.rules import may_write_onto

LiveRange = tuple[int, int]
"""First and last call that uses a buffer."""


@dataclass(frozen=True, slots=True)
class LifetimePart:
    """`nbytes` bytes of a block from `offset` on, which are live from call `first` to call `last`, both included.

    Offset and size are multiples of the alignment.
    """

    offset: int
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A block of `nbytes` bytes, live from call `first` to call `last`, both included.

    `buffers` share the block: each but the first is written in place of the one before it, in that one's last call.
    `parts` cover the block in order of their offsets. There is a single one, unless they have separate lifetimes.
    """

    buffers: tuple[str, ...]
    nbytes: int
    first: int
    last: int
    parts: tuple[LifetimePart, ...] = field(default=(), hash=False)

    def __post_init__(self) -> None:
        if not self.parts:
            object.__setattr__(self, "parts", (LifetimePart(0, round_up(self.nbytes), self.first, self.last),))

    def overlaps(self, other: "Lifetime") -> bool:
        """Return True if both are live during the same call."""
        return self.first <= other.last and other.first <= self.last

    def live_bytes(self, at: int) -> int:
        """Return the bytes that are live during a call."""
        return sum(part.nbytes for part in self.parts if part.first <= at <= part.last)


def live_ranges(program: Program) -> dict[str, LiveRange]:
    """Return the first and last call of each buffer in scratch, in order of first use.

    Inputs in scratch are live from the first call of the program, outputs up to the last.
    """
    ends = {*program.inputs, *program.outputs}
    elsewhere = (ends - program.placed) | {b.name for b in program.buffers if b.data is not None}
    by_buffer: dict[str, LiveRange] = {name: (0, 0) for name in program.inputs if name in program.placed}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            if ref.buffer not in elsewhere:
                by_buffer[ref.buffer] = (by_buffer.get(ref.buffer, (at, at))[0], at)
    for name in program.outputs:
        if name in by_buffer:
            by_buffer[name] = (by_buffer[name][0], len(program.calls) - 1)
    return by_buffer


def lifetimes(program: Program) -> tuple[Lifetime, ...]:
    """Return the blocks of scratch in order of first use; buffers that are written in place share one."""
    blocks = _blocks(program)
    stripes = {buffer.name for buffer in program.buffers if buffer.part_of is not None}
    whole_first, whole_last = stripes | {*program.inputs}, stripes | {*program.outputs}
    chains = [-1 if call.stripe is None else call.stripe.cascade for call in program.calls]
    edges: dict[str, _Edge] = {}
    for block in blocks:
        begin = -1 if block.buffers[0] in whole_first else chains[block.first]
        end = -1 if block.buffers[-1] in whole_last else chains[block.last]
        if block.nbytes and max(begin, end) >= 0:
            edges |= dict.fromkeys(block.buffers, _Edge(block, begin, end))
    for at, call in enumerate(program.calls):
        for ref in call.operands if chains[at] >= 0 else ():
            if ref.buffer in edges:
                edges[ref.buffer].record(at, chains[at], ref)
    return tuple(edges[block.buffers[0]].with_parts() if block.buffers[0] in edges else block for block in blocks)


class _Edge:
    """A block that chain `begin` writes first, or chain `end` reads last; -1 if no chain does.

    Bytes that no chain uses are live from the first to the last call of the block.
    """

    def __init__(self, block: Lifetime, begin: int, end: int) -> None:
        self._block, self._begin, self._end = block, begin, end
        units = round_up(block.nbytes) // ALIGNMENT
        self._first, self._last = np.full(units, -1), np.full(units, -1)

    def record(self, at: int, chain: int, ref: Ref) -> None:
        """Record a call of a chain that uses bytes of the block."""
        units = slice(ref.offset // ALIGNMENT, round_up(ref.offset + ref.nbytes) // ALIGNMENT)
        if chain == self._begin:
            self._first[units] = np.where(self._first[units] < 0, at, self._first[units])
        if chain == self._end:
            self._last[units] = at

    def with_parts(self) -> Lifetime:
        """Return the block divided into parts of equal lifetime."""
        first = np.where(self._first < 0, self._block.first, self._first)
        last = np.where(self._last < 0, self._block.last, self._last)
        ends = np.flatnonzero((np.diff(first, append=-1) != 0) | (np.diff(last, append=-1) != 0)) + 1
        bounds = pairwise([0, *ends.tolist()])
        parts = (
            LifetimePart(start * ALIGNMENT, (stop - start) * ALIGNMENT, int(first[start]), int(last[start]))
            for start, stop in bounds
        )
        return replace(self._block, parts=tuple(parts))


def _blocks(program: Program) -> tuple[Lifetime, ...]:
    """Return the blocks with a single part each."""
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    live = live_ranges(program)
    blocks: dict[str, Lifetime] = {}  # by the newest buffer in the block
    for name, (first, last) in live.items():
        source = _written_onto(program, name, live, sizes)
        if source is None:
            blocks[name] = Lifetime((name,), sizes[name], first, last)
        else:
            block = blocks.pop(source)
            blocks[name] = Lifetime((*block.buffers, name), block.nbytes, block.first, last)
    return tuple(blocks.values())


def can_share(call: KernelCall, source: str, name: str, sizes: Mapping[str, int]) -> bool:
    """Return True if `call` can write buffer `name` in place of buffer `source`, if nothing else reads that later."""
    output = len(call.kernel.reads)
    whole = Ref(name, 0, sizes[name])
    reads = [at for at, ref in enumerate(call.operands) if ref.buffer == source]
    return (
        call.operands[output] == whole
        and sizes[source] == sizes[name]
        and any(call.operands[at] == replace(whole, buffer=source) for at in reads if at < output)
        and all(may_write_onto(call.params, at) for at in reads)
    )


def _written_onto(program: Program, name: str, live: Mapping[str, LiveRange], sizes: Mapping[str, int]) -> str | None:
    """Return the scratch buffer that the first call to use buffer `name` can overwrite with it, or None."""
    first, _ = live[name]
    call = program.calls[first]
    for ref in call.operands[: len(call.kernel.reads)]:
        dies_here = ref.buffer in live and live[ref.buffer][1] == first and ref.buffer not in program.outputs
        if dies_here and can_share(call, ref.buffer, name, sizes):
            return ref.buffer
    return None
