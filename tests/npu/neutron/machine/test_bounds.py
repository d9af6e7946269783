"""The bound of a run's fetches: computed by hand where one term of it decides, and below every random plan's time."""

from dataclasses import replace

import pytest
from tests.npu.neutron.machine.planned_programs import ENGINE, PROCESSOR, fetching, random_program

from deuteron.arch.memory import FetchPolicy
from deuteron.npu.neutron.kernels import catalogue
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.machine.bounds import fetch_bound, fetched_to_scratch, readers
from deuteron.npu.neutron.machine.inferred_dataflow import traced
from deuteron.npu.neutron.microcode.decode import Decoded, decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators import kernel_params as p
from deuteron.operators.program import Buffer, KernelCall, Program, Ref
from deuteron.operators.regions import Region
from deuteron.operators.transfers import Fetch, Wait
from deuteron.planner import Budget, plan, plan_within

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
    budget = Budget(PROCESSOR, 80 + area, area, FetchPolicy.ALWAYS, keep_resident=False)
    program, planned = plan_within(_program(), budget)
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


def _to_scratch() -> Decoded:
    """The layer's weights fetched to scratch, behind `mid`, before the first call; the tables to the prefetch area."""
    program = _program()
    linked = plan(program)
    start, mid = linked.constants["w"], linked.placements["mid"]
    places = {name: replace(linked.placements[name], region=Region.PREFETCH, offset=0) for name in ("one", "two")}
    layer = {
        name: replace(place, region=Region.SCRATCH, offset=linked.scratch_bytes + linked.constants[name] - start)
        for name, place in linked.placements.items()
        if name in ("w", "b", "r")
    }
    fetch = Fetch(0, start, linked.scratch_bytes, LAYER, region=Region.SCRATCH)
    one, two = (Fetch(channel, linked.constants[n], 0, SMALL) for channel, n in ((1, "one"), (2, "two")))
    assert mid.offset + mid.nbytes <= linked.scratch_bytes
    planned = replace(
        linked,
        placements={**linked.placements, **places, **layer},
        transfers={0: (one, Wait(1), fetch), 1: (Wait(0),), 2: (two, Wait(2))},
        scratch_bytes=linked.scratch_bytes + LAYER,
        prefetch_bytes=SMALL,
    )
    return decode(encode(program, planned))


def test_room_in_scratch_is_room_for_what_comes_before() -> None:
    """During the first call `mid` is in use, the bytes of `next` are free, and those of the area belong to `one`."""
    decoded = _to_scratch()
    first, second, third = _prices(decoded)
    fetched = [reading for index, reading in sorted(readers(decoded).items())]
    assert [len(reading) for reading in fetched] == [1, 1, 1]
    byte_per_cycle = replace(ENGINE, flash_bandwidth=ENGINE.clock)
    assert fetch_bound(decoded, byte_per_cycle) == max(
        SMALL + LAYER + second + third, first + second + third, SMALL + LAYER + SMALL + third
    )
    assert fetch_bound(decoded, byte_per_cycle) <= simulate(decoded, byte_per_cycle).cycles
    assert hazards(decoded, traced(decoded)) == ()
    at = next(index for index, command in enumerate(decoded.commands) if command == decoded.calls[1])
    assert fetched_to_scratch(decoded) == {at: decoded.calls[1].operands[1:4]}


def test_readers_end_where_a_call_writes_over_what_was_fetched() -> None:
    decoded = _to_scratch()
    layer = decoded.calls[1]
    over = replace(layer.operands[4], offset=layer.operands[1].offset)
    again = replace(decoded.calls[0], operands=(layer.operands[1], *decoded.calls[0].operands[1:]))
    written = replace(decoded.calls[0], operands=(*decoded.calls[0].operands[:2], over))
    at = next(index for index, command in enumerate(decoded.commands) if command == layer)
    commands = (*decoded.commands[: at + 1], written, again)
    fetch = next(i for i, c in enumerate(commands) if isinstance(c, Fetch) and c.region is Region.SCRATCH)
    assert readers(replace(decoded, commands=commands))[fetch] == (at,)


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_is_faster(seed: int) -> None:
    for share in (0.0, 0.5, 1.0):
        program, planned = fetching(random_program(seed), share)
        decoded = decode(encode(program, planned))
        for rate in (20_000_000, 100_000_000, 1_000_000_000):
            engine = replace(ENGINE, flash_bandwidth=rate)
            assert fetch_bound(decoded, engine) <= simulate(decoded, engine).cycles
