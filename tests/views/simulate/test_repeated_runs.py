"""A build that is read once and run often: each run has the results of a new reader, without PyTorch."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests import store

from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.views.simulate import Rates, open_build, simulate_build

RATES = (
    Rates(),
    Rates(flash_bandwidth=20_000_000, clock=100_000_000),
    Rates(flash_latency=5000, first_run=True),
)


@pytest.fixture(scope="module")
def build() -> Path:
    return store.model("digits")


@pytest.mark.full
def test_totals_and_runs_are_those_of_a_fresh_reading(build: Path) -> None:
    once = open_build(build)
    checked, replan = once.checked(), once.replanner()
    least = once.between.planned_bytes + 9 * 1024
    for rates in RATES:
        asked = {"flash_latency": rates.flash_latency, "clock": rates.clock, "first_run": rates.first_run}
        fresh = simulate_build(build, flash_bandwidth=rates.flash_bandwidth, **asked)  # pyright: ignore[reportArgumentType]
        assert checked.simulated(rates).to_json() == fresh.to_json()
        assert checked.totals(rates) == tuple(run.timeline.totals() for run in fresh.partitions)
        memory = replace(once.manifest.options.memory, sram_budget=least, flash_bandwidth=rates.flash_bandwidth)
        again = replan(memory)
        fresh = simulate_build(build, flash_bandwidth=rates.flash_bandwidth, sram_budget=least, **asked)  # pyright: ignore[reportArgumentType]
        assert again.simulated(rates).to_json() == fresh.to_json()
        assert again.totals(rates) == tuple(run.timeline.totals() for run in fresh.partitions)
    assert any(totals.transfer for totals in replan(MemoryOptions(FetchPolicy.ALWAYS, least)).totals())


def test_neither_runs_nor_new_plans_need_pytorch(build: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from deuteron.arch.memory import MemoryOptions; "
        "from deuteron.views.simulate import open_build; build = open_build(Path(sys.argv[1])); "
        "build.checked().totals(); budget = build.between.planned_bytes + 9 * 1024; "
        "build.replanner()(MemoryOptions(sram_budget=budget)).totals(); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, build], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
