"""How chunks get from flash to SRAM while kernels run: the schedule of one choice of resident chunks.

Chunks are fetched in the order of their first use, each as early as room and channels allow, and room is handed out
first fit: in scratch, where that is free from the fetch to the last call that reads the chunk, else in the area. A
small chunk can do better before a large one that has no room yet: for such orders someone else says where chunks go,
and when.

Addresses are one line: the area, and scratch from the area's end on.

Schedules are made in C (`native/fetching.h`), as a search looks at thousands of them.
"""

import ctypes
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from deuteron.errors import CapacityError, InternalError, OptionError
from deuteron.native import load as load_native
from deuteron.npu.neutron.kernels.limits import CHANNELS
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch
from deuteron.planner.weight_chunks import Chunk

MOST_CYCLES = (1 << 63) - 1
"""Of a run: what the library counts."""

MOST_CHUNKS = (1 << 16) - 1
"""Of a program: the same."""

FIRST_TRIES = 66
"""Choices that a search may be given, beside those that it makes of the best."""

WORDS = 1 << 17
"""Random numbers of a search; they begin again when all have been used."""

_NONE = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles of everything that takes time.

    Attributes:
        calls: of each call, its dispatch included.
        transfers: of each chunk on the flash, latency included.
        setup: of the CPU, per fetch.
    """

    calls: tuple[int, ...]
    transfers: tuple[int, ...]
    setup: int


@dataclass(frozen=True, slots=True)
class Issue:
    """Before call `call`, the fetch of chunk `chunk` to `offset` is started."""

    call: int
    chunk: int
    offset: int
    channel: int


@dataclass(frozen=True, slots=True)
class Await:
    """Before call `call`, the fetch of chunk `chunk` is waited for."""

    call: int
    chunk: int
    channel: int


Step = Issue | Await


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a chunk goes: to `offset`, first fit if None, right before call `call` or later."""

    call: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Fetches and waits in the order of execution, and the cycles of a run in which resident chunks are in place."""

    steps: tuple[Step, ...]
    cycles: int


def schedule(
    chunks: Sequence[Chunk],
    costs: Costs,
    resident: frozenset[int],
    area: int,
    spots: Mapping[int, Spot] | None = None,
    scratch: Scratch = NO_SCRATCH,
) -> Schedule | None:
    """The schedule with these chunks resident in an area of `area` bytes, or None when some chunk finds no room.

    Resident chunks lie at the start of the area, in the order of their first use. They are fetched in their turn like
    all others, which costs nothing in a run that finds them in place.

    Args:
        chunks: what is needed, in order of first use.
        costs: what calls and transfers take.
        resident: indices of the chunks that stay in place.
        area: bytes for chunks alone.
        spots: where each of the others goes, and when, in the order of their fetches, calls ascending; None for first
            fit, as early as there is room.
        scratch: where chunks that do not stay may lie, too.
    """
    return Streams(chunks, costs, area, scratch=scratch).schedule(resident, spots)


class Streams:
    """Schedules of some chunks in an area, and a search for the fastest choice of what stays.

    Args:
        chunks: what is needed, in order of first use.
        costs: what calls and transfers take.
        area: bytes for chunks alone.
        rounds: the most changes of the best that `improve` tries.
        scratch: where chunks that do not stay may lie, too.

    Raises:
        MissingToolError: the library is not built.
        OptionError: a run may take more cycles than can be counted.
        CapacityError: there are more chunks than can be planned.
    """

    def __init__(
        self, chunks: Sequence[Chunk], costs: Costs, area: int, rounds: int = 0, scratch: Scratch = NO_SCRATCH
    ) -> None:
        if sum(costs.calls) + sum(costs.transfers) + costs.setup * len(chunks) > MOST_CYCLES:
            raise OptionError(
                f"a run of the program may take more than {MOST_CYCLES:,} cycles, which cannot be planned",
                hint="give a faster flash, or a slower clock",
            )
        if len(chunks) > MOST_CHUNKS:
            raise CapacityError(
                f"the weights are {len(chunks):,} pieces, the fetches of at most {MOST_CHUNKS:,} can be planned",
                hint="give enough SRAM that all weights stay there, or split the model",
            )
        self._native, self._count, self._rounds = _load(), len(chunks), rounds
        self._parts = (_Chunk * len(chunks))(
            *((c.nbytes, cycles, c.first, c.last) for c, cycles in zip(chunks, costs.transfers, strict=True))
        )
        self._calls = (ctypes.c_uint64 * len(costs.calls))(*costs.calls)
        walls = scratch.walls
        self._walls = (_Wall * len(walls))(*((wall.offset, wall.nbytes, wall.first, wall.last) for wall in walls))
        counts, tries = (len(chunks), len(costs.calls)), FIRST_TRIES + rounds
        self._config = _Config(
            self._parts,
            self._calls,
            *counts,
            costs.setup,
            area,
            CHANNELS,
            tries,
            self._walls,
            scratch.nbytes,
            len(walls),
        )
        nbytes = self._native.dtn_fetching_bytes(ctypes.byref(self._config))
        self._memory = ctypes.create_string_buffer(nbytes)
        handle = self._native.dtn_fetching_init(self._memory, ctypes.byref(self._config)) if nbytes else None
        if handle is None:
            raise InternalError("chunks, or walls, are not in the order of their first use, or walls leave scratch")
        self._handle = ctypes.c_void_p(handle)

    def schedule(self, resident: frozenset[int], spots: Mapping[int, Spot] | None = None) -> Schedule | None:
        """The schedule with these chunks resident, as `schedule`."""
        choice = _Choice(self._flags(resident), None, None, None)
        if spots is not None:
            turns = tuple(_turns(resident, spots))
            if sorted(turns) != list(range(self._count)):
                raise InternalError(f"of {self._count} chunks, {turns} are fetched: each either stays or has one spot")
            choice.order = (ctypes.c_uint32 * self._count)(*turns)
            choice.spots = (ctypes.c_uint32 * self._count)()
            choice.offsets = (ctypes.c_uint64 * self._count)()
            for chunk, spot in spots.items():
                choice.spots[chunk] = spot.call
                choice.offsets[chunk] = _NONE if spot.offset is None else spot.offset
        steps, number = (_Step * (2 * self._count))(), ctypes.c_uint32()
        cycles = self._native.dtn_fetching_schedule(self._handle, ctypes.byref(choice), steps, ctypes.byref(number))
        if cycles == _NONE:
            return None
        return Schedule(tuple(_step_of(steps[at]) for at in range(number.value)), cycles)

    def attempt(self, resident: Collection[int], bound: int) -> None:
        """Look at a choice, unless nothing is faster than `bound` cycles, or it has been looked at."""
        self._native.dtn_fetching_try(self._handle, self._flags(resident), bound)

    def fill(self, order: Sequence[int], shares: int, bound: int) -> None:
        """Look at as many chunks as go into the whole area, tried in this order, and into each smaller share of it."""
        native, items = self._native, (ctypes.c_uint32 * self._count)(*order)
        for share in range(shares, 0, -1):
            native.dtn_fetching_fill(self._handle, items, self._config.area * share // shares, bound)

    def improve(self, bound: int) -> None:
        """Change the best at random: a chunk more or less, and others out where there is no room."""
        words = _words()
        self._native.dtn_fetching_improve(self._handle, self._rounds, words, len(words), bound)

    def offer(self, cycles: int) -> None:
        """Take a run in which nothing is resident for the best."""
        self._native.dtn_fetching_offer(self._handle, cycles)

    def best(self) -> tuple[frozenset[int], int] | None:
        """The fastest choice so far, the last of equals, and its cycles."""
        flags = (ctypes.c_uint8 * self._count)()
        cycles = self._native.dtn_fetching_best(self._handle, flags)
        return None if cycles == _NONE else (frozenset(i for i, flag in enumerate(flags) if flag), cycles)

    def _flags(self, resident: Collection[int]) -> "ctypes.Array[ctypes.c_uint8]":
        flags = (ctypes.c_uint8 * self._count)()
        for chunk in resident:
            flags[chunk] = 1
        return flags


def _turns(resident: Collection[int], spots: Mapping[int, Spot]) -> Iterator[int]:
    """All chunks in the order of their fetches: a resident one before the first that is needed after it."""
    waiting = sorted(resident)
    for chunk in spots:
        while waiting and waiting[0] < chunk:
            yield waiting.pop(0)
        yield chunk
    yield from waiting


def _step_of(step: Any) -> Step:
    if step.is_wait:
        return Await(step.call, step.chunk, step.channel)
    return Issue(step.call, step.chunk, step.offset, step.channel)


class _Chunk(ctypes.Structure):
    _fields_ = (
        ("nbytes", ctypes.c_uint64),
        ("transfer", ctypes.c_uint64),
        ("first", ctypes.c_uint32),
        ("last", ctypes.c_uint32),
    )


class _Wall(ctypes.Structure):
    _fields_ = (
        ("offset", ctypes.c_uint64),
        ("nbytes", ctypes.c_uint64),
        ("first", ctypes.c_uint32),
        ("last", ctypes.c_uint32),
    )


class _Config(ctypes.Structure):
    _fields_ = (
        ("chunks", ctypes.POINTER(_Chunk)),
        ("calls", ctypes.POINTER(ctypes.c_uint64)),
        ("chunk_count", ctypes.c_uint32),
        ("call_count", ctypes.c_uint32),
        ("setup", ctypes.c_uint64),
        ("area", ctypes.c_uint64),
        ("channels", ctypes.c_uint32),
        ("tries", ctypes.c_uint32),
        ("walls", ctypes.POINTER(_Wall)),
        ("scratch", ctypes.c_uint64),
        ("wall_count", ctypes.c_uint32),
    )


class _Choice(ctypes.Structure):
    _fields_ = (
        ("resident", ctypes.POINTER(ctypes.c_uint8)),
        ("order", ctypes.POINTER(ctypes.c_uint32)),
        ("spots", ctypes.POINTER(ctypes.c_uint32)),
        ("offsets", ctypes.POINTER(ctypes.c_uint64)),
    )


class _Step(ctypes.Structure):
    _fields_ = (
        ("offset", ctypes.c_uint64),
        ("call", ctypes.c_uint32),
        ("chunk", ctypes.c_uint32),
        ("channel", ctypes.c_uint32),
        ("is_wait", ctypes.c_uint32),
    )


@cache
def _words() -> "ctypes.Array[ctypes.c_uint32]":
    """Random numbers that are the same for all plans."""
    stream = random.Random(1)  # noqa: S311 - reproducible, and nobody's secret
    return (ctypes.c_uint32 * WORDS).from_buffer_copy(stream.randbytes(4 * WORDS))


@cache
def _load() -> ctypes.CDLL:
    loaded, pointer = load_native("packing"), ctypes.c_void_p
    loaded.dtn_fetching_bytes.restype = ctypes.c_size_t
    loaded.dtn_fetching_bytes.argtypes = (pointer,)
    loaded.dtn_fetching_init.restype = pointer
    loaded.dtn_fetching_init.argtypes = (pointer, pointer)
    loaded.dtn_fetching_schedule.restype = ctypes.c_uint64
    loaded.dtn_fetching_schedule.argtypes = (pointer, pointer, pointer, pointer)
    loaded.dtn_fetching_try.restype = None
    loaded.dtn_fetching_try.argtypes = (pointer, pointer, ctypes.c_uint64)
    loaded.dtn_fetching_fill.restype = None
    loaded.dtn_fetching_fill.argtypes = (pointer, pointer, ctypes.c_uint64, ctypes.c_uint64)
    loaded.dtn_fetching_improve.restype = None
    loaded.dtn_fetching_improve.argtypes = (pointer, ctypes.c_uint32, pointer, ctypes.c_uint32, ctypes.c_uint64)
    loaded.dtn_fetching_best.restype = ctypes.c_uint64
    loaded.dtn_fetching_best.argtypes = (pointer, pointer)
    loaded.dtn_fetching_offer.restype = None
    loaded.dtn_fetching_offer.argtypes = (pointer, ctypes.c_uint64)
    return loaded
