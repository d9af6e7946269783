"""Where blocks of scratch go: greedy in several orders, then by a search, unless greedy has met the lower bound.

Those whose parts begin and end apart go where composite.py puts them, or where they go as wholes, if that is smaller.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType

from deuteron.errors import MissingToolError
from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing_multipart import forbidden, joined
from deuteron.planner.packing_multipart import pack as pack_parts
from deuteron.planner.packing_search import improve

FAST_EFFORT, EXACT_EFFORT = 2.0, 60.0
"""About how many seconds are searched at most, counted in steps: a plan does not depend on the machine's speed, but on
whether the native library is built."""

MOST_SHUFFLES = 200
SHUFFLING = 50_000
"""Orders by size with some noise that are tried before the search."""

MENDING = 0.1
"""Of the effort what orders of blocks in parts are mended for: many cuts are packed until one is chosen."""

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
"""Orders in which blocks are placed greedily, by what they sort by."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Byte offsets of blocks, multiples of the alignment; parts that are in use at once do not overlap.

    Attributes:
        offsets: of each block.
        nbytes: end of the last.
        bound: the most bytes that are in use during one call; nothing is smaller.
        proven: whether nothing is smaller than `nbytes`.
    """

    offsets: dict[Lifetime, int]
    nbytes: int
    bound: int
    proven: bool


def place(blocks: Sequence[Lifetime], effort: float = FAST_EFFORT) -> Packing:
    """The smallest packing that is found with this effort."""
    if all(len(block.parts) == 1 for block in blocks):
        return _place_wholes(blocks, effort)
    bound = max_live(blocks)
    fewer = joined(blocks)
    between = forbidden(fewer)
    packing = dict(zip(blocks, pack_parts(fewer, between, bound, effort * MENDING), strict=True))
    wholes = [replace(block, parts=()) for block in blocks]
    if end_of(packing) > max_live(wholes):
        lower = _place_wholes(wholes, effort)
        offsets = pack_parts(fewer, between, bound, effort * MENDING, [lower.offsets[whole] for whole in wholes])
        packing = min(packing, dict(zip(blocks, offsets, strict=True)), key=end_of)
    return Packing(packing, end_of(packing), bound, end_of(packing) == bound)


def _place_wholes(blocks: Sequence[Lifetime], effort: float) -> Packing:
    """`place` for blocks that begin and end as wholes."""
    bound = max_live(blocks)
    packing = min((greedy(blocks, order) for order in ORDERS.values()), key=end_of)
    for seed in range(min(MOST_SHUFFLES, SHUFFLING // max(1, len(blocks)) ** 2)):
        if end_of(packing) <= bound:
            break
        packing = min(packing, greedy(blocks, _shuffled(seed)), key=end_of)
    proven = True
    if end_of(packing) > bound:
        packing, proven = _improved(blocks, packing, bound, effort)
    return Packing(packing, end_of(packing), bound, proven)


@lru_cache(maxsize=16)
def placed(blocks: tuple[Lifetime, ...], effort: float) -> Packing:
    """`place`, known of blocks that were placed a little while ago."""
    return place(blocks, effort)


def kept(blocks: Iterable[Lifetime], packing: Packing) -> Packing:
    """The packing with these blocks in place of those with the same buffers, which meet the same others."""
    offsets = {block.buffers: offset for block, offset in packing.offsets.items()}
    return replace(packing, offsets={block: offsets[block.buffers] for block in blocks})


def max_live(blocks: Sequence[Lifetime]) -> int:
    """The most bytes that are in use during one call."""
    changes: dict[int, int] = {}
    for part in (part for block in blocks for part in block.parts):
        changes[part.first] = changes.get(part.first, 0) + part.nbytes
        changes[part.last + 1] = changes.get(part.last + 1, 0) - part.nbytes
    return max(accumulate(changes[at] for at in sorted(changes)), default=0)


def _improved(
    blocks: Sequence[Lifetime], start: Mapping[Lifetime, int], bound: int, effort: float
) -> tuple[dict[Lifetime, int], bool]:
    """A packing that is no larger than `start`, and whether nothing is smaller."""
    try:
        return improve(blocks, start, bound, effort)
    except MissingToolError as absent:
        try:
            from deuteron.planner.packing_cpsat import pack  # its solver takes a while to load
        except ModuleNotFoundError:
            raise absent from None
        return pack(blocks, start, bound, effort)


def end_of(offsets: Mapping[Lifetime, int]) -> int:
    """Bytes that a packing takes."""
    return max((offset + round_up(block.nbytes) for block, offset in offsets.items()), default=0)


def greedy(blocks: Iterable[Lifetime], order: Key) -> dict[Lifetime, int]:
    """Each block, in this order, in the tightest gap between those that it meets."""
    placed: dict[Lifetime, int] = {}
    for block in sorted(blocks, key=lambda b: (*order(b), b.buffers)):
        taken = sorted((at, at + round_up(other.nbytes)) for other, at in placed.items() if other.meets(block))
        placed[block] = _tightest_gap(taken, round_up(block.nbytes))
    return placed


def _shuffled(seed: int) -> Key:
    """Largest first, each size seen up to twice as large as it is."""
    noise = random.Random(seed)  # noqa: S311 - reproducible, and nobody's secret
    return lambda block: (-round(block.nbytes * (1 + noise.random())),)


def _tightest_gap(taken: list[tuple[int, int]], size: int) -> int:
    """Start of the smallest gap between the `taken` intervals that holds `size`, else the end of the last."""
    end, best, spare = 0, -1, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap - size < spare):
            best, spare = end, gap - size
        end = max(end, stop)
    return best if best >= 0 else end
