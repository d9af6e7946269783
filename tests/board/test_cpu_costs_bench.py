"""The figures that estimate operators on the CPU, compared with counts on the emulated boards."""

import pytest
from benches import cpu_costs

from deuteron.arch import cores
from deuteron.board import boards, image
from deuteron.board.toolchain import Toolchain

pytestmark = pytest.mark.slow


@pytest.mark.full
@pytest.mark.parametrize("board", cpu_costs.BOARDS)
def test_estimates_are_near_the_counts_and_the_figures_are_what_the_bench_fits(board: str) -> None:
    machine = boards.load(board)
    results = cpu_costs.measure(machine, Toolchain.find(image.OBJECTS))
    assert {r.case: r.error for r in results if abs(r.error) > cpu_costs.WORST} == {}
    core = cores.load(machine.cpu)
    for _, work, numbers in cpu_costs.fitted(results, core.call.value):
        rate = core.rates[cores.Work(work)]
        stored = [rate.element.value, *([rate.term.value] if rate.term else [])]
        assert stored == pytest.approx([1000 * number for number in numbers], rel=0.05), work
