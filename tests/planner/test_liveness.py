"""Live bytes while a chain runs in stripes: equal to those of the blocks of its calls."""

import pytest
from tests.graphs import random_graph
from tests.npu.neutron.machine.planned_programs import PROCESSOR
from tests.planner.test_depth_first import LATE, PROGRAM, SKIPS

from deuteron.arch.memory import Effort, FetchPolicy
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.processor import CALLS
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators.program import Program
from deuteron.planner import Budget, plan_within
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.liveness import ChainLiveness
from deuteron.planner.packing import pack
from deuteron.planner.stripes import Cascade, RowAnalysis, cut_into_stripes


def _alive(program: Program) -> int:
    """The most bytes in use during a call of a stripe."""
    blocks = lifetimes(program)
    return max(sum(block.live_bytes(at) for block in blocks) for at, call in enumerate(program.calls) if call.stripe)


def _random(seed: int) -> Program:
    return select(optimise(random_graph(seed, stock=True)))


@pytest.mark.parametrize(
    "seed", ["network", "skipping", "late", 8, 34, 39, 40, 54, 63, 67, 86, 91, 115, 121, 123, 191, 203, 845, 1204]
)
def test_it_is_what_the_calls_have_in_use(seed: int | str) -> None:
    """Joins whose parts come from different stripes, workspaces, rows that are kept, buffers that end in the chain.

    One network leaves out rows. In the other the first stripe needs the most memory, and its dead rows surround rows
    that nothing reads: no later value fits there.
    """
    networks = {"network": PROGRAM, "skipping": SKIPS, "late": select(parse_graph(LATE))}
    program = _random(seed) if isinstance(seed, int) else networks[seed]
    analysis, compared = RowAnalysis(program, CALLS), 0
    for first in range(len(program.calls)):
        for last in range(first + 2, len(program.calls) + 1):
            chain = analysis.chain(first, last)
            for height in range(1, 0 if chain is None else chain.count):
                for cache_halo in (False, True):
                    pieces = cut_into_stripes(program, (Cascade(first, last, height, cache_halo),), CALLS)
                    if chain is not None and pieces is not None:
                        alive = ChainLiveness(program, chain, CALLS)
                        sets = chain.stripes(height, cache_halo=cache_halo)
                        peak, in_use = alive.peak(sets), _alive(pieces)
                        assert peak == in_use or (seed == "late" and in_use < peak <= pack(lifetimes(pieces)).nbytes)
                        assert alive.sampled_peak(sets) <= alive.peak(sets)
                        compared += 1
    assert compared


@pytest.mark.parametrize("effort", Effort)
@pytest.mark.parametrize(("seed", "sram", "cycles"), [(845, 571, 5_802), (1204, 2_473, 4_825)])
def test_no_bound_counts_bytes_that_are_not_in_use(seed: int, sram: int, cycles: int, effort: Effort) -> None:
    planned = plan_within(_random(seed), Budget(PROCESSOR, sram, policy=FetchPolicy.AUTO, effort=effort))[1]
    assert planned.cycles_bound <= cycles  # those of a cut that fits
    assert planned.cycles_bound <= planned.planned_cycles
