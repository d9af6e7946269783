"""The library's schedules and its search are those of the plain definition, step by step."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.npu.neutron.plan.stream_twin import Follow, Search

from deuteron import native
from deuteron.errors import CapacityError, InternalError, MissingToolError, OptionError
from deuteron.npu.neutron.plan import stream
from deuteron.npu.neutron.plan.chunks import Chunk
from deuteron.npu.neutron.plan.prefetch import _search, most_alive
from deuteron.npu.neutron.plan.stream import MOST_CHUNKS, Costs, Spot, Streams, schedule


def _instance(seed: int) -> tuple[tuple[Chunk, ...], Costs, int]:
    """Chunks of some calls, and an area that holds what one call needs, and not all."""
    rng = random.Random(seed)
    calls = rng.randint(1, 14)
    parts: list[Chunk] = []
    for i, first in enumerate(sorted(rng.randrange(calls) for _ in range(rng.randint(1, 18)))):
        last = rng.choice((first, first, rng.randrange(first, calls)))
        parts.append(Chunk((f"w{i}",), 16 * rng.randint(1, 60), first, last))
    costs = Costs(
        tuple(rng.randint(0, 400) for _ in range(calls)),
        tuple(rng.randint(1, 5) + chunk.nbytes // rng.choice((2, 4)) for chunk in parts),
        rng.randint(0, 40),
    )
    return tuple(parts), costs, rng.randint(most_alive(parts), max(1, sum(chunk.nbytes for chunk in parts)))


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
        spots = {j: Spot(call, rng.choice((None, 16 * j))) for j, call in zip(others, calls, strict=True)}
        assert schedule(parts, costs, resident, area, spots) == Follow(parts, costs, resident, area, spots).run()
    assert 50 < without_room < 250


@pytest.mark.parametrize("keeps", [True, False])
def test_the_search_finds_what_the_definition_finds(*, keeps: bool) -> None:
    for seed in range(60):
        parts, costs, area = _instance(seed)
        bound = sum(costs.calls)
        kept = frozenset(name for chunk in parts[:: 1 + seed % 3] for name in chunk.buffers)
        plain = Search(parts, costs, area, bound, keeps=keeps)
        plain.begin(kept)
        assert _search(parts, costs, area, bound, kept, keeps=keeps, improve=False) == plain.best
        plain.improve()
        assert _search(parts, costs, area, bound, kept, keeps=keeps, improve=True) == plain.best


def test_what_cannot_be_counted_is_refused() -> None:
    parts, costs, area = _instance(3)
    with pytest.raises(OptionError) as caught:
        Streams(parts, replace(costs, transfers=(1 << 63,) * len(parts)), area)
    assert caught.value.message == (
        "a run of the program may take more than 9,223,372,036,854,775,807 cycles, which cannot be planned"
    )
    assert caught.value.hint == "give a faster flash, or a slower clock"
    count = MOST_CHUNKS + 1
    pieces = tuple(Chunk((f"w{at}",), 16, at, at) for at in range(count))
    with pytest.raises(CapacityError) as refused:
        Streams(pieces, Costs((1,) * count, (1,) * count, 1), 1000)
    assert refused.value.message == "the weights are 65,536 pieces, the fetches of at most 65,535 can be planned"
    assert refused.value.hint == "give enough SRAM that all weights stay there, or split the model"


@pytest.mark.parametrize(("resident", "spots", "turns"), [((), (0,), (0,)), ((0,), (0, 1), (0, 0, 1))])
def test_each_chunk_stays_or_has_one_spot(
    resident: tuple[int, ...], spots: tuple[int, ...], turns: tuple[int, ...]
) -> None:
    parts = tuple(Chunk((f"w{at}",), 16, at, at) for at in range(2))
    with pytest.raises(InternalError) as refused:
        schedule(parts, Costs((1, 1), (1, 1), 1), frozenset(resident), 1000, {at: Spot(0, None) for at in spots})
    assert f"of 2 chunks, {turns} are fetched: each either stays or has one spot" in str(refused.value)


def test_without_the_library_no_fetches_are_planned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    stream._load.cache_clear()
    with pytest.raises(MissingToolError, match=r"the native library `libdeuteron_packing\.so` is not built"):
        schedule(*_instance(3)[:2], frozenset(), 100_000)
