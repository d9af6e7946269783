"""Models that fit a board and models that do not: the memories of weights and arenas, and the error's advice."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.board import fetching, programs

from deuteron.board import boards, image
from deuteron.board.bundle import Bundle, ElementType, Memory, Value
from deuteron.board.emit import EmitOptions, Placement
from deuteron.board.firmware_record import FirmwareOptions, Weights
from deuteron.board.link import link
from deuteron.board.toolchain import Toolchain
from deuteron.errors import CapacityError

pytestmark = pytest.mark.slow

BOARD = boards.load("an505")


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        (
            Weights.AUTO,
            "`large` does not fit the board `an505`:\n  EXT required: 20,000,016 B of 16,777,216 B\n  weights and "
            "constants need 0 B, arenas 20,000,016 B, the stack 8,192 B\n\nhint: use a board with more memory, or make "
            "the model smaller",
        ),
        (
            Weights.SRAM,
            "`large` does not fit the board `an505`:\n  EXT required: 20,000,016 B of 16,777,216 B\n  weights and "
            "constants need 0 B, arenas 20,000,016 B, the stack 8,192 B\n\nhint: try `--weights auto`, use a board "
            "with more memory, or make the model smaller",
        ),
    ],
)
def test_what_does_not_fit_says_how_much_is_needed(weights: Weights, error: str, tmp_path: Path):
    memories = (Memory(20_000_000, "an arena"), Memory(16, "working memory"))
    bundle = Bundle("large", (), (), (), (), memories, (), (), ())
    with pytest.raises(CapacityError) as caught:
        link(bundle, BOARD, FirmwareOptions(weights=weights), (), Toolchain.find(image.OBJECTS), tmp_path)
    assert str(caught.value) == error


def test_a_stack_that_alone_is_too_large_is_named(tmp_path: Path):
    bundle = Bundle("small", (), (), (), (), (Memory(16, "an arena"), Memory(16, "working memory")), (), (), ())
    options = FirmwareOptions(stack=4 << 20)
    with pytest.raises(CapacityError, match=r", the stack 4,194,304 B\n\nhint: reserve less stack with `--stack`, "):
        link(bundle, BOARD, options, (), Toolchain.find(image.OBJECTS), tmp_path)


@pytest.mark.full
def test_a_budget_for_the_boards_sram_lets_a_program_fit(tmp_path: Path):
    """A build for more SRAM than the board has takes external memory for its arenas, which then lacks for weights."""
    rng = np.random.default_rng(3)
    layers = fetching.Layer.random(rng), fetching.Layer.random(rng)

    def try_budget(budget: int) -> EmitOptions:
        working = budget - 4096
        container = fetching.double(
            *layers, overlapped=True, prefetch_bytes=(working - fetching.TENSOR_BYTES) // 16 * 16
        )
        memories = (Memory(4096, "an arena"), Memory(working + 256, "working memory"))
        constants = (bytes(12_000_000),)
        bundle = Bundle("large", (), (), (), (), memories, (), constants, (programs.delegate(container),))
        return link(bundle, BOARD, FirmwareOptions(), (), Toolchain.find(image.OBJECTS), tmp_path).placement

    with pytest.raises(CapacityError) as caught:
        try_budget(6 << 20)
    weights = 12_000_000 + 2 * len(layers[0].image)
    arenas = (6 << 20) + 256
    assert caught.value.message == (
        f"`large` does not fit the board `an505`:\n  EXT required: {weights + arenas:,} B of 16,777,216 B\n  weights "
        f"and constants need {weights:,} B, arenas {arenas:,} B, the stack 8,192 B"
    )
    hint = re.fullmatch(
        "build it for the SRAM of this board with `deuteron build ... --sram-budget ([0-9]+)Ki`, use a board with more "
        "memory, or make the model smaller",
        caught.value.hint or "",
    )
    assert hint
    assert try_budget(int(hint[1]) << 10) == EmitOptions(weights=Placement.EXTERNAL, arenas=Placement.SRAM)
    assert try_budget((int(hint[1]) + 1) << 10).arenas is Placement.EXTERNAL


def test_arenas_leave_room_for_the_buffers_of_the_runner(tmp_path: Path):
    memories = (Memory(4_100_000, "an arena"), Memory(16, "working memory"))
    value = Value(0, 0, 100_000, ElementType.S8, (100_000,), (0,), "x")
    bundle = Bundle("large", (value,), (), (0,), (), memories, (), (), ())
    linked = link(bundle, BOARD, FirmwareOptions(), (), Toolchain.find(image.OBJECTS), tmp_path)
    assert linked.placement.arenas is Placement.EXTERNAL
    smaller = replace(bundle, values=(replace(value, bytes=50_000, shape=(50_000,)),))
    linked = link(smaller, BOARD, FirmwareOptions(), (), Toolchain.find(image.OBJECTS), tmp_path)
    assert linked.placement.arenas is Placement.SRAM


def test_arenas_that_do_not_fit_the_sram_lie_in_external_memory(tmp_path: Path):
    memories = (Memory(5_000_000, "an arena"), Memory(16, "working memory"))
    bundle = Bundle("large", (), (), (), (), memories, (), (), ())
    linked = link(bundle, BOARD, FirmwareOptions(), (), Toolchain.find(image.OBJECTS), tmp_path)
    assert linked.placement == EmitOptions(weights=Placement.FLASH, arenas=Placement.EXTERNAL)
