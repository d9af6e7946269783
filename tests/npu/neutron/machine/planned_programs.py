"""Programs for the simulator's tests: random graphs, planned with prefetch."""

import base64
from dataclasses import replace

from tests.graphs import random_graph

from deuteron.arch import targets
from deuteron.arch.engine import engine
from deuteron.arch.memory import FetchPolicy
from deuteron.errors import CapacityError
from deuteron.npu.neutron.ir.parser import parse_graph
from deuteron.npu.neutron.kernels.processor import NeutronProcessor
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators.program import Program
from deuteron.planner import Budget, Plan, plan, plan_within
from deuteron.planner.weight_chunks import chunks
from deuteron.planner.weight_residency import min_area
from deuteron.planner.weight_tiling import unshare_constants

ENGINE = engine(targets.load("imxrt700"), flash_bandwidth=100_000_000)
PROCESSOR = NeutronProcessor(ENGINE)


def random_program(seed: int) -> Program:
    """The kernel calls of a random graph."""
    return select(optimise(random_graph(seed)))


def attention(rows: int = 16, width: int = 32) -> Program:
    """One head of attention over so many rows, with tables between its layers: small weights, each read once."""
    matrices = [base64.b64encode(bytes([i]) * width * width).decode() for i in range(4)]
    entries = ",".join(str(entry // 2) for entry in range(-128, 128))
    constants = "".join(
        f'const %w{i}: i8[{width},{width}] q(0.01:0) = base64"{matrices[i]}"\nconst %b{i}: i32[{width}] q(0.0002:0) = '
        f"[{','.join('5' * width)}]\n"
        for i in range(4)
    )
    projections = "".join(
        f"%p{i}: i8[{rows},{width}] q(0.02:0) = fully_connected(%x, %w{i}, %b{i}) @[{i}]\n"
        f"%t{i}: i8[{rows},{width}] q(0.02:0) = lookup(%p{i}) entries=({entries}) @[{i}]\n"
        f"%s{i}: i8[1,{rows},{width}] q(0.02:0) = reshape(%t{i}) @[{i}]\n"
        for i in range(3)
    )
    text = f"""graph attention {{
      input %x: i8[{rows},{width}] q(0.02:0)
      {constants}{projections}%k: i8[1,{width},{rows}] q(0.02:0) = transpose(%s1) perm=(0,2,1) @[4]
      %m: i8[1,{rows},{rows}] q(0.05:0) = batch_mat_mul(%s0, %k) @[4]
      %n: i8[1,{rows},{rows}] q(0.05:0) = lookup(%m) entries=({entries}) @[4]
      %a: i8[1,{rows},{rows}] q(0.00390625:-128) = softmax(%n) beta=1.0 @[5]
      %c: i8[1,{rows},{width}] q(0.02:0) = batch_mat_mul(%a, %s2) @[6]
      %d: i8[{rows},{width}] q(0.02:0) = reshape(%c) @[6]
      %o: i8[{rows},{width}] q(0.02:0) = fully_connected(%d, %w3, %b3) @[7]
      output %o
    }}"""
    return select(optimise(parse_graph(text)))


def plan_or_least(program: Program, budget: Budget) -> tuple[Program, Plan]:
    """A plan within a budget, or in the least memory that the program needs."""
    try:
        return plan_within(program, budget)
    except CapacityError as error:
        return plan_within(program, replace(budget, sram=error.needed))


def fetching(program: Program, share: float) -> tuple[Program, Plan]:
    """A plan whose prefetch area has the minimum and `share` (0 to 1) of the range up to all weights."""
    linked = plan(program)
    least, most = min_area(chunks(unshare_constants(program))), len(linked.weights)
    area = least + round((most - least) * share)
    budget = Budget(PROCESSOR, linked.scratch_bytes + area, policy=FetchPolicy.ALWAYS)
    return plan_within(program, budget)
