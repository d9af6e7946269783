"""Orders of calls: what they compute stays the same, and the peak is the lowest that any order has."""

import random
from itertools import permutations

import numpy as np
from tests.graphs import random_graph, random_inputs

from deuteron.npu.neutron.convert import convert_graph
from deuteron.npu.neutron.ir import interpret
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.passes.kernel_selection import select
from deuteron.npu.neutron.passes.pipeline import optimise
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.planner import call_order, reorder_calls
from deuteron.planner.lifetimes import lifetimes
from deuteron.planner.packing import max_live
from deuteron.runtime.driver import Driver


def call(target: str, source: str, sizes: dict[str, int]) -> KernelCall:
    """A call that reads a buffer and writes one."""
    params = p.CopyParams(0, (1, 1, 1, 1, 1, 1), (0, 0, 0, 0, 0, 1), (0, 0, 0, 0, 0, 1))
    return KernelCall(catalogue.COPY, (Ref(source, 0, sizes[source]), Ref(target, 0, sizes[target])), params, (0,))


def add(target: str, a: str, b: str, sizes: dict[str, int]) -> KernelCall:
    """A call that reads two buffers, and may write onto either where it is as large as what it writes."""
    strides = (0, 0, 0, 0, 1)
    size = sizes[target]
    params = p.AddParams((1, 1, 1, 1, size), strides, strides, 0, 0, 1 << 30, 1 << 30, 31, 0, -128, 127)
    return KernelCall(catalogue.ADD, tuple(Ref(name, 0, sizes[name]) for name in (a, b, target)), params, (0,))


def program_of(calls: list[KernelCall], sizes: dict[str, int]) -> Program:
    return Program(tuple(Buffer(*item) for item in sizes.items()), ("in",), ("out",), tuple(calls))


def peak(program: Program) -> int:
    return max_live(lifetimes(program))


def sources(program: Program) -> dict[int, list[object]]:
    """For each call, by identity, which calls wrote the bytes that it reads."""
    wrote: dict[str, list[int]] = {buffer.name: [0] * buffer.nbytes for buffer in program.buffers}
    found: dict[int, list[object]] = {}
    for each in program.calls:
        outputs = len(each.kernel.reads)
        found[id(each)] = [wrote[r.buffer][r.offset : r.offset + r.nbytes] for r in each.operands[:outputs]]
        for ref in each.operands[outputs:]:
            wrote[ref.buffer][ref.offset : ref.offset + ref.nbytes] = [id(each)] * ref.nbytes
    return found


SIZES = {"in": 64, "big a": 1600, "big b": 1600, "small a": 32, "small b": 32, "out": 32}
BRANCHES = program_of(
    [
        call("big a", "in", SIZES),
        call("big b", "in", SIZES),
        call("small a", "big a", SIZES),
        call("small b", "big b", SIZES),
        add("out", "small a", "small b", SIZES),
    ],
    SIZES,
)


def test_one_branch_ends_before_the_other_begins() -> None:
    ordered = reorder_calls(BRANCHES)
    assert (peak(BRANCHES), peak(ordered)) == (3232, 1664)
    assert [each.operands[-1].buffer for each in ordered.calls] == ["big a", "small a", "big b", "small b", "out"]
    assert sources(ordered) == sources(BRANCHES)


def test_an_order_that_needs_no_more_than_one_call_is_kept() -> None:
    chain = program_of([call("big a", "in", SIZES), call("out", "big a", SIZES)], SIZES)
    assert reorder_calls(chain) is chain


def test_a_value_is_not_written_over_before_it_is_read() -> None:
    sizes = {"in": 64, "a": 160, "b": 1600, "c": 16, "out": 16}
    calls = [
        call("a", "in", sizes),
        call("b", "a", sizes),
        call("a", "b", sizes),
        call("c", "a", sizes),
        call("out", "c", sizes),
    ]
    assert reorder_calls(program_of(calls, sizes)).calls == tuple(calls)


def random_program(seed: int) -> Program:
    """Six calls that read one or two of the buffers before them."""
    choose = random.Random(seed)
    sizes = {"in": 16}
    calls = []
    for index in range(6):
        name = "out" if index == 5 else f"b{index}"
        sizes[name] = choose.choice((16, 32, 320, 480))
        like = [other for other in sizes if other not in {name, "in"} and sizes[other] == sizes[name]]
        if len(like) > 1:
            calls.append(add(name, *choose.sample(like, 2), sizes))
        else:
            calls.append(call(name, choose.choice([*sizes][:-1]), sizes))
    return program_of(calls, sizes)


def test_no_order_needs_less() -> None:
    better = 0
    for seed in range(60):
        program = random_program(seed)
        computed = sources(program)
        lowest = peak(program)
        for calls in permutations(program.calls):
            other = Program(program.buffers, program.inputs, program.outputs, calls)
            if sources(other) == computed:
                lowest = min(lowest, peak(other))
        ordered = reorder_calls(program)
        assert sources(ordered) == computed
        assert peak(ordered) == lowest, seed
        better += lowest < peak(program)
    assert better >= 5


def test_random_graphs_need_less_and_compute_the_same() -> None:
    driver = Driver()
    better = 0
    for seed in range(120):
        graph = random_graph(seed)
        program = select(optimise(graph))
        ordered = reorder_calls(program)
        assert sources(ordered) == sources(program)
        assert peak(ordered) <= peak(program)
        if peak(ordered) < peak(program):
            better += 1
            values = random_inputs(graph, seed)
            conversion = convert_graph(graph, tuple(str(i) for i in range(1000)))
            assert conversion.container is not None
            outputs = driver.run(conversion.container, [np.ascontiguousarray(value).tobytes() for value in values])
            expected = interpret.run(graph, values)
            assert outputs == [expected[name].tobytes() for name in graph.outputs]
    assert better > 0


def test_wide_programs_keep_to_the_width(monkeypatch) -> None:
    sizes = {"in": 64, **{f"big{i}": 1600 for i in range(8)}, **{f"small{i}": 32 for i in range(8)}, "out": 32}
    calls = [call(f"big{i}", "in", sizes) for i in range(8)]
    calls += [call(f"small{i}", f"big{i}", sizes) for i in range(8)]
    calls.append(call("out", "small0", sizes))
    monkeypatch.setattr(call_order, "WIDTH", 4)
    ordered = reorder_calls(program_of(calls, sizes))
    assert peak(ordered) <= 1600 + 8 * 32
