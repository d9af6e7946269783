"""Random calls of the NPU's kernels on the emulated cores, each with its own inner work: the references' bytes."""

from pathlib import Path

import pytest
from tests import full
from tests.board.port_images import FIRMWARE, START, build, run

from deuteron.board import library
from deuteron.board.boards import Board, load, names
from deuteron.npu.neutron.kernels.catalogue import KERNELS

CALLS = 60
TESTS = (
    "board/kernels.c",
    "container_builder.c",
    "random_call.c",
    "random_window_calls.c",
    "random_parameters.c",
    "reference_kernels.c",
)


@pytest.fixture(scope="module", params=full.only(names(), "an505", "an547"))
def board(request: pytest.FixtureRequest) -> Board:
    return load(request.param)


@pytest.fixture(scope="module")
def image(board: Board) -> Path:
    references = sorted((FIRMWARE / "src/kernels/ref").glob("*.c"))
    sources = (*START, *(f"tests/{name}" for name in TESTS), *references)
    return build(board, "kernels", sources, archived=library.core(board))


def test_random_calls_give_what_the_references_give(board: Board, image: Path) -> None:
    done = run(board, image, str(CALLS), "1")
    assert (done.status, done.output.strip()) == (0, f"right {CALLS * len(KERNELS)}")
