"""Programs for the simulator's tests: random graphs, planned with prefetch."""

from tests.graphs import random_graph

from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.memory import FetchPolicy
from deuteron.npu.neutron.kernels.program import Program
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.npu.neutron.passes.select import select
from deuteron.npu.neutron.plan import Budget, Plan, plan, plan_within
from deuteron.npu.neutron.plan.chunks import chunks
from deuteron.npu.neutron.plan.prefetch import least_area
from deuteron.npu.neutron.plan.slices import unshared

ENGINE = engine(targets.load("imxrt700"), flash_bandwidth=100_000_000)


def random_program(seed: int) -> Program:
    """The kernel calls of a random graph."""
    return select(optimise(random_graph(seed)))


def fetching(program: Program, share: float) -> tuple[Program, Plan]:
    """A plan whose prefetch area has `share` (0 to 1) of what lies between the least and all weights."""
    linked = plan(program)
    least, most = least_area(chunks(unshared(program))), len(linked.weights)
    area = least + round((most - least) * share)
    budget = Budget(ENGINE, linked.scratch_bytes + area, policy=FetchPolicy.ALWAYS)
    return plan_within(program, budget)
