"""Packs blocks into a given capacity by branch and bound, written in C (`native/packing.h`)."""

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
from deuteron.operators.limits import round_up
from deuteron.planner.lifetimes import Lifetime

STEPS_PER_SECOND = 25_000_000
"""Steps per second, approximately. Limits are in steps, so that a plan does not depend on the machine."""

FIRST_RUN = 250_000
"""Steps of a restart, times a term of Luby's sequence; each restart has another order of blocks."""

TABLE_BITS = 20
"""Binary logarithm of the number of entries in the table of failed states, which takes 16 MB."""

MAX_BYTES = 1 << 30
"""Memory that a search may reserve: enough for 6,000 blocks. The operating system maps only the pages that it uses."""

MAX_UNITS = 0x3FFFFFFF
"""Largest capacity, and largest sum of all sizes, that the library supports."""

NOISE = 0.3
"""Largest relative change of a sort key, once each order was tried without noise."""


class Answer(Enum):
    """Result of a search, with the numbers of the C library."""

    FOUND = 0
    IMPOSSIBLE = 1
    UNDECIDED = 2


@dataclass(frozen=True, slots=True)
class Found:
    """Result of a search with the byte offsets of the blocks, which are empty unless it is `FOUND`, and its steps."""

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
    """Search for a packing of the blocks, at least one, in `capacity` bytes; `UNDECIDED` after so many steps.

    Raises:
        MissingToolError: when the library is not built.
    """
    native = _load()
    moments = _moments(blocks)
    unit = _unit(blocks)
    sizes = [round_up(block.nbytes) // unit for block in blocks]
    if sum(sizes) > MAX_UNITS:
        return Found(Answer.UNDECIDED, {}, 0)
    shapes = (_Block * len(blocks))(
        *(
            (size, bisect_left(moments, b.first), bisect_right(moments, b.last) - 1)
            for size, b in zip(sizes, blocks, strict=True)
        )
    )
    config = _Config(shapes, len(blocks), len(moments), min(capacity // unit, MAX_UNITS), TABLE_BITS)
    nbytes = int(native.dtn_packing_bytes(ctypes.byref(config)))
    if not 0 < nbytes <= MAX_BYTES:
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
    """Return the smallest packing found, and whether it is proven optimal; at worst `start`.

    Half of the remaining steps go to each capacity: first `bound`, then a bisection between that and the best so far.

    Args:
        blocks: what to pack.
        start: a valid packing.
        bound: a lower bound in bytes.
        seconds: time of the search, approximately.

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
    """Return the greatest common divisor of all sizes; offsets are multiples of it."""
    return gcd(*(round_up(block.nbytes) for block in blocks))


def _search(native: ctypes.CDLL, packing: int | None, blocks: Sequence[Lifetime], unit: int, steps: int) -> Found:
    if packing is None:
        raise InternalError("the packing library rejects a configuration that it returned a size for")
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
    """Return the calls at which the set of live blocks is maximal, in order.

    Each is the start of a block, and some block ends before the next start. The blocks that are live during any other
    call are all live during one of these.
    """
    starts = sorted({block.first for block in blocks})
    return [starts[i] for i in sorted({bisect_right(starts, block.last) - 1 for block in blocks})]


def _orders(blocks: Sequence[Lifetime]) -> Iterator[list[int]]:
    """Generate orders in which blocks are tried, endlessly: by several keys, then by these keys with noise."""
    noise = random.Random(1)  # noqa: S311 - reproducible, and no secret
    peaks = _peaks(blocks)
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
                for b, peak in zip(blocks, peaks, strict=True)
            ]
            yield sorted(range(len(blocks)), key=weights.__getitem__)
        strength = NOISE


def _peaks(blocks: Sequence[Lifetime]) -> list[int]:
    """Return for each block the most bytes that are live during one call of its lifetime."""
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
