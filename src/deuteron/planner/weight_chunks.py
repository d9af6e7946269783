"""Chunks: constants that are fetched together, because one kernel call is the first to read them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, groupby

from deuteron.operators.limits import round_up
from deuteron.operators.program import Program


@dataclass(frozen=True, slots=True)
class Chunk:
    """Constants that are fetched together, each at a multiple of the alignment from the chunk's start.

    Attributes:
        buffers: their names, in the order of their offsets.
        nbytes: total size, a multiple of the alignment.
        first: the first call that reads one of them.
        last: the last call that reads one of them.
    """

    buffers: tuple[str, ...]
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Group:
    """Constants that call `call` reads first; `place` is the group with the same bytes whose copy in flash is used."""

    call: int
    names: tuple[str, ...]
    place: int


def groups(program: Program) -> tuple[Group, ...]:
    """Return the constants of a program in order of first use; groups of the same bytes share one copy in flash."""
    data = {buffer.name: buffer.data for buffer in program.buffers if buffer.data is not None}
    first: dict[str, int] = {}
    for at, call in enumerate(program.calls):
        for ref in call.operands:
            if ref.buffer in data:
                first.setdefault(ref.buffer, at)
    places: dict[tuple[bytes, ...], int] = {}
    return tuple(
        Group(at, names, places.setdefault(tuple(data[name] for name in names), index))
        for index, (at, names) in enumerate((at, tuple(names)) for at, names in groupby(first, key=first.__getitem__))
    )


def bytes_needed(parts: Iterable[Chunk], calls: int) -> list[int]:
    """Return the bytes of the chunks that are needed during each of so many calls, from first to last use."""
    changes = [0] * (calls + 1)
    for chunk in parts:
        changes[chunk.first] += chunk.nbytes
        changes[chunk.last + 1] -= chunk.nbytes
    return list(accumulate(changes[:calls]))


def chunks(program: Program, least: int = 0) -> tuple[Chunk, ...]:
    """Return the chunks of a program in order of first use.

    Args:
        program: the calls.
        least: smallest size; smaller chunks are merged with the next ones that follow in flash, because each fetch has
            a fixed cost.
    """
    sizes = {buffer.name: buffer.nbytes for buffer in program.buffers if buffer.data is not None}
    last = {ref.buffer: at for at, call in enumerate(program.calls) for ref in call.operands if ref.buffer in sizes}
    ordered: list[Chunk] = []
    ends_at = 0
    for group in groups(program):
        names = group.names
        own = Chunk(names, sum(round_up(sizes[name]) for name in names), group.call, max(last[name] for name in names))
        before = ordered[-1] if ordered else None
        if before is not None and before.nbytes < least and group.place == ends_at:
            ordered[-1] = Chunk(
                (*before.buffers, *names), before.nbytes + own.nbytes, before.first, max(before.last, own.last)
            )
        else:
            ordered.append(own)
        ends_at = group.place + 1
    return tuple(ordered)
