"""Published times on silicon beside what the cycle model says of the same networks: nothing is fitted to any of them.

The points stand in `src/deuteron/arch/silicon.toml`, from which `sim`, `plan`, `profile` and the page take the band
that they print; the bench fails where the cycles that stand there are not those of today's builds. Weights are seeded,
the microcode is Deuteron's, not NXP's, and software of the published times is of several years. For MobileNetV1 1.0,
whose weights are fetched, there are three predictions: by a DMA while kernels run, which is what stands in the file, by
the CPU, which blocks, as the example's hook does, and with as many weights kept in SRAM as fit.

Then terms that would be physical, without a number that is fitted: lanes of channels padded to the width of the array,
weights that the CPU brings from flash before their call, and inputs and outputs that it copies at two bytes a cycle.
Each point is predicted with those terms that make the others' times best: what is left of the error says whether a term
explains anything. None is in the model unless it helps there.

make bench-anchor
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

from deuteron import api
from deuteron.arch import silicon, targets
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.arch.silicon import Published, band_of
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.program import NeutronProgram
from deuteron.operators.params import Conv2DParams
from deuteron.views.simulate import Rates, Simulation, open_build

OWN = ("cifarnet", "mobilenet_v1_025_128")
"""Networks of `silicon_networks.py`; all others are reference models."""

FETCHED = "mobilenet_v1"
FAMILIES = ("neutron-c", "ethos-u65")
TERMS = ("lanes", "weights by the CPU", "tensors by the CPU")
COPIED_PER_CYCLE = 2


@dataclass(frozen=True, slots=True)
class Row:
    """A published point, the cycles of today, and what each term would add to them."""

    point: Published
    cycles: int
    terms: tuple[int, ...]

    def ratio(self, chosen: Sequence[int] = ()) -> float:
        """How many times the simulated time the chip has taken, with these terms."""
        cycles = self.cycles + sum(self.terms[term] for term in chosen)
        return self.point.microseconds * self.point.clock / 1e6 / cycles


def build_of(point: Published, builds: Path) -> Path:
    """The build of a point's network for its target, made if it is not there."""
    directory = builds / f"{point.network}-{point.target}"
    if not directory.is_dir():
        memory = MemoryOptions()
        if point.network == FETCHED:
            area = targets.load(point.target).need_neutron().prefetch_area.value
            memory = MemoryOptions(FetchPolicy.ALWAYS, weights_budget=area)
        file = Path(__file__).with_name("silicon_networks.py")
        model = f"{file}:{point.network}" if point.network in OWN else point.network
        options = api.BuildOptions(memory=memory)
        api.build_model(model, target=point.target, output=directory, options=options)
    return directory


def row_of(point: Published, builds: Path) -> Row:
    """What is simulated for a point."""
    build = open_build(build_of(point, builds))
    is_neutron = isinstance(build.arch.npu, targets.Neutron)
    rates = Rates(clock=point.clock, first_run=True) if is_neutron else Rates()
    simulation = build.checked().simulated(rates)
    return Row(point, simulation.cycles, tuple(terms(simulation)) if is_neutron else ())


def terms(simulation: Simulation) -> Iterator[int]:
    """The cycles that each term would add."""
    engine = simulation.engine
    programs = [run.program for run in simulation.partitions if isinstance(run.program, NeutronProgram)]
    lanes = 0
    for program in programs:
        for call in program.decoded.calls:
            if isinstance(call.params, Conv2DParams):
                padded = replace(call.params, in_c=-(-call.params.in_c // engine.columns) * engine.columns)
                lanes += cost(padded, engine).compute - cost(call.params, engine).compute
    yield lanes
    fetchings = [(program.fetching(engine), run) for program, run in zip(programs, simulation.partitions, strict=True)]
    yield sum(
        engine.transfer(run.program.weights_bytes) if fetching is None else fetching.serial - run.timeline.cycles
        for fetching, run in fetchings
    )
    yield sum(sum(program.inputs) + sum(program.outputs) for program in programs) // COPIED_PER_CYCLE


def predictions(point: Published, builds: Path) -> dict[str, float]:
    """Microseconds of a network whose weights are fetched, by who fetches them."""
    checked = open_build(build_of(point, builds)).checked()
    every, kept = (checked.simulated(Rates(clock=point.clock, first_run=first)) for first in (True, False))
    fetchings = [(run.program.fetching(every.engine), run.timeline.cycles) for run in every.partitions]
    copied = sum(fetching.serial if fetching else cycles for fetching, cycles in fetchings)
    return {
        "fetched by a DMA in every run": every.engine.microseconds(every.cycles),
        "copied by the CPU in every run": every.engine.microseconds(copied),
        "weights that fit kept in SRAM": kept.engine.microseconds(kept.cycles),
    }


def error(rows: Sequence[Row], chosen: Sequence[int]) -> float:
    """The root of the mean square of the logarithms of the ratios: 0 where all times are right."""
    return math.sqrt(sum(math.log(row.ratio(chosen)) ** 2 for row in rows) / len(rows))


def choices() -> list[tuple[int, ...]]:
    """All choices of terms, none of them first."""
    return [chosen for count in range(len(TERMS) + 1) for chosen in combinations(range(len(TERMS)), count)]


def left_out(rows: Sequence[Row]) -> list[tuple[Row, tuple[int, ...]]]:
    """Each point with the terms that are best for all others."""
    return [
        (row, min(choices(), key=lambda chosen: error([other for other in rows if other is not row], chosen)))
        for row in rows
    ]


def words(chosen: Sequence[int]) -> str:
    """A choice of terms for people."""
    return " + ".join(TERMS[term] for term in chosen) or "none"


def report(rows: Sequence[Row]) -> Iterator[str]:
    """The points of a family, and what terms would make of a Neutron's."""
    yield f"{'network':<46} {'target':<14} {'MHz':>5} {'silicon us':>11} {'simulated us':>13} {'error':>8}  software"
    for row in rows:
        point = replace(row.point, cycles=row.cycles)
        yield (
            f"{point.title:<46} {point.target:<14} {point.clock / 1e6:>5g} {point.microseconds:>11,} "
            f"{point.simulated:>13,.1f} {point.simulated / point.microseconds - 1:>+8.1%}  {point.software}"
        )
    yield str(band_of([row.ratio() for row in rows]))
    if not rows[0].terms:
        return
    yield ""
    yield f"{'terms':<58} {'band':>14} {'mean':>6} {'error':>7}"
    for chosen in choices():
        band = band_of([row.ratio(chosen) for row in rows])
        span = f"{band.least:.2f} to {band.most:.2f}"
        yield f"{words(chosen):<58} {span:>14} {band.mean:>6.2f} {error(rows, chosen):>7.3f}"
    predicted = left_out(rows)
    alone = math.sqrt(sum(math.log(row.ratio(chosen)) ** 2 for row, chosen in predicted) / len(rows))
    yield f"leave-one-out error: {alone:.3f} with the terms that suit the others best, {error(rows, ()):.3f} with none"
    yield from (
        f"  {row.point.title:<46} {row.point.target:<10} {row.ratio(c):.2f}  {words(c)}" for row, c in predicted
    )


def main() -> None:
    """Print the table; exit 1 where the file of points is out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the results there")
    parser.add_argument("--builds", type=Path, help="a folder of builds, which are made where they are missing")
    options = parser.parse_args()
    stale: list[str] = []
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        builds = options.builds or Path(scratch)
        for family in FAMILIES:
            rows = [row_of(point, builds) for point in silicon.published(family)]
            print("\n".join([f"{family}:", *report(rows), ""]))
            results += [{**asdict(row.point), "cycles": row.cycles, "terms": row.terms} for row in rows]
            stale += [f"{r.point.title}: {r.cycles}, not {r.point.cycles}" for r in rows if r.cycles != r.point.cycles]
        fetched = next(point for point in silicon.published("neutron-c") if point.network == FETCHED)
        print(f"{fetched.title}, {fetched.microseconds:,} us on silicon:")
        for what, microseconds in predictions(fetched, builds).items():
            print(f"  {what:<34}{microseconds:>12,.1f}{microseconds / fetched.microseconds - 1:>+9.1%}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    if stale:
        sys.exit("cycles in src/deuteron/arch/silicon.toml are out of date: " + "; ".join(stale))


if __name__ == "__main__":
    main()
