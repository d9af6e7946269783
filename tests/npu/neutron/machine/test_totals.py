"""Totals of a run without its events: equal to the sums of the events, at any clock and flash."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.npu.neutron.machine.planned_programs import ENGINE, fetching, random_program

from deuteron.arch.engine import Engine
from deuteron.npu.neutron.machine import simulate
from deuteron.npu.neutron.machine.totals import priced
from deuteron.npu.neutron.microcode.decode import Decoded, Fetch, decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.npu.neutron.program import NeutronProgram

SEEDS = range(12)

RATES = st.fixed_dictionaries(
    {
        "clock": st.integers(1, 2_000_000_000),
        "call_dispatch": st.integers(0, 5000),
        "fetch_setup": st.integers(0, 5000),
        "fetch_latency": st.integers(0, 5000),
        "flash_bandwidth": st.integers(1_000_000, 1_000_000_000),
    }
)
ARRAYS = st.fixed_dictionaries(
    {name: st.integers(1, 32) for name in ("rows", "columns", "elementwise", "sram_port")},
)


@pytest.fixture(scope="module")
def programs() -> list[Decoded]:
    """Programs that fetch their weights; some keep a part of them."""
    plans = [fetching(random_program(seed), seed % 4 / 3) for seed in SEEDS]
    return [decode(encode(*pair)) for pair in plans]


@pytest.mark.full
def test_some_fetch_and_some_keep(programs: list[Decoded]) -> None:
    fetches = [c for decoded in programs for c in decoded.commands if isinstance(c, Fetch)]
    assert {fetch.resident for fetch in fetches} == {False, True}


@given(rates=RATES, array=ARRAYS, keep=st.booleans())
@settings(max_examples=60, deadline=None)
def test_totals_are_those_of_the_timeline(
    programs: list[Decoded], rates: dict[str, int], array: dict[str, int], keep: bool
) -> None:
    engine: Engine = replace(ENGINE, **rates, **array)
    for decoded in programs:
        timeline = simulate(decoded, engine, keep_resident=keep)
        totals = priced(decoded, engine).totals(engine, keep_resident=keep)
        assert totals == timeline.totals()
        assert totals.bound == timeline.bound()


def test_a_program_prices_its_calls_for_each_array(programs: list[Decoded]) -> None:
    """An array that was asked for before does not decide what another takes."""
    program = NeutronProgram(programs[0])
    small = replace(ENGINE, rows=2, columns=2)
    for engine in (ENGINE, small, replace(small, clock=ENGINE.clock // 2), ENGINE):
        assert program.totals(engine) == simulate(programs[0], engine).totals()
    assert program.totals(small).compute > program.totals(ENGINE).compute
