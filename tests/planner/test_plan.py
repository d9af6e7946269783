"""Plans: no two live buffers overlap, in-place writes share, and the checker notices when not."""

from dataclasses import replace

import pytest
from tests.graphs import random_graph
from tests.npu.neutron.machine.planned_programs import PROCESSOR

from deuteron.arch.memory import FetchPolicy
from deuteron.errors import InternalError
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.operators.regions import Region
from deuteron.planner import Budget, check, plan, plan_within
from deuteron.planner.lifetimes import lifetimes

TABLE = Buffer("table", 256, bytes(range(256)))


def _whole(name: str, size: int) -> Ref:
    return Ref(name, 0, size)


def _lut(source: str, target: str, size: int) -> KernelCall:
    operands = (_whole(source, size), _whole("table", 256), _whole(target, size))
    return KernelCall(catalogue.LUT, operands, p.LutParams(size), (0,))


def _add(a: str, b: str, target: str, size: int, b_stride: int = 1) -> KernelCall:
    params = p.AddParams(
        (1, 1, 1, 1, size), (0, 0, 0, 0, 1), (0, 0, 0, 0, b_stride), 0, 0, 1 << 30, 1 << 30, 31, 0, -128, 127
    )
    b_size = size if b_stride else 1
    return KernelCall(catalogue.ADD, (_whole(a, size), _whole(b, b_size), _whole(target, size)), params, (0,))


def _program(*calls: KernelCall, sizes: dict[str, int]) -> Program:
    buffers = (TABLE, *(Buffer(name, size) for name, size in sizes.items()))
    return Program(buffers, ("in",), ("out",), calls)


def test_a_chain_of_tables_runs_in_place() -> None:
    program = _program(
        _lut("in", "a", 100), _lut("a", "b", 100), _lut("b", "c", 100), _lut("c", "out", 100),
        sizes={"in": 100, "a": 100, "b": 100, "c": 100, "out": 100},
    )  # fmt: skip
    planned = plan(program)
    check(program, planned)
    assert [(block.buffers, block.first, block.last) for block in planned.lifetimes] == [(("a", "b", "c"), 0, 3)]
    assert planned.scratch_bytes == 112


def test_a_value_that_is_read_later_is_not_written_over() -> None:
    program = _program(
        _lut("in", "a", 100), _lut("a", "b", 100), _add("a", "b", "out", 100),
        sizes={"in": 100, "a": 100, "b": 100, "out": 100},
    )  # fmt: skip
    planned = plan(program)
    check(program, planned)
    assert [block.buffers for block in planned.lifetimes] == [("a",), ("b",)]
    assert planned.scratch_bytes == 224


def test_a_sum_with_itself_runs_in_place_but_not_onto_a_repeated_input() -> None:
    twice = _program(
        _lut("in", "a", 64),
        _add("a", "a", "b", 64),
        _lut("b", "out", 64),
        sizes={"in": 64, "a": 64, "b": 64, "out": 64},
    )
    assert [block.buffers for block in lifetimes(twice)] == [("a", "b")]
    call = _add("a", "a", "b", 64, b_stride=0)  # reads all of `a` and again its first byte, for each element
    repeated = replace(twice, calls=(twice.calls[0], call, twice.calls[2]))
    assert [block.buffers for block in lifetimes(repeated)] == [("a",), ("b",)]


def test_constants_lie_in_order_of_first_use_and_aligned() -> None:
    first, second, unused = (
        Buffer(n, s, bytes([s % 251]) * s) for n, s in (("first", 256), ("second", 5), ("unused", 9))
    )
    fill = KernelCall(catalogue.COPY, (_whole("second", 5), _whole("out", 5)), _copy(5), (0,))
    lut = KernelCall(catalogue.LUT, (_whole("in", 5), _whole("first", 256), _whole("out", 5)), p.LutParams(5), (0,))
    again = replace(lut, operands=(_whole("second", 5), *lut.operands[1:]))
    program = Program((unused, first, second, Buffer("in", 5), Buffer("out", 5)), ("in",), ("out",), (fill, lut, again))
    planned = plan(program)
    assert planned.weights == bytes([5] * 5 + [0] * 11) + bytes([5] * 256)
    assert (planned.placements["second"].offset, planned.placements["first"].offset) == (0, 16)
    assert "unused" not in planned.placements
    assert planned.scratch_bytes == 0


def _copy(size: int) -> p.CopyParams:
    return p.CopyParams(0, (1, 1, 1, 1, 1, size), (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 1))


def test_a_program_without_constants_has_the_least_weights_image() -> None:
    call = KernelCall(catalogue.COPY, (_whole("in", 5), _whole("out", 5)), _copy(5), (0,))
    assert plan(Program((Buffer("in", 5), Buffer("out", 5)), ("in",), ("out",), (call,))).weights == bytes(16)


def test_inputs_and_outputs_are_regions_of_their_own() -> None:
    program = _program(_lut("in", "out", 8), sizes={"in": 8, "out": 8})
    placements = plan(program).placements
    assert (placements["in"].region, placements["in"].index) == (Region.INPUT, 0)
    assert (placements["out"].region, placements["out"].index) == (Region.OUTPUT, 0)


def test_random_programs_have_valid_plans_that_reuse_memory() -> None:
    peak = total = shared = 0
    for seed in range(150):
        program = select(optimise(random_graph(seed)))
        planned = plan(program)
        check(program, planned)
        peak += planned.scratch_bytes
        total += sum(block.nbytes for block in planned.lifetimes)
        shared += sum(len(block.buffers) > 1 for block in planned.lifetimes)
    assert peak < 0.8 * total
    assert shared > 20


def test_the_checker_finds_an_overlap() -> None:
    program = _program(
        _lut("in", "a", 100), _lut("a", "b", 100), _add("a", "b", "out", 100),
        sizes={"in": 100, "a": 100, "b": 100, "out": 100},
    )  # fmt: skip
    planned = plan(program)
    moved = {**planned.placements, "b": planned.placements["a"]}
    with pytest.raises(InternalError, match="buffers `a` and `b` overlap while both are in use"):
        check(program, replace(planned, placements=moved))


def test_the_checker_finds_a_buffer_outside_scratch() -> None:
    program = _program(
        _lut("in", "a", 100), _lut("a", "out", 100), sizes={"in": 100, "a": 100, "out": 100}
    )  # fmt: skip
    planned = plan(program)
    with pytest.raises(InternalError, match="buffer `a` of 100 bytes has no valid place in scratch"):
        check(program, replace(planned, scratch_bytes=96))


def test_the_checker_knows_what_may_be_written_in_place() -> None:
    """Whatever a plan says of its blocks: a sum may not be written onto an input that it reads again and again."""
    call = _add("a", "a", "b", 64, b_stride=0)
    program = _program(
        _lut("in", "a", 64), call, _lut("b", "out", 64), sizes={"in": 64, "a": 64, "b": 64, "out": 64}
    )  # fmt: skip
    planned = plan(program)
    lied = replace(planned.lifetimes[0], buffers=("a", "b"))
    moved = {**planned.placements, "b": planned.placements["a"]}
    with pytest.raises(InternalError, match="buffers `a` and `b` overlap while both are in use"):
        check(program, replace(planned, placements=moved, lifetimes=(lied,)))


@pytest.mark.parametrize("offset", [-16, 8, 16])
@pytest.mark.parametrize("policy", [FetchPolicy.NEVER, FetchPolicy.ALWAYS])
def test_the_checker_finds_a_constant_outside_its_memory(policy: FetchPolicy, offset: int) -> None:
    program = _program(_lut("in", "out", 100), sizes={"in": 100, "out": 100})
    program, planned = plan_within(program, Budget(PROCESSOR, 256, policy=policy))
    check(program, planned)
    moved = {**planned.placements, "table": replace(planned.placements["table"], offset=offset)}
    memory = "weights" if policy is FetchPolicy.NEVER else "prefetch"
    with pytest.raises(
        InternalError, match=f"constant `table` of 256 bytes has no valid place in {memory} of 256 bytes"
    ):
        check(program, replace(planned, placements=moved))


def test_the_checker_finds_two_buffers_of_one_name() -> None:
    program = _program(_lut("in", "out", 100), sizes={"in": 100, "out": 100})
    twice = replace(program, buffers=(*program.buffers, TABLE))
    with pytest.raises(InternalError, match="several buffers are called `table`"):
        check(twice, plan(twice))
