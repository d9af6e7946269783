"""When each block of scratch holds something that is still needed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from deuteron.npu.neutron.kernels.program import KernelCall, Program, Ref
from deuteron.npu.neutron.kernels.rules import may_write_onto

Span = tuple[int, int]
"""First and last call that names a buffer."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The calls `first` to `last`, both included, during which a block of `nbytes` is in use.

    `buffers` share the block: each but the first is written exactly onto the one before it, in that one's last call.
    """

    buffers: tuple[str, ...]
    nbytes: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """True when both are in use during the same call."""
        return self.first <= other.last and other.first <= self.last


def spans(program: Program) -> dict[str, Span]:
    """First and last call of each buffer in scratch, in order of first use.

    Inputs there are from the first call of all on, outputs up to the last.
    """
    ends = {*program.inputs, *program.outputs}
    elsewhere = (ends - program.placed) | {b.name for b in program.buffers if b.data is not None}
    by_buffer: dict[str, Span] = {name: (0, 0) for name in program.inputs if name in program.placed}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            if ref.buffer not in elsewhere:
                by_buffer[ref.buffer] = (by_buffer.get(ref.buffer, (at, at))[0], at)
    for name in program.outputs:
        if name in by_buffer:
            by_buffer[name] = (by_buffer[name][0], len(program.calls) - 1)
    return by_buffer


def lifetimes(program: Program) -> tuple[Lifetime, ...]:
    """The blocks of scratch, in order of first use; buffers that are written in place share one."""
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers}
    live = spans(program)
    blocks: dict[str, Lifetime] = {}  # by the newest buffer in the block
    for name, (first, last) in live.items():
        source = _written_onto(program.calls[first], name, live, sizes)
        if source is None:
            blocks[name] = Lifetime((name,), sizes[name], first, last)
        else:
            block = blocks.pop(source)
            blocks[name] = Lifetime((*block.buffers, name), block.nbytes, block.first, last)
    return tuple(blocks.values())


def can_share(call: KernelCall, source: str, name: str, sizes: Mapping[str, int]) -> bool:
    """True when `call` can write buffer `name` exactly onto buffer `source`, if nothing else needs that any more."""
    output = len(call.kernel.reads)
    whole = Ref(name, 0, sizes[name])
    reads = [at for at, ref in enumerate(call.operands) if ref.buffer == source]
    return (
        call.operands[output] == whole
        and sizes[source] == sizes[name]
        and any(call.operands[at] == replace(whole, buffer=source) for at in reads if at < output)
        and all(may_write_onto(call.params, at) for at in reads)
    )


def _written_onto(call: KernelCall, name: str, live: Mapping[str, Span], sizes: Mapping[str, int]) -> str | None:
    """The scratch buffer that `call`, the first to name buffer `name`, can write it onto; None when there is none."""
    for ref in call.operands[: len(call.kernel.reads)]:
        dies_here = ref.buffer in live and live[ref.buffer][1] == live[name][0]
        if dies_here and can_share(call, ref.buffer, name, sizes):
            return ref.buffer
    return None
