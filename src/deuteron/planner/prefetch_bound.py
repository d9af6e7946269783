"""Lower bound of the cycles of every prefetch schedule, in closed form.

There is one flash, and the order of calls is given. P(i) are the bytes that calls 0..i need, A the bytes of the area,
U(k) the unused bytes of scratch during call k, U their maximum, and C(i..j) the cycles of calls. If not all chunks fit
into the area, a run takes at least, for every i,

    C(0..k) + max(0, P(i) - P(k) - (A + U(k) - S(k))) / bandwidth + C(i..end)    for every k < i,
    max(0, P(i) - (A - max(0, M - U))) / bandwidth + C(i..end)

First bound: fetches are issued between calls. Chunks that are issued before call k must fit next to the S(k) bytes that
k is the last to read. The other bytes that calls k+1..i need are transferred after k and before i.

Second bound: let M be the bytes of the largest chunk that is not resident. While it is read, and occupies as much
scratch as possible, at most the rest of the area is resident. The rest of P(i) is transferred before i. M is unknown,
but all larger chunks are resident and fit next to it: the bound is the minimum over all such M.

Without resident weights, all of P(i) is transferred before i. Each chunk adds the latency of the flash.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from deuteron.arch.engine import Engine
from deuteron.planner.prefetch_schedule import FetchCosts
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch
from deuteron.planner.weight_chunks import Chunk


def lower_bound(
    parts: Sequence[Chunk],
    costs: FetchCosts,
    engine: Engine,
    area: int,
    scratch: Scratch = NO_SCRATCH,
    *,
    keep_resident: bool = True,
) -> int:
    """Return the lower bound in cycles; `keep_resident` if weights may stay from run to run."""
    total = sum(costs.calls)
    nbytes = sum(chunk.nbytes for chunk in parts)
    if keep_resident and nbytes <= area:
        return total
    elapsed = (0, *accumulate(costs.calls))
    sizes = {chunk.nbytes for chunk in parts}
    # int64 where no sum or product overflows; Python integers are slow, but unlimited.
    kind = np.int64 if total + (nbytes + 1) * (engine.clock + engine.fetch_latency) < 1 << 63 else np.object_
    needed: Any = np.array(list(accumulate(chunk.nbytes for chunk in parts)), kind)
    after: Any = np.array([total - elapsed[chunk.first] for chunk in parts], kind)
    free = scratch.free(len(costs.calls))
    most_free = max(free, default=0)

    def late(done: int, capacity: int, before: int, most: int = max(sizes)) -> int:
        """The bound if bytes up to `done` + `capacity` are in SRAM at cycle `before`; `most` is the largest chunk."""
        at = int(np.searchsorted(needed, done + capacity, "right"))
        if at == len(parts):
            return before
        rest = needed[at:] - (done + capacity)
        transfers = -(-rest * engine.clock // engine.flash_bandwidth)
        return before + int(np.max(transfers - rest // -most * engine.fetch_latency + after[at:]))

    left = {most: area - max(most - most_free, 0) for most in sizes}
    largest = (most for most in sizes if sum(chunk.nbytes for chunk in parts if chunk.nbytes > most) <= left[most])
    start = min(late(0, left[most], 0, most) for most in largest) if keep_resident else late(0, 0, 0)
    return max(total, start, *_after_calls(parts, elapsed, [area + nbytes for nbytes in free], late))


def _after_calls(
    parts: Sequence[Chunk], elapsed: Sequence[int], capacity: Sequence[int], late: Callable[[int, int, int], int]
) -> Iterator[int]:
    """Yield the first bound for each call k."""
    read = 0
    ending = Counter[int]()
    for chunk in parts:
        ending[chunk.last] += chunk.nbytes
    for call, first in groupby(parts, key=lambda chunk: chunk.first):
        read += sum(chunk.nbytes for chunk in first)
        yield late(read, capacity[call] - ending[call], elapsed[call + 1])
