"""Packs blocks whose parts have separate lifetimes: first fit in several orders, then local search of the order.

For each pair of blocks, the forbidden distances between their offsets are computed once: those at which parts that are
live at the same time would overlap. First fit then places whole blocks without looking at their parts. The local
search is written in C (`native/local_search.h`) and tries some thousand orders per second.
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from deuteron.native import load as load_native
from deuteron.operators.limits import ALIGNMENT, round_up
from deuteron.planner.interval_placement import first_fit
from deuteron.planner.lifetimes import Lifetime, LifetimePart

CHECKS_PER_SECOND = 100_000_000
"""Pairs of blocks that the local search compares per second, approximately. Its limit is a number of checks, so that
a plan does not depend on the machine."""

MAX_UNITS = 0x3FFFFFFF
"""Largest sum of all sizes that the library supports."""

MAX_PAIRS = 1_000_000
"""Pairs of parts that are live at the same time, above which parts are merged. So many take half a second and 50 MB:
a map that is read and one that is written in about 500 stripes. Their number grows with the square of the stripes, and
each candidate cut is packed."""

Ints = npt.NDArray[np.int64]

Distances = Sequence[Sequence[tuple[int, int, int]]]
"""For each block, forbidden distances to others: index of the other block, and the units `low` and `high` between which
the offset of this block minus that of the other must not be."""


class _Distance(ctypes.Structure):
    _fields_ = (("other", ctypes.c_uint32), ("low", ctypes.c_int32), ("high", ctypes.c_int32))


class _Config(ctypes.Structure):
    _fields_ = (
        ("sizes", ctypes.POINTER(ctypes.c_uint32)),
        ("starts", ctypes.POINTER(ctypes.c_uint32)),
        ("distances", ctypes.POINTER(_Distance)),
        ("count", ctypes.c_uint32),
        ("bound", ctypes.c_uint32),
    )


def pack_multipart(
    blocks: Sequence[Lifetime], distances: Distances, bound: int, seconds: float, start: Sequence[int] | None = None
) -> list[int]:
    """Return the byte offsets of the blocks in the smallest packing that is found.

    Args:
        blocks: what to pack, at least one.
        distances: the result of `forbidden_distances` for the blocks.
        bound: a lower bound in bytes.
        seconds: time of the local search, approximately.
        start: offsets of a valid packing; the result is no larger.
    """
    sizes = [round_up(block.nbytes) // ALIGNMENT for block in blocks]
    orders = list(_orders(blocks)) if start is None else [sorted(range(len(blocks)), key=start.__getitem__)]
    best: list[int] = []
    for order in orders:
        offsets = _local_search(order, distances, sizes, bound // ALIGNMENT, seconds / len(orders))
        best = min(best or offsets, offsets, key=lambda own: _end(own, sizes))
        if _end(best, sizes) * ALIGNMENT <= bound:
            break
    return [at * ALIGNMENT for at in best]


def merge_parts(blocks: Sequence[Lifetime]) -> list[Lifetime]:
    """Return the blocks with neighbouring parts merged until at most MAX_PAIRS pairs of parts are live together."""
    fewer = list(blocks)
    while any(len(block.parts) > 1 for block in fewer) and _live_pairs(fewer) > MAX_PAIRS:
        fewer = [replace(block, parts=tuple(_merge_pairs(block.parts))) for block in fewer]
    return fewer


def _live_pairs(blocks: Sequence[Lifetime]) -> int:
    """Return the number of pairs of parts that are live during the same call."""
    first = np.sort([part.first for block in blocks for part in block.parts])
    last = np.array([part.last for block in blocks for part in block.parts])
    return int(np.searchsorted(first, last, side="right").sum()) - len(first) * (len(first) + 1) // 2


def _merge_pairs(parts: Sequence[LifetimePart]) -> Iterator[LifetimePart]:
    """Merge each two neighbours."""
    for at in range(0, len(parts), 2):
        a, b = parts[at], parts[min(at + 1, len(parts) - 1)]
        yield LifetimePart(a.offset, b.offset + b.nbytes - a.offset, min(a.first, b.first), max(a.last, b.last))


def forbidden_distances(blocks: Sequence[Lifetime]) -> Distances:
    """Return the distances between offsets of two blocks at which live parts would overlap."""
    # All parts, in the order of their first calls.
    parts = sorted(((at, p) for at, block in enumerate(blocks) for p in block.parts), key=lambda own: own[1].first)
    block = np.array([at for at, _ in parts])
    start = np.array([part.offset // ALIGNMENT for _, part in parts])
    stop = start + np.array([part.nbytes // ALIGNMENT for _, part in parts])
    first, last = np.array([part.first for _, part in parts]), np.array([part.last for _, part in parts])
    # Pairs of parts of different blocks that are live during the same call.
    meeting = np.searchsorted(first, last, side="right") - np.arange(len(parts)) - 1
    a = np.repeat(np.arange(len(parts)), meeting)
    b = np.arange(len(a)) - np.repeat(np.cumsum(meeting) - meeting, meeting) + a + 1
    a, b = a[block[a] != block[b]], b[block[a] != block[b]]
    a, b = np.where(block[a] < block[b], a, b), np.where(block[a] < block[b], b, a)
    # Their distances, merged for each pair of blocks.
    distances: list[list[tuple[int, int, int]]] = [[] for _ in blocks]
    merged = _merged(block[a] * len(blocks) + block[b], start[a] - stop[b], stop[a] - start[b])
    for pair, low, high in zip(*merged, strict=True):
        one, other = divmod(pair, len(blocks))
        distances[other].append((one, low, high))
        distances[one].append((other, -high, -low))
    return distances


def _merged(pair: Ints, low: Ints, high: Ints) -> tuple[list[int], list[int], list[int]]:
    """Merge overlapping intervals of the same pair."""
    if not len(pair):
        return [], [], []
    order = np.lexsort((low, pair))
    pair, low, high = pair[order], low[order], high[order]
    above = pair * (int(high.max()) - int(low.min()) + 1)  # those of a pair come after all of the pair before
    reached = np.maximum.accumulate(high + above)
    begins = np.flatnonzero(np.concatenate(([True], (low + above)[1:] >= reached[:-1])))
    return pair[begins].tolist(), low[begins].tolist(), np.maximum.reduceat(high, begins).tolist()


def _orders(blocks: Sequence[Lifetime]) -> Iterator[list[int]]:
    """Start orders: largest first; largest size times lifetime first; blocks of several parts first, latest first.

    The output of a chain can start below its input, because it grows where rows of the input are dead.
    """
    occupied = [sum(part.nbytes * (part.last + 1 - part.first) for part in block.parts) for block in blocks]
    late = [(len(block.parts) == 1, -block.last if len(block.parts) > 1 else 0) for block in blocks]
    at = range(len(blocks))
    yield sorted(at, key=lambda i: (-blocks[i].nbytes, blocks[i].first))
    yield sorted(at, key=lambda i: -occupied[i])
    yield sorted(at, key=lambda i: (*late[i], -occupied[i]))


def _local_search(
    order: Sequence[int], distances: Distances, sizes: Sequence[int], bound: int, seconds: float
) -> list[int]:
    """Return offsets, in units, of first fit in this order or in the best order of the local search."""
    if sum(sizes) > MAX_UNITS:
        return first_fit_packing(order, distances)
    count = len(sizes)
    numbers, offsets = ctypes.c_uint32 * count, ctypes.c_int32 * count
    listed = (_Distance * max(1, sum(map(len, distances))))(*(each for own in distances for each in own))
    starts = (ctypes.c_uint32 * (count + 1))(*accumulate(map(len, distances), initial=0))
    config = _Config(numbers(*sizes), starts, listed, count, bound)
    best = offsets()
    checks = round(seconds * CHECKS_PER_SECOND)
    _load().dtn_local_search_run(ctypes.byref(config), checks, numbers(*order), numbers(), offsets(), best)
    return list(best)


def first_fit_packing(order: Sequence[int], distances: Distances) -> list[int]:
    """Return offsets, in units, of the blocks, each at the lowest offset that the earlier ones of the order leave."""
    offsets = [-1] * len(order)
    for block in order:
        occupied = [(offsets[at] + low, offsets[at] + high) for at, low, high in distances[block] if offsets[at] >= 0]
        offsets[block] = first_fit(occupied, 0)
    return offsets


def _end(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return max(map(sum, zip(offsets, sizes, strict=True)), default=0)


@cache
def _load() -> ctypes.CDLL:
    loaded = load_native("packing")
    loaded.dtn_local_search_run.restype = ctypes.c_uint32
    loaded.dtn_local_search_run.argtypes = (ctypes.c_void_p, ctypes.c_uint64, *(ctypes.c_void_p,) * 4)
    return loaded
