"""Blocks whose parts begin and end apart: which parts they have, where they go, and what the checker says of that."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from tests.planner.test_depth_first import PROGRAM

from deuteron import native
from deuteron.errors import InternalError
from deuteron.planner import check, packing_multipart, plan
from deuteron.planner import packing as packing_module
from deuteron.planner.lifetimes import Lifetime, Part, lifetimes
from deuteron.planner.packing import max_live, place
from deuteron.planner.stripes import Cascade, striped

CUT = striped(PROGRAM, (Cascade(1, 4, 8),))
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
        parts = tuple(Part(at * row, row, b, max(b, e)) for at, (b, e) in enumerate(zip(begins, ends, strict=True)))
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
    assert parts["a"] == (Part(0, 768, 0, 3), Part(768, 256, 0, 4), Part(1024, 1024, 0, 6))
    assert parts["s"] == (Part(0, 1024, 3, 7), Part(1024, 1024, 6, 7))
    assert parts["m[0:9]"] == (Part(0, 1152, 1, 2),)


def test_what_is_read_after_a_chain_lives_as_a_whole() -> None:
    assert CUT is not None
    parts = {b.buffers[0]: b.parts for b in lifetimes(replace(CUT, calls=(*CUT.calls, CUT.calls[0])))}
    assert parts["a"] == (Part(0, 2048, 0, 8),)


@pytest.mark.parametrize("seed", range(40))
def test_blocks_in_parts_take_no_more_than_as_wholes(seed: int) -> None:
    blocks = drawn(seed, 30, 20)
    packing = place(blocks)
    assert_valid(blocks, packing.offsets, packing.nbytes)
    assert max_live(blocks) == packing.bound <= packing.nbytes
    assert packing.nbytes <= place([replace(block, parts=()) for block in blocks]).nbytes
    assert packing.proven == (packing.nbytes == packing.bound)


def rows(count: int) -> list[Lifetime]:
    """A map that is read and one that is written row by row."""
    end = 3 * count - 1
    reads = tuple(Part(16 * i, 16, 0, 3 * i + 2) for i in range(count))
    writes = tuple(Part(16 * i, 16, 3 * i + 2, end) for i in range(count))
    edges = [Lifetime(("in",), 16 * count, 0, end, reads), Lifetime(("out",), 16 * count, 2, end, writes)]
    return edges + [Lifetime((f"a{i}",), 16, 3 * i, 3 * i + 1) for i in range(count)]


def test_of_very_many_rows_several_are_taken_together(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = rows(60)
    alone = place(blocks)
    looked_at: list[int] = []
    work_out = packing_multipart.forbidden

    def counted(parted: Sequence[Lifetime]) -> packing_multipart.Between:
        looked_at.append(max(len(block.parts) for block in parted))
        return work_out(parted)

    monkeypatch.setattr(packing_module, "forbidden", counted)
    monkeypatch.setattr(packing_multipart, "MOST_PAIRS", 4_000)
    together = place(blocks)
    monkeypatch.setattr(packing_multipart, "MOST_PAIRS", 0)
    wholes = place(blocks)
    assert looked_at == [30, 1]
    for packing in (alone, together, wholes):
        assert_valid(blocks, packing.offsets, packing.nbytes)
        assert packing.bound == max_live(blocks)
    assert (alone.nbytes, together.nbytes, wholes.nbytes) == (976, 1008, 1936)
    assert not together.proven


def test_mending_saves_memory_and_is_left_out_without_the_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = [drawn(seed, 60, 40) for seed in range(10)]
    mended = [packing_multipart.pack(blocks, packing_multipart.forbidden(blocks), 0, 0.1) for blocks in programs]
    assert mended == [
        packing_multipart.pack(blocks, packing_multipart.forbidden(blocks), 0, 0.1) for blocks in programs
    ]
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    packing_multipart.library.cache_clear()
    greedy = [packing_multipart.pack(blocks, packing_multipart.forbidden(blocks), 0, 0.1) for blocks in programs]
    packing_multipart.library.cache_clear()
    ends: list[list[int]] = []
    for packings in (mended, greedy):
        offsets = [dict(zip(blocks, packing, strict=True)) for blocks, packing in zip(programs, packings, strict=True)]
        ends.append([max(at + block.nbytes for block, at in each.items()) for each in offsets])
        for blocks, each, end in zip(programs, offsets, ends[-1], strict=True):
            assert_valid(blocks, each, end)
    assert all(less <= more for less, more in zip(*ends, strict=True))
    assert sum(ends[0]) < sum(ends[1])


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
