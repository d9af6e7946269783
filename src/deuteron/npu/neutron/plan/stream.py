"""How chunks get from flash to SRAM while kernels run: the schedule of one choice of resident chunks.

Chunks are fetched in the order of their first use, each as early as room and channels allow, and room is handed out
first fit. A small chunk can do better before a large one that has no room yet: for such orders someone else says where
chunks go, and when.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deuteron.npu.neutron.kernels.limits import CHANNELS
from deuteron.npu.neutron.plan.chunks import Chunk


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
    """Before call `call`, the fetch of chunk `chunk` to `offset` of the prefetch area is started."""

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
    """Where a chunk goes: to `offset` in the prefetch area, first fit if None, right before call `call` or later."""

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
) -> Schedule | None:
    """The schedule with these chunks resident in an area of `area` bytes, or None when some chunk finds no room.

    Resident chunks lie at the start of the area, in the order of their first use. They are fetched in their turn like
    all others, which costs nothing in a run that finds them in place.

    Args:
        chunks: what is needed, in order of first use.
        costs: what calls and transfers take.
        resident: indices of the chunks that stay in place.
        area: bytes for all chunks.
        spots: where each of the others goes, and when, in the order of their fetches, calls ascending; None for first
            fit, as early as there is room.
    """
    return _Stream(chunks, costs, resident, area, spots).run()


class _Stream:
    """The state of a run that is being planned."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        costs: Costs,
        resident: frozenset[int],
        area: int,
        spots: Mapping[int, Spot] | None,
    ) -> None:
        self._chunks, self._costs, self._area = chunks, costs, area
        self._offsets: dict[int, int] = {}
        self._start = 0
        for chunk in sorted(resident):
            self._offsets[chunk] = self._start
            self._start += chunks[chunk].nbytes
        self._resident = resident
        self._spots = spots
        self._order = tuple(range(len(chunks)) if spots is None else self._turns(spots))
        self._live: list[tuple[int, int, int]] = []  # (offset, end, chunk), by offset
        self._channels: list[int | None] = [None] * CHANNELS  # the chunk that each fetches
        self._arrival: dict[int, int] = {}
        self._steps: list[Step] = []
        self._now = self._free = 0
        self._next = 0

    def run(self) -> Schedule | None:
        """The schedule, call by call."""
        if self._start > self._area:
            return None
        needed: dict[int, list[int]] = {}
        for index, chunk in enumerate(self._chunks):
            needed.setdefault(chunk.first, []).append(index)
        for call, cycles in enumerate(self._costs.calls):
            self._issue(call)
            for index in needed.get(call, ()):
                while index not in self._arrival:
                    if not self._issue_one(call, must=True):
                        return None
                self._wait(call, index)
            # Waiting took time and may have freed channels.
            self._issue(call)
            self._now += cycles
            self._live = [item for item in self._live if self._chunks[item[2]].last > call]
        return Schedule(tuple(self._steps), max(self._now, self._free))

    def _issue(self, call: int) -> None:
        """Starts as many fetches as there is room for."""
        while self._next < len(self._chunks) and self._issue_one(call, must=False):
            pass

    def _issue_one(self, call: int, *, must: bool) -> bool:
        """Starts the next fetch; False when there is no room, or no channel that is free without waiting."""
        chunk = self._order[self._next]
        if chunk not in self._resident and self._spots is not None and self._spots[chunk].call > call and not must:
            return False
        channel = self._channel(call, must=must)
        if channel is None:
            return False
        offset = self._offsets[chunk] if chunk in self._resident else self._room(chunk)
        if offset is None:
            return False
        self._steps.append(Issue(call, chunk, offset, channel))
        self._channels[channel] = chunk
        self._next += 1
        if chunk in self._resident:
            self._arrival[chunk] = 0
            return True
        self._live = sorted([*self._live, (offset, offset + self._chunks[chunk].nbytes, chunk)])
        self._now += self._costs.setup
        self._free = max(self._free, self._now) + self._costs.transfers[chunk]
        self._arrival[chunk] = self._free
        return True

    def _channel(self, call: int, *, must: bool) -> int | None:
        """A channel for the next fetch: one that is free, or whose fetch is done by now, or has to be done."""
        for channel, chunk in enumerate(self._channels):
            if chunk is None:
                return channel
        first = min((chunk for chunk in self._channels if chunk is not None), key=lambda chunk: self._arrival[chunk])
        if self._arrival[first] > self._now and not must:
            return None
        channel = self._channels.index(first)
        self._wait(call, first)
        return channel

    def _wait(self, call: int, chunk: int) -> None:
        if chunk not in self._channels:
            return
        channel = self._channels.index(chunk)
        self._steps.append(Await(call, chunk, channel))
        self._channels[channel] = None
        self._now = max(self._now, self._arrival[chunk])

    def _turns(self, spots: Mapping[int, Spot]) -> Iterator[int]:
        """All chunks in the order of their fetches: a resident one before the first that is needed after it."""
        waiting = sorted(self._resident)
        for chunk in spots:
            while waiting and waiting[0] < chunk:
                yield waiting.pop(0)
            yield chunk
        yield from waiting

    def _room(self, chunk: int) -> int | None:
        """Where a chunk goes: its spot, or the start of the first gap of its size."""
        offset = self._spots[chunk].offset if self._spots is not None else None
        if offset is not None:
            return offset
        nbytes, at = self._chunks[chunk].nbytes, self._start
        for offset, end, _ in self._live:
            if offset - at >= nbytes:
                return at
            at = max(at, end)
        return at if self._area - at >= nbytes else None
