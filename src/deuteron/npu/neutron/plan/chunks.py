"""What is fetched as one: the constants that a kernel call is the first to read."""

from dataclasses import dataclass
from itertools import groupby

from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.npu.neutron.kernels.program import Program


@dataclass(frozen=True, slots=True)
class Chunk:
    """Constants that are fetched together, each at a multiple of the alignment from the chunk's start.

    Attributes:
        buffers: their names, in the order in which they lie.
        nbytes: of all of them, a multiple of the alignment.
        first: the call that reads one of them first.
        last: the call that reads one of them last.
    """

    buffers: tuple[str, ...]
    nbytes: int
    first: int
    last: int


def chunks(program: Program, least: int = 0) -> tuple[Chunk, ...]:
    """The chunks of a program in order of first use; what a call is the first to read is never parted.

    Args:
        program: the calls.
        least: chunks of consecutive calls are joined until they have that many bytes: a fetch has a cost of its own.
    """
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers if buffer.data is not None}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            if ref.buffer in sizes:
                first.setdefault(ref.buffer, at)
                last[ref.buffer] = at
    ordered: list[Chunk] = []
    for at, group in groupby(first, key=first.__getitem__):
        names = tuple(group)
        own = Chunk(names, sum(round_up(sizes[name]) for name in names), at, max(last[name] for name in names))
        before = ordered[-1] if ordered else None
        if before is not None and before.nbytes < least:
            ordered[-1] = Chunk(
                (*before.buffers, *names), before.nbytes + own.nbytes, before.first, max(before.last, own.last)
            )
        else:
            ordered.append(own)
    return tuple(ordered)
