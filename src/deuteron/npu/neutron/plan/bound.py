"""The least that any schedule of some chunks takes, in closed form.

Lower bounds of any schedule with one flash and this order of calls, P(i) the bytes that calls 0..i need, A the bytes of
the area, and C(i..j) the cycles of calls: where not all chunks fit, a run takes at least, for every i,

    C(0..k) + max(0, P(i) - P(k) - (A - S(k))) / bandwidth + C(i..end)    for every k < i,
    max(0, P(i) - (A - M)) / bandwidth + C(i..end)

The first: fetches are issued between calls. What is issued before call k has its room beside the S(k) bytes that k is
the last to read; the rest of what calls k+1..i need is transferred after k and before i. The second: let M be the bytes
of the largest chunk that is not resident. While it is read, no more than A - M are resident; the rest of P(i) comes
before i. M is not known, but all larger chunks are resident and have room beside it: the bound is the least over all M.

Where nothing is kept from run to run, all of P(i) comes before i. Bytes come in chunks, each with the flash's latency.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.plan.chunks import Chunk
from deuteron.npu.neutron.plan.stream import Costs


def lower_bound(parts: Sequence[Chunk], costs: Costs, engine: Engine, area: int, *, keeps: bool = True) -> int:
    """Cycles that no schedule is faster than (the formulas of this file); `keeps`: from run to run."""
    total = sum(costs.calls)
    if keeps and sum(chunk.nbytes for chunk in parts) <= area:
        return total
    elapsed = (0, *accumulate(costs.calls))
    needed = tuple(zip(accumulate(chunk.nbytes for chunk in parts), (chunk.first for chunk in parts), strict=True))

    sizes = {chunk.nbytes for chunk in parts}

    def late(done: int, room: int, before: int, most: int = max(sizes)) -> int:
        """The bound when, after the first `done` bytes, `room` more are there at cycle `before`; chunks have `most`."""
        rest = [(p - done - room, i) for p, i in needed if p > done + room]
        ends = (engine.transfer(b) - b // -most * engine.fetch_latency + total - elapsed[i] for b, i in rest)
        return before + max(ends, default=0)

    largest = (most for most in sizes if sum(chunk.nbytes for chunk in parts if chunk.nbytes > most) + most <= area)
    start = min(late(0, area - most, 0, most) for most in largest) if keeps else late(0, 0, 0)
    return max(total, start, *_after_calls(parts, elapsed, area, late))


def _after_calls(
    parts: Sequence[Chunk], elapsed: Sequence[int], area: int, late: Callable[[int, int, int], int]
) -> Iterator[int]:
    """The bound from each call on that is the last to read something."""
    read = 0
    for call, first in groupby(parts, key=lambda chunk: chunk.first):
        read += sum(chunk.nbytes for chunk in first)
        own = sum(chunk.nbytes for chunk in parts if chunk.first <= call == chunk.last)
        yield late(read, area - own, elapsed[call + 1])
