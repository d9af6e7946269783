"""Cut programs: each piece has separate constants with unique names, and computes the same bytes."""

from dataclasses import replace

import numpy as np
import pytest
from tests import full
from tests.npu.neutron.machine.planned_programs import PROCESSOR

from deuteron.arch.memory import FetchPolicy
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.planner import Budget, check, plan, plan_within
from deuteron.planner.weight_chunks import chunks
from deuteron.planner.weight_tiling import tile, unshare_constants
from deuteron.runtime.driver import Driver

WIDTH, LAYERS = 64, 6
ROW = (1 << 30).to_bytes(4, "little") + (36).to_bytes(4, "little")


def _bytes(seed: int, count: int) -> bytes:
    return np.random.default_rng(seed).integers(-100, 100, count).astype(np.int8).tobytes()


def _layers(*, share: bool, factors: int, table: str = "table") -> Program:
    """Layers with weights of their own and equal zero biases and factors, shared or not, and a table at the end."""
    names = ["in", *(f"h{i}" for i in range(LAYERS)), "out"]
    buffers = {name: Buffer(name, WIDTH) for name in names}
    calls: list[KernelCall] = []
    for i in range(LAYERS):
        bias, row = (f"{kind}{0 if share else i}" for kind in "br")
        constants = {f"w{i}": _bytes(i, WIDTH * WIDTH), bias: bytes(4 * WIDTH), row: ROW * factors}
        buffers |= {name: Buffer(name, len(data), data) for name, data in constants.items()}
        refs = (Ref(name, 0, len(data)) for name, data in constants.items())
        params = p.FullyConnectedParams(1, WIDTH, WIDTH, factors, 0, 0, -128, 127)
        operands = (Ref(names[i], 0, WIDTH), *refs, Ref(names[i + 1], 0, WIDTH))
        calls.append(KernelCall(catalogue.FULLY_CONNECTED, operands, params, (i,)))
    data = _bytes(99, 256)
    buffers[table] = Buffer(table, 256, data)
    operands = (Ref(names[-2], 0, WIDTH), Ref(table, 0, 256), Ref("out", 0, WIDTH))
    calls.append(KernelCall(catalogue.LUT, operands, p.LutParams(WIDTH), (LAYERS,)))
    return Program(tuple(buffers.values()), ("in",), ("out",), tuple(calls))


@pytest.mark.parametrize("factors", full.first([1, WIDTH], 1))
def test_constants_that_layers_share_cost_a_plan_nothing(factors: int) -> None:
    """As fast, in the same pieces and in as little, as where each layer has its own."""
    cycles: dict[bool, list[int]] = {}
    for share in (False, True):
        program = _layers(share=share, factors=factors)
        pieces = tile(unshare_constants(program), 0).program
        assert len(pieces.calls) == LAYERS * WIDTH // 16 + 1
        assert all(chunk.first == chunk.last for chunk in chunks(pieces))
        budgets = [Budget(PROCESSOR, area + 2 * WIDTH, policy=FetchPolicy.ALWAYS) for area in (2_000, 10_000, 13_000)]
        plans = [plan_within(program, budget)[1] for budget in budgets]
        cycles[share] = [planned.prefetch.schedule.cycles for planned in plans if planned.prefetch]
    assert cycles[True] == cycles[False]
    assert len(cycles[True]) == 3


def test_shared_constants_stay_shared_where_all_fit() -> None:
    program = _layers(share=True, factors=1)
    linked = plan(program)
    budget = Budget(PROCESSOR, linked.scratch_bytes + len(linked.weights), policy=FetchPolicy.ALWAYS)
    pieces, planned = plan_within(program, budget)
    assert (pieces, planned.prefetch_bytes) == (program, len(linked.weights))


def test_filters_that_two_layers_have_stay_one() -> None:
    program = _layers(share=True, factors=1)
    first, second, *rest = program.calls
    operands = (second.operands[0], first.operands[1], *second.operands[2:])
    tied = replace(program, calls=(first, replace(second, operands=operands), *rest))
    apart = unshare_constants(tied)
    assert [call.operands[1].buffer for call in apart.calls[:3]] == ["w0", "w0", "w2"]
    assert [call.operands[2].buffer for call in apart.calls[:3]] == ["b0", "b0'", "b0''"]
    assert tile(apart, 0).calls == (0, 1, *(2 + i // 4 for i in range(16)), LAYERS)


@pytest.mark.parametrize("table", ["table", "w0[0:16]", "b0[16:32]", "r0[0:16]'"])
@pytest.mark.parametrize("factors", full.first([WIDTH, 1], 1))
def test_a_constant_called_like_a_piece_keeps_its_bytes(table: str, factors: int) -> None:
    program = _layers(share=True, factors=factors, table=table)
    x = _bytes(7, WIDTH)
    whole = Driver().run(encode(program, plan(program)), [x])
    pieces, planned = plan_within(program, Budget(PROCESSOR, 2 * WIDTH + 2_000, policy=FetchPolicy.ALWAYS))
    check(pieces, planned)
    names = [buffer.name for buffer in pieces.buffers]
    assert len(names) == len(set(names))
    assert len(pieces.calls) > len(program.calls)
    assert Driver().run(encode(pieces, planned), [x]) == whole
