"""When each block of scratch holds something that is still needed."""

from dataclasses import dataclass

from deuteron.kernels.program import KernelCall, Program, Ref
from deuteron.kernels.rules import may_write_onto

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
    """First and last call of each scratch buffer, in order of first use."""
    elsewhere = {*program.inputs, *program.outputs, *(b.name for b in program.buffers if b.data is not None)}
    found: dict[str, Span] = {}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            if ref.buffer not in elsewhere:
                found[ref.buffer] = (found.get(ref.buffer, (at, at))[0], at)
    return found


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


def _written_onto(call: KernelCall, name: str, live: dict[str, Span], sizes: dict[str, int]) -> str | None:
    """The scratch buffer that `call`, the first to name buffer `name`, can write it onto; None when there is none."""
    output = len(call.kernel.reads)
    if call.operands[output] != Ref(name, 0, sizes[name]):
        return None
    written_at = live[name][0]
    for source in call.operands[:output]:
        dies_here = source.buffer in live and live[source.buffer][1] == written_at
        whole = source == Ref(source.buffer, 0, sizes[name]) and sizes[source.buffer] == sizes[name]
        reads = [at for at, ref in enumerate(call.operands) if ref.buffer == source.buffer]
        if dies_here and whole and all(may_write_onto(call.params, at) for at in reads):
            return source.buffer
    return None
