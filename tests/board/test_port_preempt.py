"""Runs that pre-empt each other: what an interrupt runs takes nothing away from the run that it interrupts."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests import full
from tests.board import fetching
from tests.board.port_images import COPYING, EXECUTOR, START, build, generate, run

from deuteron.board import boards
from deuteron.board.boards import load
from deuteron.board.emit import EmitOptions

FETCH = 64
SOURCES = ("port/cortex_m/fetch.c", "tests/board/preempt.c")

SAID = {
    "hooks": ("reason 0, right; interrupts 16, wrong 0, reason 0", "reason 0, right; interrupts 16, wrong 0, reason 0"),
    "fails": (
        f"reason {FETCH}, wrong; interrupts 8, wrong 0, reason 0",
        "reason 0, right; interrupts 16, wrong 0, reason 0",
    ),
    "greedy": (
        f"reason 0, right; interrupts 16, wrong 16, reason {FETCH}",
        f"reason 0, right; interrupts 16, wrong 16, reason {FETCH}",
    ),
    "tick": ("reason 0, right; interrupts 1, wrong 0, reason 0", "reason 0, right; interrupts 16, wrong 0, reason 0"),
}
"""Times of the interrupt: in every hook, one of which fails, or by the clock.

`greedy` fetches itself and is refused. The values are reason and outputs of two runs, then the number of interrupts and
their results.
"""


@cache
def generated() -> tuple[Path, ...]:
    """The sources of three programs: one that fetches, one that does not, and one more that does."""
    rng = np.random.default_rng(3)
    main = generate(fetching.bundle(rng), "preempt")
    urgent = generate(fetching.without_fetches(rng), "preempt-urgent", EmitOptions(symbol="urgent"))
    greedy = generate(fetching.bundle(rng), "preempt-greedy", EmitOptions(symbol="greedy"))
    return (*main, *urgent[:2], *greedy[:2])


@pytest.mark.parametrize("when", SAID)
@pytest.mark.parametrize("board_name", full.only(boards.names(), "an505", "an547"))
def test_an_interrupt_runs_another_model(board_name: str, when: str) -> None:
    board = load(board_name)
    sources = (*START, *COPYING, *SOURCES, *EXECUTOR, *generated())
    done = run(board, build(board, "preempt", sources, ("-Wl,--wrap=dtn_set_fetch_hooks",)), when)
    assert (done.status, done.output.splitlines()) == (0, list(SAID[when]))
