"""Points per second of the simulator: clocks and flashes of a checked build, and plans for other budgets.

A build of MobileNetV1 0.25 is read once. Then every rate is evaluated as in sweeps, in one thread, and compared with
fresh readings. Plans are at effort `fast`, from the SRAM that holds everything down to fetched weights. Processor
time.

make bench-simulator
"""

import argparse
import sys
import time
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from harness import Results, build_of, folder, main, option, table

from deuteron.errors import CapacityError
from deuteron.views.simulate import OpenBuild, Rates, open_build, simulate_build

MODEL = "mobilenet_v1_025"
CLOCKS = range(50_000_000, 350_000_000, 2_000_000)
FLASHES = range(10_000_000, 410_000_000, 8_000_000)
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""Budgets to plan for, as shares of the SRAM that holds everything."""


@dataclass(frozen=True, slots=True)
class Row:
    """So many of something in so many seconds."""

    what: str
    number: int
    seconds: float

    @property
    def rate(self) -> float:
        """Per second."""
        return self.number / self.seconds


def rows(directory: Path) -> list[Row]:
    """The measured rates for a build."""
    rates = [Rates(flash_bandwidth=flash, clock=clock) for clock, flash in product(CLOCKS, FLASHES)]
    build = open_build(directory)
    checked = build.checked()
    begun = time.process_time()
    totals = [checked.totals(rate) for rate in rates]
    measured = [Row("points, build checked once", len(rates), time.process_time() - begun)]
    few = rates[:: len(rates) // 10]
    begun = time.process_time()
    fresh = [simulate_build(directory, flash_bandwidth=r.flash_bandwidth, clock=r.clock) for r in few]
    measured.append(Row("points, build read again for each", len(few), time.process_time() - begun))
    outcome = [tuple(run.timeline.totals() for run in simulation.partitions) for simulation in fresh]
    if outcome != totals[:: len(rates) // 10]:
        sys.exit("the totals of a checked build are not those of one that is read again")
    return [*measured, *replans(build)]


def replans(build: OpenBuild) -> list[Row]:
    """The time of new plans, from the one that holds everything on."""
    replanner, memory = build.replanner(), build.manifest.options.memory
    whole = build.between.planned_bytes + sum(
        part.weights_bytes + part.scratch_bytes for part in build.manifest.partitions
    )
    found: list[Row] = []
    for share in SHARES:
        begun = time.process_time()
        try:
            planned = replanner(replace(memory, sram_budget=round(whole * share)))
            outcome = (
                "weights fetched"
                if any(run.transfer for run in planned.totals(Rates(first_run=True)))
                else "weights linked"
            )
        except CapacityError:
            outcome = "does not fit"
        found.append(Row(f"plans for {share:.0%} of {whole:,} B, {outcome}", 1, time.process_time() - begun))
    return found


def results(options: argparse.Namespace) -> Results:
    """The rates of a build."""
    with folder(None) as scratch:
        found = rows(build_of(options.build or scratch / MODEL, MODEL))
    shown = table(found, {"what": "what", "number": "number", "s": "seconds:.3f", "per second": "rate:,.1f"})
    return Results("measured", found, [shown])


if __name__ == "__main__":
    sys.exit(main(results, option("--build", type=Path, help="a build of the model, made if it does not exist")))
