"""Packing blocks into a given capacity by a search of its own, written in C (`native/packing.h`).

In C because a plan that fits where others do not is worth minutes of search, and the same in Python takes hours.
Where the library is not built, placement.py falls back to a constraint solver, which finds less.
"""

import ctypes
import mmap
import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from math import gcd

from deuteron.errors import InternalError
from deuteron.native import load as load_native
from deuteron.npu.neutron.kernels.limits import round_up
from deuteron.planner.lifetimes import Lifetime

STEPS_PER_SECOND = 25_000_000
"""About; limits are steps and not seconds so that a plan does not depend on the machine."""

FIRST_RUN = 250_000
"""Steps of the first order; the others get as many, or that times a power of two (Luby's sequence)."""

TABLE_BITS = 20
"""States that failed are remembered in a table of 16 MB."""

MOST_BYTES = 1 << 30
"""Memory that a search may reserve: enough for 6,000 blocks. It uses what its depth needs, far less as a rule."""

MOST_UNITS = 0x3FFFFFFF
"""What the library counts: the sum of all sizes, and the capacity."""

NOISE = 0.3
"""How much larger a block may seem than it is, once each order has been tried as it is."""


class Answer(Enum):
    """What a search has shown; the value is the library's."""

    FOUND = 0
    IMPOSSIBLE = 1
    UNDECIDED = 2


@dataclass(frozen=True, slots=True)
class Found:
    """Byte offsets of the blocks, none unless the answer is `FOUND`, and the steps taken."""

    answer: Answer
    offsets: dict[Lifetime, int]
    steps: int


class _Block(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint32), ("first", ctypes.c_uint32), ("last", ctypes.c_uint32))


class _Config(ctypes.Structure):
    _fields_ = (
        ("blocks", ctypes.POINTER(_Block)),
        ("count", ctypes.c_uint32),
        ("sections", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("table_bits", ctypes.c_uint32),
    )


def search(blocks: Sequence[Lifetime], capacity: int, steps: int) -> Found:
    """Whether the blocks, at least one, fit into so many bytes, and where; `UNDECIDED` once it took so many steps.

    Raises:
        MissingToolError: when the library is not built.
    """
    native = _load()
    moments = _moments(blocks)
    unit = _unit(blocks)
    sizes = [round_up(block.nbytes) // unit for block in blocks]
    if sum(sizes) > MOST_UNITS:
        return Found(Answer.UNDECIDED, {}, 0)
    shapes = (_Block * len(blocks))(
        *(
            (size, bisect_left(moments, b.first), bisect_right(moments, b.last) - 1)
            for size, b in zip(sizes, blocks, strict=True)
        )
    )
    config = _Config(shapes, len(blocks), len(moments), min(capacity // unit, MOST_UNITS), TABLE_BITS)
    nbytes = int(native.dtn_packing_bytes(ctypes.byref(config)))
    if not 0 < nbytes <= MOST_BYTES:
        return Found(Answer.UNDECIDED, {}, 0)  # 0: more blocks than it counts
    with mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        start = (ctypes.c_char * nbytes).from_buffer(memory)
        try:
            return _search(native, native.dtn_packing_init(start, ctypes.byref(config)), blocks, unit, steps)
        finally:
            del start  # the memory cannot be unmapped before


def improve(
    blocks: Sequence[Lifetime], start: Mapping[Lifetime, int], bound: int, seconds: float
) -> tuple[dict[Lifetime, int], bool]:
    """The smallest packing found, and whether nothing is smaller; at worst `start`.

    Half of the effort goes to a packing of `bound` bytes, the rest to capacities between that and the best so far.

    Args:
        blocks: what to pack.
        start: a packing to begin with.
        bound: bytes that no packing is smaller than.
        seconds: how long to try, about.

    Raises:
        MissingToolError: when the library is not built.
    """
    unit = _unit(blocks)
    steps = round(seconds * STEPS_PER_SECOND)
    best = dict(start)
    end = max(offset + round_up(block.nbytes) for block, offset in best.items())
    least = untried = capacity = bound
    while untried < end and steps > 0:
        packing = search(blocks, capacity, max(steps // 2, FIRST_RUN))
        steps -= packing.steps
        if packing.answer is Answer.FOUND:
            best, end = packing.offsets, capacity
        else:
            untried = capacity + unit
            least = untried if packing.answer is Answer.IMPOSSIBLE else least
        capacity = untried + (end - untried) // unit // 2 * unit
    return best, end <= least


def _unit(blocks: Sequence[Lifetime]) -> int:
    """The bytes that all sizes, and so all offsets worth a try, are multiples of."""
    return gcd(*(round_up(block.nbytes) for block in blocks))


def _search(native: ctypes.CDLL, packing: int | None, blocks: Sequence[Lifetime], unit: int, steps: int) -> Found:
    if packing is None:
        raise InternalError("the packing library refuses what it gave a size for")
    handle = ctypes.c_void_p(packing)
    units = (ctypes.c_uint32 * len(blocks))()
    answer, taken = Answer.UNDECIDED, 0
    for run, order in enumerate(_orders(blocks), 1):
        limit = min(steps - taken, FIRST_RUN * (run & -run))
        answer = Answer(native.dtn_packing_search(handle, (ctypes.c_uint32 * len(blocks))(*order), limit, units))
        taken = int(native.dtn_packing_steps(handle))
        if answer is not Answer.UNDECIDED or taken >= steps:
            break
    offsets = {block: at * unit for block, at in zip(blocks, units, strict=True)} if answer is Answer.FOUND else {}
    return Found(answer, offsets, taken)


def _moments(blocks: Sequence[Lifetime]) -> list[int]:
    """Calls at which the sets of blocks in use are no subsets of those before and after, in order.

    Each is the start of a block, and some block ends before the next one starts; what is in use elsewhere is in use at
    one of them.
    """
    starts = sorted({block.first for block in blocks})
    return [starts[i] for i in sorted({bisect_right(starts, block.last) - 1 for block in blocks})]


def _orders(blocks: Sequence[Lifetime]) -> Iterator[list[int]]:
    """Orders in which blocks are tried, without end: by size and time in several ways, then with some noise."""
    noise = random.Random(1)  # noqa: S311 - reproducible, and nobody's secret
    crowd = _crowd(blocks)
    keys: tuple[Callable[[int, int, int], int], ...] = (
        lambda size, time, _: size * time,
        lambda _, time, __: time,
        lambda size, _, __: size,
        lambda _, time, peak: peak**3 * time,
        lambda size, _, peak: peak * size**2,
        lambda size, time, _: size * time**2,
    )
    strength = 0.0
    while True:
        for key in keys:
            weights = [
                -key(b.nbytes, b.last + 1 - b.first, peak) * (1 + strength * noise.random())
                for b, peak in zip(blocks, crowd, strict=True)
            ]
            yield sorted(range(len(blocks)), key=weights.__getitem__)
        strength = NOISE


def _crowd(blocks: Sequence[Lifetime]) -> list[int]:
    """For each block, the most bytes that are in use at one moment of its life."""
    moments = _moments(blocks)
    live = [sum(b.nbytes for b in blocks if b.first <= at <= b.last) for at in moments]
    return [max(live[bisect_left(moments, b.first) : bisect_right(moments, b.last)]) for b in blocks]


@cache
def _load() -> ctypes.CDLL:
    loaded = load_native("packing")
    loaded.dtn_packing_bytes.restype = ctypes.c_size_t
    loaded.dtn_packing_bytes.argtypes = (ctypes.c_void_p,)
    loaded.dtn_packing_init.restype = ctypes.c_void_p
    loaded.dtn_packing_init.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    loaded.dtn_packing_search.restype = ctypes.c_int
    loaded.dtn_packing_search.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
    loaded.dtn_packing_steps.restype = ctypes.c_uint64
    loaded.dtn_packing_steps.argtypes = (ctypes.c_void_p,)
    return loaded
