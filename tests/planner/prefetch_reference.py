"""The definition of schedules and of the search for what stays, plainly: `native/fetching.c` must give the same."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from deuteron.operators.limits import CHANNELS
from deuteron.planner.prefetch_schedule import Await, FetchCosts, FetchSlot, Issue, Schedule, Step
from deuteron.planner.reserved_intervals import NO_SCRATCH, Scratch
from deuteron.planner.weight_chunks import Chunk
from deuteron.planner.weight_residency import FIRST_WORK, MAX_TRIALS, WORK, _packing


class Follow:
    """The state of a run that is being planned."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        costs: FetchCosts,
        resident: frozenset[int],
        area: int,
        slots: Mapping[int, FetchSlot] | None,
        scratch: Scratch = NO_SCRATCH,
    ) -> None:
        self._chunks, self._costs, self._area, self._scratch = chunks, costs, area, scratch
        self._offsets: dict[int, int] = {}
        self._start = 0
        for chunk in sorted(resident):
            self._offsets[chunk] = self._start
            self._start += chunks[chunk].nbytes
        self._resident = resident
        self._spots = slots
        self._order = tuple(range(len(chunks)) if slots is None else self._turns(slots))
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
        """Starts as many fetches as fit."""
        while self._next < len(self._chunks) and self._issue_one(call, must=False):
            pass

    def _issue_one(self, call: int, *, must: bool) -> bool:
        """Starts the next fetch; False if it does not fit, or if no channel is free without a wait."""
        chunk = self._order[self._next]
        if chunk not in self._resident and self._spots is not None and self._spots[chunk].call > call and not must:
            return False
        channel = self._channel(call, must=must)
        if channel is None:
            return False
        offset = self._offsets[chunk] if chunk in self._resident else self._room(call, chunk)
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

    def _turns(self, slots: Mapping[int, FetchSlot]) -> Iterator[int]:
        """All chunks in the order of their fetches: a resident one before the first that is needed after it."""
        waiting = sorted(self._resident)
        for chunk in slots:
            while waiting and waiting[0] < chunk:
                yield waiting.pop(0)
            yield chunk
        yield from waiting

    def _room(self, call: int, chunk: int) -> int | None:
        """Where a chunk goes: its slot, or the start of the first gap of its size, in scratch or else in the area."""
        offset = self._spots[chunk].offset if self._spots is not None else None
        if offset is not None:
            return offset
        last = self._chunks[chunk].last
        reserved = [
            (self._area + interval.offset, self._area + interval.offset + interval.nbytes)
            for interval in self._scratch.reserved
            if interval.first <= last and interval.last >= call
        ]
        taken = sorted([*reserved, *((offset, end) for offset, end, _ in self._live)])
        for at, end in ((self._area, self._area + self._scratch.nbytes), (self._start, self._area)):
            gap = _gap(taken, self._chunks[chunk].nbytes, at, end)
            if gap is not None:
                return gap
        return None


def _gap(taken: Sequence[tuple[int, int]], nbytes: int, at: int, end: int) -> int | None:
    """The first of `nbytes` free bytes between `at` and `end`."""
    for start, past in (*(item for item in taken if item[0] < end), (end, end)):
        if start - at >= nbytes:
            return at
        at = max(at, past)
    return None


class Search:
    """Looks for the resident chunks that give the fastest run."""

    def __init__(
        self,
        parts: Sequence[Chunk],
        costs: FetchCosts,
        area: int,
        bound: int,
        scratch: Scratch = NO_SCRATCH,
        *,
        keep_resident: bool = True,
    ) -> None:
        self._parts, self._costs, self._area, self._bound, self._keeps = parts, costs, area, bound, keep_resident
        self._scratch = scratch
        self._known: set[frozenset[int]] = set()
        self._random = random.Random(1)
        self.best: tuple[frozenset[int], Schedule] | None = None

    def begin(self, kept: frozenset[str]) -> None:
        """Tries what has worked before (`kept` names its constants), nothing, and several orders for several shares.

        If first fit places some chunk in none of them, all are packed ahead, and fetched when needed.
        """
        self._try(frozenset(i for i, chunk in enumerate(self._parts) if kept and kept.issuperset(chunk.buffers)))
        self._try(frozenset())
        order = range(len(self._parts))
        sizes = [chunk.nbytes for chunk in self._parts]
        keys: tuple[Callable[[int], tuple[int, int]], ...] = (
            lambda i: (i, 0),
            lambda i: (-i, 0),
            lambda i: (-sizes[i], i),
            lambda i: (-sizes[i], -i),
        )
        shares = min(16, max(2, FIRST_WORK // len(self._costs.calls) // len(keys)))
        for key in keys:
            for share in range(shares, 0, -1):
                self._try(self._fill(sorted(order, key=key), self._area * share // shares))
        if self.best is None:
            firsts = {j: chunk.first for j, chunk in enumerate(self._parts)}
            needed, slots = _packing(self._parts, firsts, 0, self._area, self._scratch)
            if needed <= self._area:
                self._take(
                    frozenset(),
                    Follow(self._parts, self._costs, frozenset(), self._area, slots, self._scratch).run(),
                )

    def improve(self) -> None:
        """Changes the best at random: a chunk more or less, and others out until it fits."""
        for _ in range(min(MAX_TRIALS, WORK // len(self._costs.calls))):
            if self.best is None or self._done():
                return
            self._try(self._changed(self.best[0]))

    def _done(self) -> bool:
        return self.best is not None and self.best[1].cycles <= self._bound

    def _fill(self, order: Sequence[int], limit: int) -> frozenset[int]:
        """As many chunks as go into `limit` bytes, tried in this order."""
        taken: set[int] = set()
        for chunk in order:
            if self._parts[chunk].nbytes <= limit:
                taken.add(chunk)
                limit -= self._parts[chunk].nbytes
        return frozenset(taken)

    def _changed(self, resident: frozenset[int]) -> frozenset[int]:
        chosen = self._random.randrange(len(self._parts))
        others = sorted(resident - {chosen})
        if chosen in resident:
            return frozenset(others)
        self._random.shuffle(others)
        swapped = self._random.randrange(2)  # also without need: what is left must find room to be streamed
        return frozenset((chosen, *self._fill(others[swapped:], self._area - self._parts[chosen].nbytes)))

    def _try(self, resident: frozenset[int]) -> None:
        if self._done() or resident in self._known or (resident and not self._keeps):
            return
        self._known.add(resident)
        self._take(resident, Follow(self._parts, self._costs, resident, self._area, None, self._scratch).run())

    def _take(self, resident: frozenset[int], candidate: Schedule | None) -> None:
        if candidate is not None and (self.best is None or candidate.cycles <= self.best[1].cycles):
            self.best = resident, candidate
