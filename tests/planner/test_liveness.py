"""What is alive while a chain runs in stripes: what the blocks of the calls say that are written for it."""

import pytest
from tests.graphs import random_graph
from tests.npu.neutron.machine.plans import ENGINE
from tests.planner.test_depth_first import LATE, PROGRAM, SKIPS

from deuteron.arch.memory import Effort, FetchPolicy
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.program import Program
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.planner import Budget, plan_within
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.liveness import Alive
from deuteron.planner.packing import place
from deuteron.planner.processor_model import NEUTRON
from deuteron.planner.stripes import Cascade, Rowed, striped


def _alive(program: Program) -> int:
    """The most bytes in use during a call of a stripe."""
    blocks = lifetimes(program)
    return max(sum(block.alive(at) for block in blocks) for at, call in enumerate(program.calls) if call.stripe)


def _random(seed: int) -> Program:
    return select(optimise(random_graph(seed, stock=True)))


@pytest.mark.parametrize(
    "seed", ["network", "skipping", "late", 8, 34, 39, 40, 54, 63, 67, 86, 91, 115, 121, 123, 191, 203, 845, 1204]
)
def test_it_is_what_the_calls_have_in_use(seed: int | str) -> None:
    """Joins whose parts come from different stripes, workspaces, rows that are kept, buffers that end in the chain.

    Of the networks one leaves out rows, of the other the first stripe needs the most, and between its rows that die
    are some that nothing reads: what is left behind does not fit there.
    """
    networks = {"network": PROGRAM, "skipping": SKIPS, "late": select(parse_graph(LATE))}
    program = _random(seed) if isinstance(seed, int) else networks[seed]
    rowed, compared = Rowed(program), 0
    for first in range(len(program.calls)):
        for last in range(first + 2, len(program.calls) + 1):
            chain = rowed.chain(first, last)
            for height in range(1, 0 if chain is None else chain.count):
                for keeps in (False, True):
                    pieces = striped(program, (Cascade(first, last, height, keeps),))
                    if chain is not None and pieces is not None:
                        alive = Alive(program, chain, NEUTRON)
                        sets = chain.stripes(height, keeps=keeps)
                        peak, in_use = alive.peak(sets), _alive(pieces)
                        assert peak == in_use or (seed == "late" and in_use < peak <= place(lifetimes(pieces)).nbytes)
                        assert alive.sampled(sets) <= alive.peak(sets)
                        compared += 1
    assert compared


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize(("seed", "sram", "cycles"), [(845, 571, 5_802), (1204, 2_473, 4_825)])
def test_no_bound_counts_bytes_that_are_not_in_use(seed: int, sram: int, cycles: int, effort: Effort) -> None:
    planned = plan_within(_random(seed), Budget(ENGINE, sram, policy=FetchPolicy.AUTO, effort=effort))[1]
    assert planned.cycles_bound <= cycles  # those of a cut that fits
    assert planned.cycles_bound <= planned.planned_cycles
