"""Prefetch schedules: when chunks are fetched from flash to SRAM while kernels run, for a set of resident chunks.

Chunks are fetched in the order of their first use, each as early as memory and channels allow. First fit places them:
in scratch that is free from the fetch to the last call that reads the chunk, otherwise in the area. Another order can
be faster, such as a small chunk before a large one that does not fit yet. For such orders the caller gives offset and
earliest call of each chunk.

The area and scratch share one address space: scratch starts where the area ends.

The schedules are computed in C (`native/prefetch_search.h`), because the search needs thousands of them.
"""

import ctypes
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from deuteron.errors import CapacityError, InternalError, OptionError
from deuteron.native import load as load_native
from deuteron.operators.limits import CHANNELS
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch
from deuteron.planner.weight_chunks import Chunk

MAX_CYCLES = (1 << 63) - 1
"""Largest number of cycles of a run that the library supports."""

MAX_CHUNKS = (1 << 16) - 1
"""Largest number of chunks that the library supports."""

FIRST_TRIES = 66
"""Largest number of sets of resident chunks that the caller may try."""

WORDS = 1 << 17
"""Random numbers of a search, which repeat after that."""

_NONE = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class FetchCosts:
    """Cycles of calls and fetches.

    Attributes:
        calls: cycles of each call with its dispatch.
        transfers: cycles of the flash for each chunk, with latency.
        setup: cycles of the CPU per fetch.
    """

    calls: tuple[int, ...]
    transfers: tuple[int, ...]
    setup: int


@dataclass(frozen=True, slots=True)
class Issue:
    """Start of the fetch of a chunk to `offset`, before call `call`."""

    call: int
    chunk: int
    offset: int
    channel: int


@dataclass(frozen=True, slots=True)
class Await:
    """Wait for the fetch of a chunk, before call `call`."""

    call: int
    chunk: int
    channel: int


Step = Issue | Await


@dataclass(frozen=True, slots=True)
class FetchSlot:
    """Constraint of a fetch: not earlier than before call `call`, to `offset` (None for first fit)."""

    call: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Fetches and waits in the order of execution, and the cycles of a run with resident chunks in SRAM already."""

    steps: tuple[Step, ...]
    cycles: int


def schedule(
    chunks: Sequence[Chunk],
    costs: FetchCosts,
    resident: frozenset[int],
    area: int,
    slots: Mapping[int, FetchSlot] | None = None,
    scratch: Scratch = NO_SCRATCH,
) -> Schedule | None:
    """Return the schedule with these chunks resident in an area of `area` bytes, or None if some chunk does not fit.

    Resident chunks are at the start of the area, in the order of their first use. They are fetched in their turn like
    all others, at no cost in a run that finds them in SRAM.

    Args:
        chunks: the chunks in order of first use.
        costs: cycles of calls and transfers.
        resident: indices of the resident chunks.
        area: bytes of the prefetch area.
        slots: constraints of the other fetches, in the order of the fetches, calls ascending; None for first fit, as
            early as possible.
        scratch: free intervals for chunks that are not resident.
    """
    return ScheduleSearch(chunks, costs, area, scratch=scratch).schedule(resident, slots)


class ScheduleSearch:
    """Schedules of some chunks in an area, and a search for the fastest set of resident chunks.

    Args:
        chunks: the chunks in order of first use.
        costs: cycles of calls and transfers.
        area: bytes of the prefetch area.
        rounds: number of changes that `improve` tries.
        scratch: free intervals for chunks that are not resident.

    Raises:
        MissingToolError: the library is not built.
        OptionError: a run may take more cycles than the library supports.
        CapacityError: there are more chunks than the library supports.
    """

    def __init__(
        self, chunks: Sequence[Chunk], costs: FetchCosts, area: int, rounds: int = 0, scratch: Scratch = NO_SCRATCH
    ) -> None:
        if sum(costs.calls) + sum(costs.transfers) + costs.setup * len(chunks) > MAX_CYCLES:
            raise OptionError(
                f"a run of the program may take more than {MAX_CYCLES:,} cycles, which cannot be planned",
                hint="give a faster flash, or a slower clock",
            )
        if len(chunks) > MAX_CHUNKS:
            raise CapacityError(
                f"the weights are {len(chunks):,} pieces, the fetches of at most {MAX_CHUNKS:,} can be planned",
                hint="give enough SRAM that all weights stay there, or split the model",
            )
        self._native, self._count, self._rounds = _load(), len(chunks), rounds
        self._parts = (_Chunk * len(chunks))(
            *((c.nbytes, cycles, c.first, c.last) for c, cycles in zip(chunks, costs.transfers, strict=True))
        )
        self._calls = (ctypes.c_uint64 * len(costs.calls))(*costs.calls)
        reserved = scratch.reserved
        self._reserved = (_Reserved * len(reserved))(
            *((interval.offset, interval.nbytes, interval.first, interval.last) for interval in reserved)
        )
        counts, tries = (len(chunks), len(costs.calls)), FIRST_TRIES + rounds
        self._config = _Config(
            self._parts,
            self._calls,
            *counts,
            costs.setup,
            area,
            CHANNELS,
            tries,
            self._reserved,
            scratch.nbytes,
            len(reserved),
        )
        nbytes = self._native.dtn_prefetch_bytes(ctypes.byref(self._config))
        self._memory = ctypes.create_string_buffer(nbytes)
        handle = self._native.dtn_prefetch_init(self._memory, ctypes.byref(self._config)) if nbytes else None
        if handle is None:
            raise InternalError(
                "chunks or reserved intervals are not in the order of their first use, or intervals exceed scratch"
            )
        self._handle = ctypes.c_void_p(handle)

    def schedule(self, resident: frozenset[int], slots: Mapping[int, FetchSlot] | None = None) -> Schedule | None:
        """Return the schedule with these chunks resident, as the function `schedule`."""
        choice = _Choice(self._flags(resident), None, None, None)
        if slots is not None:
            turns = tuple(_turns(resident, slots))
            if sorted(turns) != list(range(self._count)):
                raise InternalError(
                    f"of {self._count} chunks, {turns} are fetched: each is either resident or has one slot"
                )
            choice.order = (ctypes.c_uint32 * self._count)(*turns)
            choice.slots = (ctypes.c_uint32 * self._count)()
            choice.offsets = (ctypes.c_uint64 * self._count)()
            for chunk, slot in slots.items():
                choice.slots[chunk] = slot.call
                choice.offsets[chunk] = _NONE if slot.offset is None else slot.offset
        steps, number = (_Step * (2 * self._count))(), ctypes.c_uint32()
        cycles = self._native.dtn_prefetch_schedule(self._handle, ctypes.byref(choice), steps, ctypes.byref(number))
        if cycles == _NONE:
            return None
        return Schedule(tuple(_step_of(steps[at]) for at in range(number.value)), cycles)

    def attempt(self, resident: Collection[int], bound: int) -> None:
        """Try a set, unless it was tried before or the best has reached `bound` cycles."""
        self._native.dtn_prefetch_try(self._handle, self._flags(resident), bound)

    def fill(self, order: Sequence[int], shares: int, bound: int) -> None:
        """Try the chunks that fit, added in this order, into the whole area and into each smaller share of it."""
        native, items = self._native, (ctypes.c_uint32 * self._count)(*order)
        for share in range(shares, 0, -1):
            native.dtn_prefetch_fill(self._handle, items, self._config.area * share // shares, bound)

    def improve(self, bound: int) -> None:
        """Change the best set at random: add or remove a chunk, and remove others that no longer fit."""
        words = _words()
        self._native.dtn_prefetch_improve(self._handle, self._rounds, words, len(words), bound)

    def offer(self, cycles: int) -> None:
        """Set the best to a schedule without resident chunks."""
        self._native.dtn_prefetch_offer(self._handle, cycles)

    def best(self) -> tuple[frozenset[int], int] | None:
        """Return the fastest set so far, the last of equals, and its cycles."""
        flags = (ctypes.c_uint8 * self._count)()
        cycles = self._native.dtn_prefetch_best(self._handle, flags)
        return None if cycles == _NONE else (frozenset(i for i, flag in enumerate(flags) if flag), cycles)

    def _flags(self, resident: Collection[int]) -> "ctypes.Array[ctypes.c_uint8]":
        flags = (ctypes.c_uint8 * self._count)()
        for chunk in resident:
            flags[chunk] = 1
        return flags


def _turns(resident: Collection[int], slots: Mapping[int, FetchSlot]) -> Iterator[int]:
    """Yield all chunks in the order of their fetches: a resident one before the first that is needed after it."""
    waiting = sorted(resident)
    for chunk in slots:
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


class _Reserved(ctypes.Structure):
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
        ("reserved", ctypes.POINTER(_Reserved)),
        ("scratch", ctypes.c_uint64),
        ("reserved_count", ctypes.c_uint32),
    )


class _Choice(ctypes.Structure):
    _fields_ = (
        ("resident", ctypes.POINTER(ctypes.c_uint8)),
        ("order", ctypes.POINTER(ctypes.c_uint32)),
        ("slots", ctypes.POINTER(ctypes.c_uint32)),
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
    """Return random numbers, the same for all plans."""
    stream = random.Random(1)  # noqa: S311 - reproducible, and no secret
    return (ctypes.c_uint32 * WORDS).from_buffer_copy(stream.randbytes(4 * WORDS))


@cache
def _load() -> ctypes.CDLL:
    loaded, pointer = load_native("packing"), ctypes.c_void_p
    loaded.dtn_prefetch_bytes.restype = ctypes.c_size_t
    loaded.dtn_prefetch_bytes.argtypes = (pointer,)
    loaded.dtn_prefetch_init.restype = pointer
    loaded.dtn_prefetch_init.argtypes = (pointer, pointer)
    loaded.dtn_prefetch_schedule.restype = ctypes.c_uint64
    loaded.dtn_prefetch_schedule.argtypes = (pointer, pointer, pointer, pointer)
    loaded.dtn_prefetch_try.restype = None
    loaded.dtn_prefetch_try.argtypes = (pointer, pointer, ctypes.c_uint64)
    loaded.dtn_prefetch_fill.restype = None
    loaded.dtn_prefetch_fill.argtypes = (pointer, pointer, ctypes.c_uint64, ctypes.c_uint64)
    loaded.dtn_prefetch_improve.restype = None
    loaded.dtn_prefetch_improve.argtypes = (pointer, ctypes.c_uint32, pointer, ctypes.c_uint32, ctypes.c_uint64)
    loaded.dtn_prefetch_best.restype = ctypes.c_uint64
    loaded.dtn_prefetch_best.argtypes = (pointer, pointer)
    loaded.dtn_prefetch_offer.restype = None
    loaded.dtn_prefetch_offer.argtypes = (pointer, ctypes.c_uint64)
    return loaded
