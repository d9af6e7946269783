"""The least that any schedule of some chunks takes, in closed form.

Lower bounds of any schedule with one flash and this order of calls, P(i) the bytes that calls 0..i need, A the bytes of
the area, U(k) those of scratch that nothing else uses during call k, U the most of them, and C(i..j) the cycles of
calls: where not all chunks fit into the area, a run takes at least, for every i,

    C(0..k) + max(0, P(i) - P(k) - (A + U(k) - S(k))) / bandwidth + C(i..end)    for every k < i,
    max(0, P(i) - (A - max(0, M - U))) / bandwidth + C(i..end)

The first: fetches are issued between calls. What is issued before call k has its room beside the S(k) bytes that k is
the last to read; the rest of what calls k+1..i need is transferred after k and before i. The second: let M be the bytes
of the largest chunk that is not resident. While it is read, and takes what scratch it can, no more than the rest of the
area is resident; what is left of P(i) comes before i. M is not known, but all larger chunks are resident and have room
beside it: the bound is the least over all M.

Where nothing is kept from run to run, all of P(i) comes before i. Bytes come in chunks, each with the flash's latency.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from deuteron.arch.engine import Engine
from deuteron.planner.prefetch_schedule import Costs
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch
from deuteron.planner.weight_chunks import Chunk


def lower_bound(
    parts: Sequence[Chunk],
    costs: Costs,
    engine: Engine,
    area: int,
    scratch: Scratch = NO_SCRATCH,
    *,
    keeps: bool = True,
) -> int:
    """Cycles that no schedule is faster than (the formulas of this file); `keeps`: from run to run."""
    total = sum(costs.calls)
    nbytes = sum(chunk.nbytes for chunk in parts)
    if keeps and nbytes <= area:
        return total
    elapsed = (0, *accumulate(costs.calls))
    sizes = {chunk.nbytes for chunk in parts}
    # No sum or product is larger; objects are slow, and take any number.
    kind = np.int64 if total + (nbytes + 1) * (engine.clock + engine.fetch_latency) < 1 << 63 else np.object_
    needed: Any = np.array(list(accumulate(chunk.nbytes for chunk in parts)), kind)
    after: Any = np.array([total - elapsed[chunk.first] for chunk in parts], kind)
    free = scratch.free(len(costs.calls))
    most_free = max(free, default=0)

    def late(done: int, room: int, before: int, most: int = max(sizes)) -> int:
        """The bound when, after the first `done` bytes, `room` more are there at cycle `before`; chunks have `most`."""
        at = int(np.searchsorted(needed, done + room, "right"))
        if at == len(parts):
            return before
        rest = needed[at:] - (done + room)
        transfers = -(-rest * engine.clock // engine.flash_bandwidth)
        return before + int(np.max(transfers - rest // -most * engine.fetch_latency + after[at:]))

    left = {most: area - max(most - most_free, 0) for most in sizes}
    largest = (most for most in sizes if sum(chunk.nbytes for chunk in parts if chunk.nbytes > most) <= left[most])
    start = min(late(0, left[most], 0, most) for most in largest) if keeps else late(0, 0, 0)
    return max(total, start, *_after_calls(parts, elapsed, [area + nbytes for nbytes in free], late))


def _after_calls(
    parts: Sequence[Chunk], elapsed: Sequence[int], room: Sequence[int], late: Callable[[int, int, int], int]
) -> Iterator[int]:
    """The bound from each call on that is the last to read something."""
    read = 0
    ending = Counter[int]()
    for chunk in parts:
        ending[chunk.last] += chunk.nbytes
    for call, first in groupby(parts, key=lambda chunk: chunk.first):
        read += sum(chunk.nbytes for chunk in first)
        yield late(read, room[call] - ending[call], elapsed[call + 1])
