"""Copies of inputs and outputs: by DMA every byte arrives, and the core has next to nothing to do with it."""

import pytest
from tests.board.port_images import COPYING, START, build, run

from deuteron.board.boards import load
from deuteron.board.qemu import instructions

BY_CORE = (*START, "src/io/io_copy.c", "tests/board/copy.c")
BY_DMA = (*START, *COPYING, "tests/board/copy.c")

Case = tuple[int, int, int]
"""Bytes, and how far destination and source are from a multiple of 16."""


def counted(board_name: str, name: str, sources: tuple[str, ...]) -> dict[Case, int]:
    """Instructions of each copy; the image itself has compared what came out."""
    board = load(board_name)
    done = run(board, build(board, name, sources))
    assert done.status == 0, done.output
    rows = (tuple(map(int, line.split())) for line in done.output.splitlines())
    return {(size, to, source): instructions(ticks, board.tick_hz) for size, to, source, ticks in rows}


@pytest.fixture(scope="module")
def by_core() -> dict[Case, int]:
    return counted("an505", "copy-core", BY_CORE)


@pytest.fixture(scope="module")
def by_dma() -> dict[Case, int]:
    return counted("an505", "copy-dma", BY_DMA)


def test_every_size_and_alignment_arrives(by_core: dict[Case, int], by_dma: dict[Case, int]) -> None:
    assert len(by_core) == len(by_dma) == 25 * 16
    assert by_core.keys() == by_dma.keys()


def test_dma_saves_the_core_nine_tenths(by_core: dict[Case, int], by_dma: dict[Case, int]) -> None:
    large = [case for case in by_core if case[0] >= 4096]
    assert large
    assert [case for case in large if by_dma[case] > by_core[case] // 10] == []


def test_small_copies_are_not_slower(by_core: dict[Case, int], by_dma: dict[Case, int]) -> None:
    assert [case for case in by_core if by_dma[case] > by_core[case] + 40] == []


def test_board_without_dma_copies_in_an_interrupt() -> None:
    assert len(counted("an547", "copy-interrupt", BY_DMA)) == 25 * 16
