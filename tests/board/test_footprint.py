"""The limits of `benches/footprint.py` and `benches/boards.py`, held in every test run for a model each."""

import pytest
from benches import boards as boards_bench
from benches import ethosu_boards, footprint
from benches.harness import table
from tests import full
from tests.board.conftest import Built

from deuteron.board import boards, image, library
from deuteron.board import toolchain as tools
from deuteron.board.toolchain import Toolchain
from deuteron.errors import CapacityError
from deuteron.npu.neutron.kernels.catalogue import KERNELS

pytestmark = pytest.mark.slow


def test_executor_and_driver_keep_to_their_limits(built: Built):
    result = footprint.measure(built("two"), Toolchain.find(image.OBJECTS))
    assert 3000 < result.core_code <= footprint.MAX_CODE
    assert 0 < result.core_ram <= footprint.MAX_RAM
    called = {kernel.name for kernel in image.called(image.bundle_of(built("two")))}
    assert set(result.saved) == {kernel.name for kernel in KERNELS} - called
    assert result.code_all - result.code_selected == pytest.approx(sum(result.saved.values()) + result.shared, abs=512)
    assert result.flash_all - result.flash_selected == pytest.approx(result.code_all - result.code_selected, abs=64)


@pytest.mark.full
def test_a_dma_takes_the_copies_off_the_core(built: Built):
    result = boards_bench.measure(built("resnet8"), boards.load("an505"), 1, Toolchain.find(image.OBJECTS))
    assert result.problems() == []
    assert [(copy.tensor, copy.bytes) for copy in result.copies] == [("input 0", 12288), ("output 0", 40)]
    assert result.copies[0].saved >= 0.9


def test_the_bench_tells_what_is_wrong():
    copies = (boards_bench.Copy("input 0", 4096, 1000, 101), boards_bench.Copy("output 0", 4095, 1000, 1000))
    bad = boards_bench.Result("m", "an505", "flash", False, False, 1, 0, 10, 9, copies)
    assert bad.problems() == [
        "m on an505: the outputs are not the host's",
        "m on an505: two runs count differently",
        "m on an505: the stack is deeper than its bound",
        "m on an505: input 0: only 89.9% fewer instructions",
    ]
    good = boards_bench.Result("m", "an547", "flash", True, True, 1, 0, 9, 9, copies[1:])
    assert good.problems() == []


def test_what_does_not_fit_is_a_row_with_its_bytes(monkeypatch: pytest.MonkeyPatch):
    def refused(*_: object) -> None:
        raise CapacityError("`m` does not fit `an547`: FLASH takes 9 bytes of 8", hint="take another board")

    monkeypatch.setattr(ethosu_boards.api, "build_model", lambda *_, **__: None)
    monkeypatch.setattr(ethosu_boards.boards, "measure", refused)
    row = ethosu_boards.measure("m", "ethos-u55-128", 1, Toolchain.find(image.OBJECTS))
    shown = table([{"model": "m", "target": "ethos-u55-128", **row}], ethosu_boards.COLUMNS)
    assert shown.rows[0][:4] == ("m", "ethos-u55-128", "`m` does not fit `an547`: FLASH takes 9 bytes of 8", "")


@pytest.mark.parametrize("name", full.only(boards.names(), "an505", "an547"))
def test_no_compiler_for_a_board_warns_of_anything(name: str):
    """All warnings are errors in tests (`tests/conftest.py`), whose images have most of these objects anyway."""
    assert {"-Wall", "-Wextra", "-Werror", "-Wconversion"} <= set(tools.FLAGS)
    board, toolchain = boards.load(name), Toolchain.find(image.OBJECTS)
    compiled = toolchain.compile(library.core(board), board.flags, library.FIRMWARE)
    assert len(compiled) == len(library.core(board))
    sources = (*library.port(board, dma=True, fetches=True), *library.runner())
    flags = (*board.flags, *library.port_flags(board))
    assert len(toolchain.compile(sources, flags, library.FIRMWARE)) == len(sources)
