"""An application without spare memory: an image for each board with two programs."""

import numpy as np
import pytest
from tests import full
from tests.board import fetching
from tests.board.port_images import BUILD, EXECUTOR, FIRMWARE, START, build, generate, run

from deuteron.board import boards
from deuteron.board.boards import load
from deuteron.board.emit import EmitOptions
from deuteron.board.toolchain import Source

STEPS = 16
"""Four rounds of a program of four steps."""
SAID = f"reason 0, right 4, other 4, steps {STEPS}; aborted by reason 81, then reason 0, right; by the chip's CRC\n"


@pytest.mark.parametrize("board_name", full.only(boards.names(), "an505", "an547"))
def test_two_programs_share_memory_and_take_the_callers_buffers(board_name: str) -> None:
    board = load(board_name)
    rng = np.random.default_rng(3)
    main = generate(fetching.bundle(rng), "integrate")
    plain = generate(fetching.without_fetches(rng), "integrate-plain", EmitOptions(symbol="plain"))
    headers = tuple(f"-I{BUILD / name}" for name in ("integrate", "integrate-plain"))
    application = Source("test.integrate", FIRMWARE / "tests/board/integrate.c", (), headers)
    sources = (*START, "src/io/io_copy.c", *EXECUTOR, application, *main, *plain[:2])
    done = run(board, build(board, "integrate", sources), "now")
    assert (done.status, done.output) == (0, SAID)
