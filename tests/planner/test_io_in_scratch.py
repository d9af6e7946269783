"""Inputs and outputs of a program in its scratch memory."""

from dataclasses import replace

import pytest
from tests.graphs import random_graph, random_inputs
from tests.npu.neutron.machine.planned_programs import PROCESSOR

from deuteron.arch.memory import DepthFirst
from deuteron.errors import InternalError
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.machine import hazards
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.operators.regions import Place, Region
from deuteron.planner import Budget, check, plan, plan_within
from deuteron.planner.lifetimes import live_ranges
from deuteron.runtime.driver import Driver


def _lut(source: str, target: str) -> KernelCall:
    refs = (Ref(source, 0, 100), Ref("table", 0, 256), Ref(target, 0, 100))
    return KernelCall(catalogue.LUT, refs, p.LutParams(100), (0,))


PROGRAM = Program(
    (Buffer("table", 256, bytes(range(256))), *(Buffer(name, 100) for name in ("in", "mid", "out", "side"))),
    ("in",),
    ("out", "side"),
    (_lut("in", "mid"), _lut("in", "side"), _lut("mid", "out")),
)
"""Reads its input twice and writes two outputs."""


def test_an_input_lives_until_it_was_read_and_an_output_from_when_it_is_written() -> None:
    placed = PROGRAM.with_ends_placed
    assert placed.placed == {"in", "out", "side"}
    assert live_ranges(PROGRAM) == {"mid": (0, 2)}
    assert live_ranges(placed) == {"in": (0, 1), "mid": (0, 2), "side": (1, 2), "out": (2, 2)}
    planned = plan(placed)
    check(placed, planned)
    assert sorted(block.buffers for block in planned.lifetimes) == [("in", "side"), ("mid", "out")]
    assert planned.scratch_bytes == 224
    assert planned.ends == {name: planned.ends[name] for name in ("in", "side", "out")}
    assert planned.ends["in"] == planned.ends["side"] != planned.ends["out"]
    assert planned.placements["in"] == Place(Region.INPUT, 0, 0, 100)
    assert planned.place_of("in") == Place(Region.SCRATCH, 0, planned.ends["in"], 100)
    assert plan(PROGRAM).ends == {}
    assert plan(PROGRAM).scratch_bytes == 112


def test_nothing_is_written_onto_an_output_that_the_last_call_reads() -> None:
    program = replace(PROGRAM, outputs=("mid", "out"), calls=(PROGRAM.calls[0], PROGRAM.calls[2])).with_ends_placed
    planned = plan(program)
    check(program, planned)
    assert sorted(block.buffers for block in planned.lifetimes) == [("in", "mid"), ("out",)]
    assert hazards(decode(encode(program, planned)), dataflow(program, planned.constants)) == ()


def test_the_check_finds_an_end_over_another_buffer() -> None:
    placed = PROGRAM.with_ends_placed
    planned = plan(placed)
    over = replace(planned, ends={**planned.ends, "side": planned.ends["out"]})
    with pytest.raises(InternalError, match="buffers `mid` and `side` overlap while both are in use"):
        check(placed, over)
    outside = replace(planned, ends={**planned.ends, "in": 160})
    with pytest.raises(InternalError, match="`in` of 100 bytes has no valid place in scratch of 224 bytes"):
        check(placed, outside)


def test_what_is_input_and_output_or_a_constant_stays_elsewhere() -> None:
    program = replace(PROGRAM, inputs=("in", "out"), outputs=("out", "side", "table"))
    assert program.with_ends_placed.placed == {"in", "side"}


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_compute_the_same_with_their_ends_in_scratch(seed: int) -> None:
    graph = random_graph(seed)
    program = select(optimise(graph))
    if not program.calls:
        return
    placed = program.with_ends_placed
    planned = plan(placed)
    check(placed, planned)
    container = encode(placed, planned)
    decoded = decode(container)
    assert hazards(decoded, dataflow(placed, planned.constants)) == ()
    assert decoded.header.minor == (2 if placed.placed else 0)
    inputs = [values.tobytes() for values in random_inputs(graph, seed)]
    assert Driver().run(container, inputs) == Driver().run(encode(program, plan(program)), inputs)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_in_stripes_with_their_ends_in_scratch(seed: int) -> None:
    program = select(optimise(random_graph(seed))).with_ends_placed
    if program.calls:
        pieces, planned = plan_within(program, Budget(PROCESSOR, 1 << 20, depth_first=DepthFirst.ALWAYS))
        check(pieces, planned)
        assert pieces.placed == program.placed
        assert hazards(decode(encode(pieces, planned)), dataflow(pieces, planned.constants)) == ()
