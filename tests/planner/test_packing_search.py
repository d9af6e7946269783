"""The search for packings: its answers against the constraint solver's, and against instances with a known answer."""

import random
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
from tests.planner import packing_cpsat

from deuteron import native
from deuteron.errors import MissingToolError
from deuteron.planner import packing_search as module
from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing import max_live, pack
from deuteron.planner.packing_search import Answer, improve, search
from deuteron.runtime.build_native import CHECKOUT

STEPS = 20_000_000


def blocks_of(*shapes: tuple[int, int, int]) -> list[Lifetime]:
    return [Lifetime((f"b{i}",), nbytes, first, last) for i, (nbytes, first, last) in enumerate(shapes)]


def cut(seed: int, count: int, height: int, calls: int) -> list[Lifetime]:
    """A rectangle of `height` times `calls`, cut into so many blocks: they fill it, and nothing smaller holds them."""
    choose = random.Random(seed)
    parts = [(0, height, 0, calls)]
    while len(parts) < count:
        low, high, first, end = parts.pop(choose.randrange(len(parts)))
        if choose.random() < 0.5 and high - low > 16:
            middle = choose.randrange(low + 16, high, 16)
            parts += [(low, middle, first, end), (middle, high, first, end)]
        elif end - first > 1:
            middle = choose.randrange(first + 1, end)
            parts += [(low, high, first, middle), (low, high, middle, end)]
        else:
            parts.append((low, high, first, end))
    return blocks_of(*((high - low, first, end - 1) for low, high, first, end in parts))


def assert_valid(offsets: dict[Lifetime, int], blocks: list[Lifetime], capacity: int) -> None:
    assert set(offsets) == set(blocks)
    for block, at in offsets.items():
        assert at % 16 == 0
        assert 0 <= at <= capacity - block.nbytes
    for a, b in combinations(blocks, 2):
        if not (a.last < b.first or b.last < a.first):
            assert offsets[a] + a.nbytes <= offsets[b] or offsets[b] + b.nbytes <= offsets[a]


def side_by_side(blocks: list[Lifetime]) -> dict[Lifetime, int]:
    """A packing in which no two blocks share a byte."""
    offsets, end = {}, 0
    for block in blocks:
        offsets[block] = end
        end += -(-block.nbytes // 16) * 16
    return offsets


CYCLE = ((32, 0, 1), (32, 0, 0), (16, 1, 3), (16, 1, 2), (16, 2, 3), (16, 2, 2), (32, 3, 4), (32, 4, 4))
"""64 bytes are in use in each call, and are not enough.

Each of the four small blocks would have to be adjacent to the next, in a circle, as pairs of them alternate with large
ones.
"""


def size_of(offsets: dict[Lifetime, int]) -> int:
    return max(at + -(-block.nbytes // 16) * 16 for block, at in offsets.items())


def test_the_smallest_packing_is_above_the_bound_where_the_bound_cannot_be_met() -> None:
    blocks = blocks_of(*CYCLE)
    assert max_live(blocks) == 64
    assert search(blocks, 64, STEPS).answer is Answer.IMPOSSIBLE
    found = pack(blocks)
    assert (found.nbytes, found.bound, found.proven) == (80, 64, True)


def test_the_smallest_packing_is_the_constraint_solvers() -> None:
    above = 0
    for seed in range(80):
        choose = random.Random(seed)
        scale = choose.choice((1, 2, 3))
        shapes = [(nbytes * scale, first, last) for nbytes, first, last in CYCLE]
        for _ in range(choose.randint(0, 3)):
            first = choose.choice((0, 0, choose.randrange(5)))
            shapes.append((choose.randint(1, 60), first, choose.choice((4, choose.randint(first, 4)))))
        blocks = blocks_of(*shapes)
        bound = max_live(blocks)
        start = side_by_side(blocks)
        ours, proven = improve(blocks, start, bound, 10.0)
        solvers, solver_proven = packing_cpsat.pack(blocks, start, bound, 10.0)
        assert (proven, solver_proven) == (True, True)
        assert size_of(ours) == size_of(solvers), seed
        assert_valid(ours, blocks, size_of(ours))
        above += size_of(ours) > bound
    assert above >= 5


@pytest.mark.parametrize("seed", range(12))
def test_what_fills_a_rectangle_is_packed_into_it(seed: int) -> None:
    blocks = cut(seed, 70, 2048, 60)
    found = search(blocks, 2048, STEPS)
    assert found.answer is Answer.FOUND
    assert_valid(found.offsets, blocks, 2048)
    assert search(blocks, 2048 - 16, STEPS).answer is Answer.IMPOSSIBLE


def test_the_same_blocks_get_the_same_plan() -> None:
    blocks = cut(3, 50, 1024, 40)
    assert search(blocks, 1024, STEPS) == search(blocks, 1024, STEPS)


def test_a_limit_ends_a_search() -> None:
    blocks = cut(1, 300, 65_536, 200)
    found = search(blocks, 65_536, 1000)
    assert (found.answer, found.offsets) == (Answer.UNDECIDED, {})
    assert 1000 <= found.steps < 200_000


def test_more_bytes_than_the_library_counts_are_left_undecided() -> None:
    for size in (1 << 60, (1 << 36) + 16):  # the second would be 1 in the library's words
        huge = blocks_of((16, 0, 1), (size, 0, 0), (size, 1, 1))
        assert search(huge, 1 << 61, STEPS).answer is Answer.UNDECIDED
        assert search(huge, 64, STEPS).answer is Answer.UNDECIDED


def test_more_room_than_the_library_counts_is_enough() -> None:
    blocks = blocks_of((16, 0, 1), (16, 0, 0))
    assert search(blocks, (1 << 36) + 16, STEPS).answer is Answer.FOUND


def test_a_search_that_would_take_too_much_memory_is_left_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = cut(5, 60, 4096, 40)
    monkeypatch.setattr(module, "MAX_BYTES", 1 << 20)
    assert search(blocks, 4096, STEPS) == module.Found(Answer.UNDECIDED, {}, 0)
    found = pack(blocks)
    assert (found.nbytes > found.bound, found.proven) == (True, False)


def test_a_block_is_placed_where_it_wastes_nothing_even_if_greedy_wastes(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = cut(5, 60, 4096, 40)
    with monkeypatch.context() as patch:
        patch.setattr("deuteron.planner.packing.improve", lambda blocks, start, bound, effort: (start, False))
        greedy = pack(blocks)
    found = pack(blocks)
    assert greedy.nbytes > 4096
    assert (found.nbytes, found.bound, found.proven) == (4096, 4096, True)
    assert_valid(found.offsets, blocks, 4096)


def test_without_the_library_nothing_is_packed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    blocks = cut(5, 60, 4096, 40)
    monkeypatch.setattr(native, "LIBRARY_DIRECTORY", tmp_path)
    module._load.cache_clear()
    with pytest.raises(MissingToolError, match=r"the native library `libdeuteron_packing\.so` is not built"):
        pack(blocks)


@pytest.mark.slow
def test_the_c_code_with_sanitizers(tmp_path: Path) -> None:
    sources = str(CHECKOUT / "native")
    subprocess.run(
        ("cmake", "-S", sources, "-B", str(tmp_path), "-DDTN_TESTS=ON"),
        check=True,
        capture_output=True,
    )
    subprocess.run(("cmake", "--build", str(tmp_path)), check=True, capture_output=True)
    for program in ("packing_test", "prefetch_search_test", "local_search_test"):
        done = subprocess.run((str(tmp_path / program),), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
