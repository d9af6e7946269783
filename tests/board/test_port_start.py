"""Start-up on the boards: memory as C and the bundle expect it, a counter that runs, faults that say what they are."""

import re

import pytest
from tests.board.port_images import START, build, run

from deuteron.board.boards import Board, load
from deuteron.board.qemu import instructions
from deuteron.errors import InternalError

BOARDS = ("an500", "an505", "an547")

CODE = {"an500": 0, "an505": 0x10000000, "an547": 0x10000000}
SRAM = {"an500": 0x20000000, "an505": 0x38000000, "an547": 0x31000000}
FLASH = {"an500": 0, "an505": 0x10000000, "an547": 0x38000000}
EXTERNAL = {"an500": 0x60000000, "an505": 0x80000000, "an547": 0x70000000}
MEGABYTES_4 = 4 << 20


@pytest.fixture(scope="module", params=BOARDS)
def board(request: pytest.FixtureRequest) -> Board:
    return load(request.param)


def started(board: Board, *words: str) -> tuple[int, str]:
    done = run(board, build(board, "start", (*START, "tests/board/start.c")), *words)
    return done.status, done.output


def test_memory_is_as_the_image_says(board: Board) -> None:
    status, output = started(board)
    assert status == 7, output
    lines = [line.rsplit(" ", 1) for line in output.splitlines()]
    found = {name: int(value, 16) for name, value in lines}
    values = {name: found[name] for name in ("data", "bss", "sram", "flash", "external", "float")}
    assert values == {"data": 0x11223344, "bss": 0, "sram": 5, "flash": 6, "external": 7, "float": 15}
    sram, flash, external = SRAM[board.name], FLASH[board.name], EXTERNAL[board.name]
    assert sram <= found["at sram"] < found["at arena"] < found["free"] < found["free end"] == sram + MEGABYTES_4
    assert flash <= found["at flash"] < flash + MEGABYTES_4
    assert external <= found["at external"] < found["at external arena"] < external + MEGABYTES_4
    assert found["free"] % 16 == 0


def test_a_board_starts_before_its_memory_is_written(board: Board) -> None:
    """Clocks, ECC and protection regions must be set before data, stack and UART are used."""
    done = run(board, build(board, "board_start", (*START, "tests/board/board_start.c")))
    found = {name: int(value, 16) for name, value in (line.rsplit(" ", 1) for line in done.output.splitlines())}
    assert found == {"calls": 1, "data before": 0, "stack before": 0, "data": 5, "bss": 0, "stack": 0xC0DEC0DE}


def test_stack_is_painted_and_measured(board: Board) -> None:
    _, output = started(board)
    before, after = (int(value, 16) for value in re.findall(r"^used (\w+)$", output, re.MULTILINE))
    assert "stack 0x00002000" in output
    assert 64 <= before <= 512
    assert 8 * 256 + 64 <= after <= before + 8 * 256 + 512


def test_stack_is_as_large_as_the_linker_is_told(board: Board) -> None:
    size = ("-Wl,--defsym=__dtn_stack_bytes=16384",)
    done = run(board, build(board, "stack", (*START, "tests/board/start.c"), size))
    assert "\nstack 0x00004000\n" in done.output


def test_counter_counts_instructions(board: Board) -> None:
    first, second = (re.findall(r"^ticks (\w+)$", started(board)[1], re.MULTILINE) for _ in range(2))
    assert first == second
    assert 1000 < instructions(int(first[0], 16), board.tick_hz) <= 1010


OVERFLOW = {
    "an500": "fault: MemManage: the data's address may not be accessed: the stack overflowed: 0x200001",
    "an505": "fault: UsageFault: the stack overflowed\n",
    "an547": "fault: UsageFault: the stack overflowed\n",
}
"""An Armv7-M core finds it by the address, which is in the guard."""

FAULTS = {
    "undefined": "fault: UsageFault: the instruction is undefined\n",
    "address": "fault: BusFault: the data could not be read or written: 0x2f000000\n",
    "call": "fault: no handler for exception 11\n",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_fault_is_reported(board: Board, kind: str) -> None:
    status, output = started(board, kind)
    first, second = output.splitlines(keepends=True)
    assert status == 3
    assert first == FAULTS[kind]
    number = r"0x[0-9a-f]{8}"
    assert re.fullmatch(rf"  pc {number}, lr {number}, sp {number}, cfsr {number}, hfsr 0x00000000\n", second)
    assert int(second.split()[1].strip(","), 16) >> 20 == CODE[board.name] >> 20


@pytest.mark.parametrize("how", ["overflow", "full", "nearly"])
def test_overflow_is_reported(board: Board, how: str) -> None:
    """The handler has its own stack, even if none is left to save registers."""
    status, output = started(board, how)
    assert status == 3
    assert output.startswith(OVERFLOW[board.name])


@pytest.mark.parametrize("room", ["full", "nearly"])
def test_no_registers_are_read_where_none_were_saved(board: Board, room: str) -> None:
    _, output = started(board, room)
    assert "  pc 0x00000000, lr 0x00000000, " in output


def test_section_that_start_up_would_not_fill_is_refused(board: Board) -> None:
    with pytest.raises(InternalError, match=r"unplaced orphan section `\.elsewhere'"):
        build(board, "unplaced_section", (*START, "tests/board/unplaced_section.c"))
