"""The library's schedules and its search are those of the plain definition, step by step."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.planner.prefetch_reference import Follow, Search

from deuteron import native
from deuteron.errors import CapacityError, InternalError, MissingToolError, OptionError
from deuteron.planner import prefetch_schedule
from deuteron.planner.prefetch_schedule import (
    MAX_CHUNKS,
    FetchCosts,
    FetchSlot,
    Issue,
    Schedule,
    ScheduleSearch,
    schedule,
)
from deuteron.planner.reserved_intervals import NO_SCRATCH, ReservedInterval, Scratch
from deuteron.planner.weight_chunks import Chunk
from deuteron.planner.weight_residency import _search, max_needed_bytes


def _instance(seed: int) -> tuple[tuple[Chunk, ...], FetchCosts, int]:
    """Chunks of some calls, and an area that holds what one call needs, and not all."""
    rng = random.Random(seed)
    calls = rng.randint(1, 14)
    parts: list[Chunk] = []
    for i, first in enumerate(sorted(rng.randrange(calls) for _ in range(rng.randint(1, 18)))):
        last = rng.choice((first, first, rng.randrange(first, calls)))
        parts.append(Chunk((f"w{i}",), 16 * rng.randint(1, 60), first, last))
    costs = FetchCosts(
        tuple(rng.randint(0, 400) for _ in range(calls)),
        tuple(rng.randint(1, 5) + chunk.nbytes // rng.choice((2, 4)) for chunk in parts),
        rng.randint(0, 40),
    )
    return tuple(parts), costs, rng.randint(max_needed_bytes(parts), max(1, sum(chunk.nbytes for chunk in parts)))


def _scratch(rng: random.Random, calls: int) -> Scratch:
    """Up to 4,096 bytes with reserved, which may overlap."""
    nbytes = 16 * rng.randint(1, 256)
    reserved: list[ReservedInterval] = []
    for first in sorted(rng.randrange(calls) for _ in range(rng.randint(0, 5))):
        offset = 16 * rng.randrange(nbytes // 16)
        reserved.append(
            ReservedInterval(offset, 16 * rng.randint(1, (nbytes - offset) // 16), first, rng.randrange(first, calls))
        )
    return Scratch(nbytes, tuple(reserved))


def _overlaps(parts: tuple[Chunk, ...], area: int, scratch: Scratch, planned: Schedule) -> bool:
    """Return whether a fetch to scratch overlaps a reserved interval, or exceeds scratch."""
    for step in planned.steps:
        if isinstance(step, Issue) and step.offset + parts[step.chunk].nbytes > area:
            start, end = step.offset - area, step.offset - area + parts[step.chunk].nbytes
            reserved = (w for w in scratch.reserved if w.first <= parts[step.chunk].last and w.last >= step.call)
            if (
                start < 0
                or end > scratch.nbytes
                or any(w.offset < end and start < w.offset + w.nbytes for w in reserved)
            ):
                return True
    return False


def test_schedules_are_those_of_the_definition() -> None:
    without_room = 0
    for seed in range(300):
        parts, costs, area = _instance(seed)
        rng = random.Random(-seed)
        resident = frozenset(rng.sample(range(len(parts)), rng.randint(0, len(parts))))
        wanted = Follow(parts, costs, resident, area, None).run()
        assert schedule(parts, costs, resident, area) == wanted
        without_room += wanted is None
        others = [j for j in range(len(parts)) if j not in resident]
        rng.shuffle(others)
        calls = sorted(rng.randint(0, len(costs.calls) - 1) for _ in others)
        slots = {j: FetchSlot(call, rng.choice((None, 16 * j))) for j, call in zip(others, calls, strict=True)}
        assert schedule(parts, costs, resident, area, slots) == Follow(parts, costs, resident, area, slots).run()
    assert 50 < without_room < 250


def test_schedules_with_reserved_intervals_are_those_of_the_definition() -> None:
    to_scratch = more = 0
    for seed in range(300):
        parts, costs, area = _instance(seed)
        rng = random.Random(-seed)
        resident = frozenset(rng.sample(range(len(parts)), rng.randint(0, len(parts) // 2)))
        scratch = _scratch(rng, len(costs.calls))
        area = 16 * rng.randrange(area // 16 + 1)
        wanted = Follow(parts, costs, resident, area, None, scratch).run()
        assert schedule(parts, costs, resident, area, scratch=scratch) == wanted
        if wanted is not None:
            assert not _overlaps(parts, area, scratch, wanted)
            to_scratch += sum(isinstance(step, Issue) and step.offset >= area for step in wanted.steps)
            more += schedule(parts, costs, resident, area) is None
        others = [j for j in range(len(parts)) if j not in resident]
        rng.shuffle(others)
        calls = sorted(rng.randint(0, len(costs.calls) - 1) for _ in others)
        slots = {j: FetchSlot(call, rng.choice((None, None, 16 * j))) for j, call in zip(others, calls, strict=True)}
        wanted = Follow(parts, costs, resident, area, slots, scratch).run()
        assert schedule(parts, costs, resident, area, slots, scratch) == wanted
    assert to_scratch > 300
    assert more > 50


def test_what_is_free_in_scratch_is_taken_before_the_area() -> None:
    """The interval ends with call 0, and the next begins with call 3: what calls 1 and 2 read is fetched in between."""
    parts = (Chunk(("a",), 64, 1, 1), Chunk(("b",), 64, 2, 2), Chunk(("c",), 64, 2, 3))
    scratch = Scratch(128, (ReservedInterval(0, 128, 0, 0), ReservedInterval(0, 64, 3, 3)))
    planned = schedule(parts, FetchCosts((10, 1000, 10, 10), (5, 5, 5), 1), frozenset(), 64, scratch=scratch)
    assert planned is not None
    issues = [(step.call, step.chunk, step.offset) for step in planned.steps if isinstance(step, Issue)]
    assert issues == [(0, 0, 0), (1, 1, 64), (1, 2, 128)]


def test_reserved_intervals_are_in_scratch_and_in_order() -> None:
    parts, costs, area = _instance(3)
    for reserved in (
        (ReservedInterval(16, 112, 0, 0), ReservedInterval(0, 129, 1, 1)),
        (ReservedInterval(0, 16, 1, 1), ReservedInterval(0, 16, 0, 0)),
    ):
        with pytest.raises(
            InternalError, match=r"or reserved intervals are not in the order of their first use, or intervals exceed"
        ):
            ScheduleSearch(parts, costs, area, scratch=Scratch(128, reserved))


@pytest.mark.parametrize("to_scratch", [True, False])
@pytest.mark.parametrize("keep_resident", [True, False])
def test_the_search_finds_what_the_definition_finds(*, keep_resident: bool, to_scratch: bool) -> None:
    for seed in range(60):
        parts, costs, area = _instance(seed)
        scratch = _scratch(random.Random(seed), len(costs.calls)) if to_scratch else NO_SCRATCH
        bound = sum(costs.calls)
        kept = frozenset(name for chunk in parts[:: 1 + seed % 3] for name in chunk.buffers)
        plain = Search(parts, costs, area, bound, scratch, keep_resident=keep_resident)
        plain.begin(kept)
        assert (
            _search(parts, costs, area, bound, kept, scratch, keep_resident=keep_resident, improve=False) == plain.best
        )
        plain.improve()
        assert (
            _search(parts, costs, area, bound, kept, scratch, keep_resident=keep_resident, improve=True) == plain.best
        )


def test_what_cannot_be_counted_is_refused() -> None:
    parts, costs, area = _instance(3)
    with pytest.raises(OptionError) as caught:
        ScheduleSearch(parts, replace(costs, transfers=(1 << 63,) * len(parts)), area)
    assert caught.value.message == (
        "a run of the program may take more than 9,223,372,036,854,775,807 cycles, which cannot be planned"
    )
    assert caught.value.hint == "give a faster flash, or a slower clock"
    count = MAX_CHUNKS + 1
    pieces = tuple(Chunk((f"w{at}",), 16, at, at) for at in range(count))
    with pytest.raises(CapacityError) as refused:
        ScheduleSearch(pieces, FetchCosts((1,) * count, (1,) * count, 1), 1000)
    assert refused.value.message == "the weights are 65,536 pieces, the fetches of at most 65,535 can be planned"
    assert refused.value.hint == "give enough SRAM that all weights stay there, or split the model"


@pytest.mark.parametrize(("resident", "slots", "turns"), [((), (0,), (0,)), ((0,), (0, 1), (0, 0, 1))])
def test_each_chunk_is_resident_or_has_one_slot(
    resident: tuple[int, ...], slots: tuple[int, ...], turns: tuple[int, ...]
) -> None:
    parts = tuple(Chunk((f"w{at}",), 16, at, at) for at in range(2))
    with pytest.raises(InternalError) as refused:
        schedule(
            parts, FetchCosts((1, 1), (1, 1), 1), frozenset(resident), 1000, {at: FetchSlot(0, None) for at in slots}
        )
    assert f"of 2 chunks, {turns} are fetched: each is either resident or has one slot" in str(refused.value)


def test_without_the_library_no_fetches_are_planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    prefetch_schedule._load.cache_clear()
    with pytest.raises(MissingToolError, match=r"the native library `libdeuteron_packing\.so` is not built"):
        schedule(*_instance(3)[:2], frozenset(), 100_000)
