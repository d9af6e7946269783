"""Where blocks go whose parts begin and end apart: greedy, in orders that are mended where they took too much.

Of two blocks it is known which offsets between them would put parts onto each other that are in use during the same
call. So a block is placed among those that have a place without a look at parts. Orders are mended in C
(`native/mending.h`), some thousand per second; without the library they are taken as they are.
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from deuteron.errors import MissingToolError
from deuteron.native import load as load_native
from deuteron.npu.neutron.kernels.limits import ALIGNMENT, round_up
from deuteron.planner.lifetimes import Lifetime, Part

LOOKS_PER_SECOND = 100_000_000
"""How often a block is held against another, about; limits are looks so that a plan does not depend on the machine."""

MOST_UNITS = 0x3FFFFFFF
"""What the library counts: the sum of all sizes."""

MOST_PAIRS = 1_000_000
"""Of parts in use during the same call, up to which all are looked at: half a second and 50 MB, for a map that is read
and one that is written in some 500 stripes. Their number grows with the square of the stripes, and each cut that is
tried is packed."""

Ints = npt.NDArray[np.int64]

Between = Sequence[Sequence[tuple[int, int, int]]]
"""For each block others, by index, and units `low` and `high`: it may not lie between so much above that one."""


class _Gap(ctypes.Structure):
    _fields_ = (("other", ctypes.c_uint32), ("low", ctypes.c_int32), ("high", ctypes.c_int32))


class _Config(ctypes.Structure):
    _fields_ = (
        ("sizes", ctypes.POINTER(ctypes.c_uint32)),
        ("starts", ctypes.POINTER(ctypes.c_uint32)),
        ("gaps", ctypes.POINTER(_Gap)),
        ("count", ctypes.c_uint32),
        ("bound", ctypes.c_uint32),
    )


def pack(
    blocks: Sequence[Lifetime], between: Between, bound: int, seconds: float, below: Sequence[int] | None = None
) -> list[int]:
    """Byte offsets of the blocks in the smallest packing that is found.

    Args:
        blocks: what to pack, at least one.
        between: as `forbidden` says of them.
        bound: bytes that no packing is smaller than.
        seconds: how long to mend, about.
        below: offsets that are known to do; none is larger than with these.
    """
    sizes = [round_up(block.nbytes) // ALIGNMENT for block in blocks]
    orders = list(_orders(blocks)) if below is None else [sorted(range(len(blocks)), key=below.__getitem__)]
    best: list[int] = []
    for order in orders:
        offsets = _mended(order, between, sizes, bound // ALIGNMENT, seconds / len(orders))
        best = min(best or offsets, offsets, key=lambda own: _end(own, sizes))
        if _end(best, sizes) * ALIGNMENT <= bound:
            break
    return [at * ALIGNMENT for at in best]


def joined(blocks: Sequence[Lifetime]) -> list[Lifetime]:
    """The blocks; where too many of their parts meet, in fewer, each in use as long as any of those it is joined of."""
    fewer = list(blocks)
    while any(len(block.parts) > 1 for block in fewer) and _pairs(fewer) > MOST_PAIRS:
        fewer = [replace(block, parts=tuple(_by_twos(block.parts))) for block in fewer]
    return fewer


def _pairs(blocks: Sequence[Lifetime]) -> int:
    """How many pairs of parts are in use during the same call."""
    first = np.sort([part.first for block in blocks for part in block.parts])
    last = np.array([part.last for block in blocks for part in block.parts])
    return int(np.searchsorted(first, last, side="right").sum()) - len(first) * (len(first) + 1) // 2


def _by_twos(parts: Sequence[Part]) -> Iterator[Part]:
    """Each two neighbours as one part."""
    for at in range(0, len(parts), 2):
        a, b = parts[at], parts[min(at + 1, len(parts) - 1)]
        yield Part(a.offset, b.offset + b.nbytes - a.offset, min(a.first, b.first), max(a.last, b.last))


def forbidden(blocks: Sequence[Lifetime]) -> Between:
    """Which offsets between two blocks put parts onto each other that are in use during the same call."""
    parts = sorted(((at, p) for at, block in enumerate(blocks) for p in block.parts), key=lambda own: own[1].first)
    block = np.array([at for at, _ in parts])
    start = np.array([part.offset // ALIGNMENT for _, part in parts])
    stop = start + np.array([part.nbytes // ALIGNMENT for _, part in parts])
    first, last = np.array([part.first for _, part in parts]), np.array([part.last for _, part in parts])
    meeting = np.searchsorted(first, last, side="right") - np.arange(len(parts)) - 1  # of those that begin later
    a = np.repeat(np.arange(len(parts)), meeting)
    b = np.arange(len(a)) - np.repeat(np.cumsum(meeting) - meeting, meeting) + a + 1
    a, b = a[block[a] != block[b]], b[block[a] != block[b]]
    a, b = np.where(block[a] < block[b], a, b), np.where(block[a] < block[b], b, a)
    between: list[list[tuple[int, int, int]]] = [[] for _ in blocks]
    merged = _merged(block[a] * len(blocks) + block[b], start[a] - stop[b], stop[a] - start[b])
    for pair, low, high in zip(*merged, strict=True):
        one, other = divmod(pair, len(blocks))
        between[other].append((one, low, high))
        between[one].append((other, -high, -low))
    return between


def _merged(pair: Ints, low: Ints, high: Ints) -> tuple[list[int], list[int], list[int]]:
    """Intervals of the same pair joined where they overlap."""
    if not len(pair):
        return [], [], []
    order = np.lexsort((low, pair))
    pair, low, high = pair[order], low[order], high[order]
    above = pair * (int(high.max()) - int(low.min()) + 1)  # those of a pair come after all of the pair before
    reached = np.maximum.accumulate(high + above)
    begins = np.flatnonzero(np.concatenate(([True], (low + above)[1:] >= reached[:-1])))
    return pair[begins].tolist(), low[begins].tolist(), np.maximum.reduceat(high, begins).tolist()


def _orders(blocks: Sequence[Lifetime]) -> Iterator[list[int]]:
    """Orders to begin with: the largest first; for the longest time, too; first those in parts, the last of them first.

    What a chain leaves behind can begin below what it reads, as it grows where that is dead.
    """
    taken = [sum(part.nbytes * (part.last + 1 - part.first) for part in block.parts) for block in blocks]
    late = [(len(block.parts) == 1, -block.last if len(block.parts) > 1 else 0) for block in blocks]
    at = range(len(blocks))
    yield sorted(at, key=lambda i: (-blocks[i].nbytes, blocks[i].first))
    yield sorted(at, key=lambda i: -taken[i])
    yield sorted(at, key=lambda i: (*late[i], -taken[i]))


def _mended(order: Sequence[int], between: Between, sizes: Sequence[int], bound: int, seconds: float) -> list[int]:
    """Offsets, in units, of the blocks in this order, or in one that is mended, if that is smaller."""
    try:
        native = library()
    except MissingToolError:
        return _placed(order, between, sizes)
    if sum(sizes) > MOST_UNITS:
        return _placed(order, between, sizes)
    count = len(sizes)
    numbers, offsets = ctypes.c_uint32 * count, ctypes.c_int32 * count
    gaps = (_Gap * max(1, sum(map(len, between))))(*(gap for own in between for gap in own))
    starts = (ctypes.c_uint32 * (count + 1))(*accumulate(map(len, between), initial=0))
    config = _Config(numbers(*sizes), starts, gaps, count, bound)
    best = offsets()
    looks = round(seconds * LOOKS_PER_SECOND)
    native.dtn_mending_run(ctypes.byref(config), looks, numbers(*order), numbers(), offsets(), best)
    return list(best)


def _placed(order: Sequence[int], between: Between, sizes: Sequence[int]) -> list[int]:
    """Offsets, in units, of the blocks, each in this order at the lowest that those before it leave."""
    offsets = [-1] * len(sizes)
    for block in order:
        taken = [(offsets[at] + low, offsets[at] + high) for at, low, high in between[block] if offsets[at] >= 0]
        lowest = 0
        for low, high in sorted(taken):
            if low >= lowest:
                break
            lowest = max(lowest, high)
        offsets[block] = lowest
    return offsets


def _end(offsets: Sequence[int], sizes: Sequence[int]) -> int:
    return max(map(sum, zip(offsets, sizes, strict=True)), default=0)


@cache
def library() -> ctypes.CDLL:
    """What mends orders."""
    loaded = load_native("packing")
    loaded.dtn_mending_run.restype = ctypes.c_uint32
    loaded.dtn_mending_run.argtypes = (ctypes.c_void_p, ctypes.c_uint64, *(ctypes.c_void_p,) * 4)
    return loaded
