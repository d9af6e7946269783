"""The bar of `benches/cortex_m.py`, held in every test run: outputs, and instructions beside plain C."""

import pytest
from benches import cortex_m

from deuteron.board import boards, image
from deuteron.board.toolchain import Toolchain

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("board", cortex_m.BOARDS)
def test_layers_keep_to_their_bar(board: str) -> None:
    results = cortex_m.measure(boards.load(board), Toolchain.find(image.OBJECTS))
    assert [result.layer for result in results] == [layer.name for layer in cortex_m.LAYERS]
    assert cortex_m.problems(results) == []


def test_the_bench_tells_what_is_wrong() -> None:
    slow = cortex_m.Result("a layer", "an547", macs=100, instructions=900, cmsis_nn=1000, plain_c=1000, right=True)
    assert cortex_m.problems([slow]) == [
        "a layer on an547: 900 instructions, 850 are allowed",
        "an547: 0.900 of CMSIS-NN's instructions, 0.55 are allowed",
    ]
    uncounted = cortex_m.Result("a layer", "an547", macs=1, instructions=9, cmsis_nn=None, plain_c=None, right=True)
    assert uncounted.problems() == []
    result = cortex_m.Result("a layer", "an505", macs=100, instructions=1001, cmsis_nn=500, plain_c=1000, right=False)
    assert result.problems() == [
        "a layer on an505: the output is wrong",
        "a layer on an505: 1,001 instructions, 1,000 are allowed",
    ]
