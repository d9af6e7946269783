"""Blocks whose parts begin and end apart: which parts they have, where they go, and what the checker says of that."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from tests import full
from tests.planner.test_depth_first import PROGRAM

from deuteron.errors import InternalError
from deuteron.npu.neutron.kernels.processor import CALLS
from deuteron.planner import check, packing_multipart, plan
from deuteron.planner import packing as packing_module
from deuteron.planner.lifetimes import Lifetime, LifetimePart, lifetimes
from deuteron.planner.packing import max_live, pack
from deuteron.planner.stripes import Cascade, cut_into_stripes

CUT = cut_into_stripes(PROGRAM, (Cascade(1, 4, 8),), CALLS)
"""Two stripes of eight rows, of two depthwise convolutions and the sum of `a` and what they give, `s`."""


def drawn(seed: int, count: int, calls: int) -> list[Lifetime]:
    """Blocks of which some are read or written row by row."""
    choose = random.Random(seed)
    blocks: list[Lifetime] = []
    for number in range(count):
        first = choose.randrange(calls)
        last = choose.randrange(first, calls)
        rows, row = choose.randint(1, 6), 16 * choose.randint(1, 12)
        begins = sorted(choose.choices(range(first, last + 1), k=rows)) if choose.random() < 0.4 else [first] * rows
        ends = sorted(choose.choices(range(first, last + 1), k=rows)) if choose.random() < 0.4 else [last] * rows
        parts = tuple(
            LifetimePart(at * row, row, b, max(b, e)) for at, (b, e) in enumerate(zip(begins, ends, strict=True))
        )
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        blocks.append(Lifetime((f"b{number}",), rows * row, first, last, parts))
    return blocks


def assert_valid(blocks: list[Lifetime], offsets: dict[Lifetime, int], end: int) -> None:
    assert set(offsets) == set(blocks)
    assert all(at % 16 == 0 and 0 <= at <= end - block.nbytes for block, at in offsets.items())
    for a, b in combinations(blocks, 2):
        for one in a.parts:
            for other in b.parts:
                if one.first <= other.last and other.first <= one.last:
                    low, high = offsets[a] + one.offset, offsets[b] + other.offset
                    assert low + one.nbytes <= high or high + other.nbytes <= low


def test_rows_that_a_chain_reads_last_die_and_rows_that_it_writes_first_begin_with_their_stripes() -> None:
    assert CUT is not None
    parts = {block.buffers[0]: block.parts for block in lifetimes(CUT)}
    assert parts["a"] == (LifetimePart(0, 768, 0, 3), LifetimePart(768, 256, 0, 4), LifetimePart(1024, 1024, 0, 6))
    assert parts["s"] == (LifetimePart(0, 1024, 3, 7), LifetimePart(1024, 1024, 6, 7))
    assert parts["m[0:9]"] == (LifetimePart(0, 1152, 1, 2),)


def test_what_is_read_after_a_chain_lives_as_a_whole() -> None:
    assert CUT is not None
    parts = {b.buffers[0]: b.parts for b in lifetimes(replace(CUT, calls=(*CUT.calls, CUT.calls[0])))}
    assert parts["a"] == (LifetimePart(0, 2048, 0, 8),)


@pytest.mark.parametrize("seed", full.first(range(40), 16))
def test_blocks_in_parts_take_no_more_than_as_wholes(seed: int) -> None:
    blocks = drawn(seed, 30, 20)
    packing = pack(blocks)
    assert_valid(blocks, packing.offsets, packing.nbytes)
    assert max_live(blocks) == packing.bound <= packing.nbytes
    assert packing.nbytes <= pack([replace(block, parts=()) for block in blocks]).nbytes
    assert packing.proven == (packing.nbytes == packing.bound)


def rows(count: int) -> list[Lifetime]:
    """A map that is read and one that is written row by row."""
    end = 3 * count - 1
    reads = tuple(LifetimePart(16 * i, 16, 0, 3 * i + 2) for i in range(count))
    writes = tuple(LifetimePart(16 * i, 16, 3 * i + 2, end) for i in range(count))
    edges = [Lifetime(("in",), 16 * count, 0, end, reads), Lifetime(("out",), 16 * count, 2, end, writes)]
    return edges + [Lifetime((f"a{i}",), 16, 3 * i, 3 * i + 1) for i in range(count)]


def test_of_very_many_rows_several_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = rows(60)
    alone = pack(blocks)
    looked_at: list[int] = []
    work_out = packing_multipart.forbidden_distances

    def counted(parted: Sequence[Lifetime]) -> packing_multipart.Distances:
        looked_at.append(max(len(block.parts) for block in parted))
        return work_out(parted)

    monkeypatch.setattr(packing_module, "forbidden_distances", counted)
    monkeypatch.setattr(packing_multipart, "MAX_PAIRS", 4_000)
    together = pack(blocks)
    monkeypatch.setattr(packing_multipart, "MAX_PAIRS", 0)
    wholes = pack(blocks)
    assert looked_at == [30, 1]
    for packing in (alone, together, wholes):
        assert_valid(blocks, packing.offsets, packing.nbytes)
        assert packing.bound == max_live(blocks)
    assert (alone.nbytes, together.nbytes, wholes.nbytes) == (976, 1008, 1936)
    assert not together.proven


def test_local_search_saves_memory() -> None:
    programs = [drawn(seed, 60, 40) for seed in range(10)]
    ends: list[list[int]] = []
    for seconds in (0, 0.1):
        ends.append([])
        for blocks in programs:
            distances = packing_multipart.forbidden_distances(blocks)
            offsets = packing_multipart.pack_multipart(blocks, distances, 0, seconds)
            assert offsets == packing_multipart.pack_multipart(blocks, distances, 0, seconds)
            ends[-1].append(max(at + block.nbytes for block, at in zip(blocks, offsets, strict=True)))
            assert_valid(blocks, dict(zip(blocks, offsets, strict=True)), ends[-1][-1])
    assert all(more >= less for more, less in zip(*ends, strict=True))
    assert sum(ends[0]) > sum(ends[1])


@pytest.mark.parametrize("seed", range(10))
def test_first_fit_in_c_is_that_in_python(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = drawn(seed, 60, 40)
    distances = packing_multipart.forbidden_distances(blocks)
    native = packing_multipart.pack_multipart(blocks, distances, 0, 0)
    monkeypatch.setattr(packing_multipart, "MAX_UNITS", 0)  # more than the library counts
    assert packing_multipart.pack_multipart(blocks, distances, 0, 0) == native


def test_the_checker_lets_only_rows_that_are_not_in_use_overlap() -> None:
    assert CUT is not None
    planned = plan(CUT)
    check(CUT, planned)
    assert planned.scratch_bytes == planned.packing.bound == 4224
    place_of = planned.placements
    assert place_of["a"].overlaps(place_of["n[8:16]"])
    moved = {**place_of, "n[8:16]": replace(place_of["n[8:16]"], offset=place_of["a"].offset + 16)}
    with pytest.raises(InternalError, match=r"buffers `a` and `n\[8:16\]` overlap while both are in use"):
        check(CUT, replace(planned, placements=moved))
