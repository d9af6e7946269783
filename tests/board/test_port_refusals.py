"""Programs that a board refuses before anything runs: of another version or converter, or with too little memory."""

import zlib
from dataclasses import replace

import numpy as np
import pytest
from tests import full
from tests.board import fetching
from tests.board.port_images import COPYING, EXECUTOR, START, build, generate, run

from deuteron.board.boards import Board, load, names
from deuteron.board.bundle import Bundle
from deuteron.npu.neutron.microcode import format as fmt
from deuteron.npu.neutron.microcode.format import Header


@pytest.fixture(scope="module", params=full.only(names(), "an547"))
def board(request: pytest.FixtureRequest) -> Board:
    return load(request.param)


@pytest.fixture(scope="module")
def program() -> Bundle:
    return fetching.bundle(np.random.default_rng(5))


def said(board: Board, program: Bundle, name: str) -> tuple[int, str]:
    """Exit status and console of the runner with this program."""
    semihost = ("semihost/main.c", "semihost/heap.c", "semihost/options.c")
    runner = ("runner/prepare.c", "runner/run.c", *semihost, "port/cortex_m/fetch.c")
    sources = (*START, *COPYING, *runner, *EXECUTOR, *generate(program, f"refused-{name}"))
    done = run(board, build(board, f"refused-{name}", sources))
    return done.status, done.output


def changed(program: Bundle, word: Header, value: int) -> Bundle:
    """The program with another header word in the last partition's microcode, whose checksum is right."""
    *others, last = program.delegates
    words = np.frombuffer(last.partition.blocks[0].data, "<u4").copy()
    words[word], words[Header.CRC] = value, 0
    words[Header.CRC] = zlib.crc32(words.tobytes())
    microcode = replace(last.partition.blocks[0], data=words.tobytes())
    partition = replace(last.partition, blocks=(microcode, *last.partition.blocks[1:]))
    return replace(program, delegates=(*others, replace(last, partition=partition)))


VERSION = "the microcode's format version is not one that this driver runs (reason 18, detail 0)"
MEMORY = "a memory given to the executor is smaller than the bundle needs (reason 71, detail 1)"
HEADERS = {
    "vendor": (
        Header.DEUTERON_MAGIC,
        0,
        "the microcode is another converter's: only Deuteron's runs on this driver (reason 17, detail 0)",
    ),
    "newer": (Header.VERSION, fmt.VERSION + 1, VERSION),
    "older": (Header.VERSION, fmt.VERSION - (1 << 16), VERSION),
    "scratch": (Header.SCRATCH_BYTES, 1 << 20, MEMORY),
}
"""Word of the header, what stands there, and the reason that the board gives."""


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_does_not_fit_the_driver(board: Board, program: Bundle, name: str) -> None:
    word, value, reason = HEADERS[name]
    assert said(board, changed(program, word, value), name) == (1, f"error: bundle version 3: {reason}\n")


def test_working_memory_that_is_too_small(board: Board, program: Bundle) -> None:
    tensors, working = program.memories
    small = replace(program, memories=(tensors, replace(working, bytes=working.bytes - 16)))
    assert said(board, small, "small") == (1, f"error: bundle version 3: {MEMORY}\n")
    assert said(board, program, "not") == (0, "")
