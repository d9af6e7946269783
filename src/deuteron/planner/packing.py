"""Packs blocks of scratch: best fit in several orders, then a search unless that has reached the lower bound.

`packing_multipart` packs blocks whose parts have separate lifetimes. They are also packed as whole blocks, and the
smaller result counts.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType

from deuteron.operators.limits import round_up
from deuteron.planner.interval_placement import best_fit
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing_multipart import forbidden_distances, merge_parts, pack_multipart
from deuteron.planner.packing_search import improve

FAST_EFFORT, EXACT_EFFORT = 2.0, 60.0
"""Seconds of the search at most, approximately. It counts steps, so that a plan does not depend on the machine."""

MAX_SHUFFLES = 200
SHUFFLE_WORK = 50_000
"""Limits of the randomized orders by size that are tried before the search: their number, and that times blocks
squared."""

LOCAL_SEARCH_SHARE = 0.1
"""Share of the effort for the local search of multipart packing: many cut programs are packed until one is chosen."""

Key = Callable[[Lifetime], tuple[int, ...]]

ORDERS: Mapping[str, Key] = MappingProxyType(
    {
        "size": lambda b: (-b.nbytes, b.first),
        "size x time": lambda b: (-b.nbytes * (b.last + 1 - b.first), b.first),
        "time": lambda b: (b.first - b.last, -b.nbytes),
        "start": lambda b: (b.first, -b.nbytes),
        "end": lambda b: (-b.last, -b.nbytes),
    }
)
"""Sort keys of the orders in which best fit places blocks."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Byte offsets of blocks, multiples of the alignment; parts that are live at the same time do not overlap.

    Attributes:
        offsets: of each block.
        nbytes: end of the last block.
        bound: the most bytes that are live during one call, a lower bound.
        proven: whether no packing is smaller than `nbytes`.
    """

    offsets: dict[Lifetime, int]
    nbytes: int
    bound: int
    proven: bool


def pack(blocks: Sequence[Lifetime], effort: float = FAST_EFFORT) -> Packing:
    """Return the smallest packing that is found with this effort."""
    if all(len(block.parts) == 1 for block in blocks):
        return _pack_whole(blocks, effort)
    bound = max_live(blocks)
    fewer = merge_parts(blocks)
    distances = forbidden_distances(fewer)
    seconds = effort * LOCAL_SEARCH_SHARE
    packing = dict(zip(blocks, pack_multipart(fewer, distances, bound, seconds), strict=True))
    whole = [replace(block, parts=()) for block in blocks]
    if end_of(packing) > max_live(whole):
        start = _pack_whole(whole, effort)
        offsets = pack_multipart(fewer, distances, bound, seconds, [start.offsets[block] for block in whole])
        packing = min(packing, dict(zip(blocks, offsets, strict=True)), key=end_of)
    return Packing(packing, end_of(packing), bound, end_of(packing) == bound)


def _pack_whole(blocks: Sequence[Lifetime], effort: float) -> Packing:
    """`pack` for blocks with a single part each."""
    bound = max_live(blocks)
    # Best fit in fixed orders, then in randomized ones.
    packing = min((best_fit_packing(blocks, order) for order in ORDERS.values()), key=end_of)
    for seed in range(min(MAX_SHUFFLES, SHUFFLE_WORK // max(1, len(blocks)) ** 2)):
        if end_of(packing) <= bound:
            break
        packing = min(packing, best_fit_packing(blocks, _shuffled(seed)), key=end_of)
    # Branch and bound between the lower bound and the best so far.
    proven = True
    if end_of(packing) > bound:
        packing, proven = improve(blocks, packing, bound, effort)
    return Packing(packing, end_of(packing), bound, proven)


@lru_cache(maxsize=16)
def cached_pack(blocks: tuple[Lifetime, ...], effort: float) -> Packing:
    """`pack` with a cache of recent results."""
    return pack(blocks, effort)


def transfer_offsets(blocks: Iterable[Lifetime], packing: Packing) -> Packing:
    """Return the packing for these blocks, each at the offset of the block with the same buffers.

    A block must overlap the same others in time as the block whose offset it takes.
    """
    offsets = {block.buffers: offset for block, offset in packing.offsets.items()}
    return replace(packing, offsets={block: offsets[block.buffers] for block in blocks})


def max_live(blocks: Sequence[Lifetime]) -> int:
    """Return the most bytes that are live during one call."""
    changes: dict[int, int] = {}
    for part in (part for block in blocks for part in block.parts):
        changes[part.first] = changes.get(part.first, 0) + part.nbytes
        changes[part.last + 1] = changes.get(part.last + 1, 0) - part.nbytes
    return max(accumulate(changes[at] for at in sorted(changes)), default=0)


def end_of(offsets: Mapping[Lifetime, int]) -> int:
    """Return the size of a packing in bytes."""
    return max((offset + round_up(block.nbytes) for block, offset in offsets.items()), default=0)


def best_fit_packing(blocks: Iterable[Lifetime], order: Key) -> dict[Lifetime, int]:
    """Place each block, in this order, in the tightest gap between the blocks that are live at the same time."""
    placed: dict[Lifetime, int] = {}
    for block in sorted(blocks, key=lambda b: (*order(b), b.buffers)):
        occupied = [(at, at + round_up(other.nbytes)) for other, at in placed.items() if other.overlaps(block)]
        placed[block] = best_fit(occupied, round_up(block.nbytes))
    return placed


def _shuffled(seed: int) -> Key:
    """Return a key that sorts by size, largest first, each size multiplied by a random factor between 1 and 2."""
    noise = random.Random(seed)  # noqa: S311 - reproducible, and no secret
    return lambda block: (-round(block.nbytes * (1 + noise.random())),)
