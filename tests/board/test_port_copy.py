"""Copies of inputs and outputs: by DMA every byte arrives, and the core has next to nothing to do with it."""

import subprocess
from pathlib import Path

import pytest
from benches import boards as boards_bench
from tests import full
from tests.board.port_images import COPYING, FIRMWARE, START, build, run

from deuteron.board import boards
from deuteron.board.boards import Board, load
from deuteron.board.qemu import instructions

BY_CORE = (*START, "src/io/io_copy.c", "tests/board/copy.c")
BY_DMA = (*START, *COPYING, "tests/board/copy.c")

Case = tuple[int, int, int]
"""Bytes, and how far destination and source are from a multiple of 16."""


def counted(board: Board, name: str, sources: tuple[str, ...]) -> dict[Case, int]:
    """Instructions of each copy; the image itself has compared what came out."""
    done = run(board, build(board, name, sources))
    assert done.status == 0, done.output
    rows = (tuple(map(int, line.split())) for line in done.output.splitlines())
    return {(size, to, source): instructions(ticks, board.tick_hz) for size, to, source, ticks in rows}


@pytest.fixture(scope="module")
def by_core() -> dict[Case, int]:
    return counted(load("an505"), "copy-core", BY_CORE)


@pytest.fixture(scope="module")
def by_dma() -> dict[Case, int]:
    return counted(load("an505"), "copy-dma", BY_DMA)


def test_every_size_and_alignment_arrives(by_core: dict[Case, int], by_dma: dict[Case, int]) -> None:
    assert len(by_core) == len(by_dma) == 25 * 16
    assert by_core.keys() == by_dma.keys()


def test_dma_saves_the_core_nine_tenths(by_core: dict[Case, int], by_dma: dict[Case, int]) -> None:
    large = [case for case in by_core if case[0] >= 4096]
    assert large
    assert [case for case in large if by_dma[case] > by_core[case] // 10] == []


def test_small_copies_are_not_slower(by_core: dict[Case, int], by_dma: dict[Case, int]) -> None:
    assert [case for case in by_core if by_dma[case] > by_core[case] + 40] == []


def test_a_board_without_dma_copies_in_an_interrupt_that_can_count_as_one() -> None:
    board = load("an547")
    by_core = counted(board, "copy-core", BY_CORE)
    by_interrupt = counted(board, "copy-interrupt", BY_DMA)
    apart = counted(boards_bench.with_copier(board), "copy-apart", BY_DMA)
    large = [case for case in by_core if case[0] >= 4096]
    assert len(large) > 16
    assert [case for case in large if by_interrupt[case] < by_core[case]] == []
    assert [case for case in large if apart[case] > by_core[case] // 10] == []


WRAPPED = ("-Wl,--wrap=dtn_dma_start", "-Wl,--wrap=dtn_dma_stop")

FAULTS = {
    "io:fail:0": "first refused\nnothing came later\nsmall copied\nnext copied\n",
    "io:never:0": "first refused\nnothing came later\nsmall copied\nnext copied\n",
    "io:late:0:150000": "first refused\nnothing came later\nsmall copied\nnext copied\n",
    "io:late:0:50000": "first copied\nsomething came later\nsmall copied\nnext copied\n",
    "primask": "masked refused\nnext copied\n",
    "faultmask": "masked refused\nnext copied\n",
    "basepri": "masked refused\nnext copied\n",
    "handler": "masked refused\nnext copied\n",
}
"""Defects of the first copy, and the message for each."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("board_name", full.only(boards.names(), "an505", "an547"))
def test_nothing_goes_on_copying_after_a_failure(board_name: str, fault: str) -> None:
    board = load(board_name)
    sources = (*START, *COPYING, "semihost/fault_injection.c", "tests/board/copy_faults.c")
    done = run(board, build(board, "copy-faults", sources, WRAPPED), fault)
    assert (done.status, done.output) == (0, FAULTS[fault])


@pytest.mark.parametrize("board_name", boards.names())
def test_moments_that_the_emulator_cannot_show(board_name: str, tmp_path: Path) -> None:
    """A stop at the end of a part, an error at the last address, a sleep: with registers in memory, on this machine."""
    files = ("tests/board/registers/registers.c", f"port/{board_name}/dma.c", "port/cortex_m/sleep.c")
    folders = ("port/cortex_m", f"port/{board_name}")
    core = FIRMWARE / "tests/board/registers/core.h"  # has the same guard as the core's own header
    # Registers are at addresses below 4 GiB, and this machine's pointers may be wider.
    flags = ("-std=gnu99", "-w", "-include", core, *(f"-I{FIRMWARE / folder}" for folder in folders))
    program = tmp_path / "registers"
    subprocess.run(["cc", *flags, *(FIRMWARE / file for file in files), "-o", program], check=True)
    done = subprocess.run([program, board_name], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
