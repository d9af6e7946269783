"""The memories of a program."""

from dataclasses import replace

import pytest
from tests.graphs import random_graph
from tests.npu.neutron.machine.planned_programs import ENGINE
from tests.npu.neutron.microcode.programs import CONTAINER
from tests.planner.test_packing_multipart import CUT

from deuteron.npu.dataflow import Dataflow
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.kernels.processor import CALLS
from deuteron.npu.neutron.microcode.decode import Call, Fetch, Wait, decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.npu.neutron.program import NeutronProgram, program_in
from deuteron.npu.program import Memory
from deuteron.operators.program import Program
from deuteron.operators.regions import Region
from deuteron.planner import Plan, plan
from deuteron.planner.stripes import Cascade, cut_into_stripes


def test_weights_in_scratch_are_weights_of_the_call_that_reads_them() -> None:
    """The convolution's weights are fetched behind what scratch has, and nothing takes them for a result."""
    decoded = decode(CONTAINER)
    at, call = next((i, command) for i, command in enumerate(decoded.commands) if isinstance(command, Call))
    weights = call.operands[1]
    assert (at, weights.region) == (0, Region.WEIGHTS)
    fetch = Fetch(2, weights.offset, decoded.header.scratch_bytes, 48, region=Region.SCRATCH)
    there = replace(
        call, operands=(call.operands[0], replace(fetch.written, nbytes=weights.nbytes), *call.operands[2:])
    )
    header = replace(decoded.header, scratch_bytes=decoded.header.scratch_bytes + 48, minor=1)
    fetching = NeutronProgram(replace(decoded, header=header, commands=(fetch, Wait(2), there, *decoded.commands[1:])))
    linked = NeutronProgram(decoded)
    assert [command.weight_bytes for command in fetching.calls] == [command.weight_bytes for command in linked.calls]
    (scratch,), (before,) = (each.placements(each.traced()) for each in (fetching, linked))
    blocks = [block for block in scratch.memory.blocks if scratch.contents[block.name].what == "weights"]
    assert [(b.name, b.offset, b.nbytes, b.first, b.last) for b in blocks] == [
        ("weights 0 fetched at 0", 288, 48, 0, 2),
    ]
    assert scratch.contents["weights 0 fetched at 0"].commands == (2,)
    assert len(scratch.memory.blocks) == len(before.memory.blocks) + 1
    assert "0x120         48  0-2       weights+0x0" in "\n".join(fetching.lines("npu", ()))
    assert fetching.fetching(ENGINE) is not None
    assert linked.fetching(ENGINE) is None
    assert fetching.hazards(fetching.traced()) == ()


def test_weights_that_are_fetched_twice_are_each_of_the_call_that_reads_them() -> None:
    decoded = decode(CONTAINER)
    call = next(command for command in decoded.commands if isinstance(command, Call))
    fetch = Fetch(0, 0, 0, 32)
    reading = replace(call, operands=(call.operands[0], fetch.written, *call.operands[2:]))
    header = replace(decoded.header, prefetch_bytes=32)
    twice = NeutronProgram(replace(decoded, header=header, commands=(fetch, reading, fetch, reading)))
    area = twice.placements(twice.traced())[-1]
    assert [(block.first, area.contents[block.name].commands) for block in area.memory.blocks] == [(0, (1,)), (2, (3,))]


def scratch_of(program: Program, planned: Plan, values: Dataflow) -> Memory:
    """The scratch memory in the form of the views."""
    (scratch,) = program_in(encode(program, planned)).placements(values)
    return scratch.memory


def test_rows_that_begin_or_die_apart_are_blocks_of_their_own() -> None:
    assert CUT is not None
    planned = plan(CUT)
    blocks = scratch_of(CUT, planned, dataflow(CUT, planned.constants)).blocks
    at = {name: place.offset for name, place in planned.placements.items()}
    told = {n: [(b.offset - at[n], b.nbytes, b.first, b.last) for b in blocks if b.name == n] for n in ("a", "s")}
    assert told["a"] == [(0, 768, 0, 3), (768, 256, 0, 4), (1024, 1024, 0, 6)]
    assert told["s"] == [(0, 1024, 3, 7), (1024, 1024, 6, 7)]


def test_the_most_that_is_alive_is_a_bound_of_packings_where_rows_begin_and_die_apart() -> None:
    """Rows that grow where dead rows were are not alive with them, nor those of a stripe that are written later."""
    whole = select(optimise(random_graph(47, stock=True))).with_ends_placed
    program = cut_into_stripes(whole, (Cascade(0, 3, 1, True),), CALLS)
    assert program is not None
    planned = plan(program)
    recorded, traced = dataflow(program, planned.constants), program_in(encode(program, planned)).traced()
    assert planned.packing.bound == 864
    assert [scratch_of(program, planned, values).bound for values in (recorded, traced)] == [736, 736]


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_no_more_is_alive_than_a_plan_takes_at_least(seed: int) -> None:
    program = select(optimise(random_graph(seed, stock=True))).with_ends_placed
    planned = plan(program)
    memories = program_in(encode(program, planned)).placements(dataflow(program, planned.constants))
    assert all(placement.memory.bound <= planned.packing.bound for placement in memories)
