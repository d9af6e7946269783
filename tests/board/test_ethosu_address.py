"""Arm's driver API on a core of 32 bits: addresses have 64 in it."""

from tests.board.port_images import FIRMWARE, START, build, run

from deuteron.board.boards import load

EXECUTED = tuple(
    path.relative_to(FIRMWARE).as_posix()
    for part in ("ethosu", "ethosu_driver")
    for path in sorted((FIRMWARE / "src" / part).glob("*.c"))
)


def test_address_that_the_core_has_not_is_refused() -> None:
    board = load("an505")
    done = run(board, build(board, "ethosu-address", (*START, *EXECUTED, "tests/board/ethosu_address.c")))
    assert (done.status, done.output) == (0, "run\nan operation leaves its region")
