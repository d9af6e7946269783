"""The bound of a run's fetches: computed by hand where one term of it decides, and below every random plan's time."""

from dataclasses import replace

import pytest
from tests.npu.neutron.machine.plans import ENGINE, fetching, random_program

from deuteron.arch.memory import FetchPolicy
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.kernels import params as p
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.kernels.program import Buffer, KernelCall, Program, Ref
from deuteron.npu.neutron.machine import simulate
from deuteron.npu.neutron.machine.bounds import fetch_bound, readers
from deuteron.npu.neutron.microcode.decode import Decoded, decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.plan import Budget, plan_within

SMALL, LARGE = 256, 1024
DEEP = 64
CALL = ENGINE.call_dispatch


def _program() -> Program:
    """A table, a layer whose weights fill the area, and a table."""
    row = (1 << 30).to_bytes(4, "little") + (36).to_bytes(4, "little")
    sizes = {"in": DEEP, "mid": DEEP, "next": 8, "out": 8}
    data = {"one": bytes(SMALL), "w": bytes(8 * DEEP), "b": bytes(32), "r": 8 * row, "two": bytes(SMALL)}
    layer = (Ref("mid", 0, DEEP), Ref("w", 0, 8 * DEEP), Ref("b", 0, 32), Ref("r", 0, 64), Ref("next", 0, 8))
    calls = (
        KernelCall(
            catalogue.LUT, (Ref("in", 0, DEEP), Ref("one", 0, SMALL), Ref("mid", 0, DEEP)), p.LutParams(DEEP), (0,)
        ),
        KernelCall(catalogue.FULLY_CONNECTED, layer, p.FullyConnectedParams(1, DEEP, 8, 8, 0, 0, -128, 127), (1,)),
        KernelCall(catalogue.LUT, (Ref("next", 0, 8), Ref("two", 0, SMALL), Ref("out", 0, 8)), p.LutParams(8), (2,)),
    )
    buffers = (*(Buffer(n, s) for n, s in sizes.items()), *(Buffer(n, len(d), d) for n, d in data.items()))
    return Program(buffers, ("in",), ("out",), calls)


LAYER = 8 * DEEP + 32 + 64
"""Bytes of the layer's constants."""


def _decoded(area: int) -> Decoded:
    program, planned = plan_within(_program(), Budget(ENGINE, 80 + area, area, FetchPolicy.ALWAYS, keeps=False))
    assert (planned.prefetch_bytes, planned.resident_bytes) == (area, 0)
    return decode(encode(program, planned))


def _prices(decoded: Decoded) -> list[int]:
    return [CALL + cost(call.params, ENGINE).cycles for call in decoded.calls]


def test_what_has_no_room_beside_a_call_comes_after_it() -> None:
    """The area holds the layer alone: its weights come after the first call, whatever the flash did before."""
    decoded = _decoded(LAYER)
    first, second, third = _prices(decoded)
    assert [len(reading) for reading in readers(decoded).values()] == [1, 1, 1]
    byte_per_cycle = replace(ENGINE, flash_bandwidth=ENGINE.clock)
    assert fetch_bound(decoded, byte_per_cycle) == first + LAYER + second + third
    slow = replace(ENGINE, flash_bandwidth=ENGINE.clock // 4)
    assert fetch_bound(decoded, slow) == 4 * (SMALL + LAYER + SMALL) + third


def test_what_has_room_comes_before() -> None:
    decoded = _decoded(LAYER + SMALL)
    idle = replace(ENGINE, flash_bandwidth=ENGINE.clock, call_dispatch=100_000)
    assert fetch_bound(decoded, idle) == SMALL + sum(price - CALL + 100_000 for price in _prices(decoded))


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_faster(seed: int) -> None:
    for share in (0.0, 0.5, 1.0):
        program, planned = fetching(random_program(seed), share)
        decoded = decode(encode(program, planned))
        for rate in (20_000_000, 100_000_000, 1_000_000_000):
            engine = replace(ENGINE, flash_bandwidth=rate)
            assert fetch_bound(decoded, engine) <= simulate(decoded, engine).cycles
