"""Random calls of the Cortex-M layers on the emulated cores, each with its own inner loops.

The result equals a plain loop's bit for bit. No access behind a value is allowed.
"""

from pathlib import Path

import pytest
from tests import full
from tests.board.port_images import FIRMWARE, LAYER_CALLS, START, build, run

from deuteron.board import library
from deuteron.board.boards import Board, load, names

CALLS = 3000


@pytest.fixture(scope="module", params=full.only(names(), "an505", "an547"))
def board(request: pytest.FixtureRequest) -> Board:
    return load(request.param)


@pytest.fixture(scope="module")
def image(board: Board) -> Path:
    sources = (*START, "tests/board/layers.c", *LAYER_CALLS)
    return build(board, "layers", sources, (f"-I{FIRMWARE / 'include'}",), archived=library.core(board))


def test_random_calls_give_what_plain_loops_give(board: Board, image: Path) -> None:
    done = run(board, image, str(CALLS), "1")
    assert done.status == 0, done.output
    word, _, count = done.output.strip().partition(" ")
    assert word == "right", done.output
    assert int(count) > CALLS // 2


@pytest.mark.parametrize("slot", [0, 6])
def test_the_guards_are_there(board: Board, image: Path, slot: int) -> None:
    done = run(board, image, "0", str(slot))
    assert done.status == 3
    assert "the data's address may not be accessed" in done.output


def test_sums_times_float64_factors_are_those_of_whole_products(board: Board) -> None:
    image = build(
        board,
        "round_sums",
        (*START, "tests/board/round_sums.c"),
        (f"-I{FIRMWARE / 'include'}",),
        archived=library.core(board),
    )
    done = run(board, image, "5000")
    assert (done.status, done.output.strip()) == (0, "0 rows are wrong")
