"""Published times on silicon against the cycle model of the same networks: nothing is fitted to any of them.

`src/deuteron/arch/silicon.toml` has the points, from which `sim`, `plan`, `profile` and the page take their band. The
bench fails if its cycles are not those of today's builds. MobileNetV1 1.0, whose weights are fetched, has three
predictions: fetched by a DMA (as in the file), copied by the CPU, and with weights kept in SRAM.

Then come physical terms without a fitted number: channels padded to the width of the array, weights copied by the CPU,
and inputs and outputs copied at two bytes a cycle. Each point is predicted with the terms that suit the others best.

make bench-published-times
"""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path

from harness import BUILDS, Results, Table, folder, main, table

from deuteron import api
from deuteron.arch import silicon, targets
from deuteron.arch.memory import FetchPolicy, MemoryOptions
from deuteron.arch.silicon import Published, band_of
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.program import NeutronProgram
from deuteron.operators.kernel_params import Conv2DParams
from deuteron.views.simulate import Rates, Simulation, open_build

OWN = ("cifarnet", "mobilenet_v1_025_128")
"""Networks of `zoo/silicon.py`; all others are reference models."""

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
        file = Path(__file__).parent / "zoo" / "published.py"
        model = f"{file}:{point.network}" if point.network in OWN else point.network
        options = api.BuildOptions(memory=memory)
        api.build_model(model, target=point.target, output=directory, options=options)
    return directory


def row_of(point: Published, builds: Path) -> Row:
    """Simulate a point."""
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


def report(rows: Sequence[Row]) -> Iterator[Table]:
    """The points of a family, and what terms would make of a Neutron's."""
    columns = {"network": "title", "target": "target", "MHz": lambda p: f"{p.clock / 1e6:g}"}
    columns |= {"silicon us": "microseconds", "simulated us": "simulated:,.1f"}
    columns |= {"error": lambda p: f"{p.simulated / p.microseconds - 1:+.1%}", "software": "software"}
    points = [replace(row.point, cycles=row.cycles) for row in rows]
    yield table(points, columns, str(band_of([row.ratio() for row in rows])))
    if rows[0].terms:
        bands = [(chosen, band_of([row.ratio(chosen) for row in rows])) for chosen in choices()]
        terms = {"terms": lambda of: words(of[0]), "band": lambda of: f"{of[1].least:.2f} to {of[1].most:.2f}"}
        terms |= {"mean": lambda of: f"{of[1].mean:.2f}", "error": lambda of: f"{error(rows, of[0]):.3f}"}
        yield table(bands, terms)


def left_out_of(rows: Sequence[Row]) -> Iterator[str]:
    """The leave-one-out error of a Neutron's points, and the terms of each."""
    if not rows[0].terms:
        return
    predicted = left_out(rows)
    alone = math.sqrt(sum(math.log(row.ratio(chosen)) ** 2 for row, chosen in predicted) / len(rows))
    yield f"leave-one-out error: {alone:.3f} with the terms that suit the others best, {error(rows, ()):.3f} with none"
    yield from (
        f"  {row.point.title:<46} {row.point.target:<10} {row.ratio(c):.2f}  {words(c)}" for row, c in predicted
    )


def results(options: argparse.Namespace) -> Results:
    """All points, and whether the file of points is up to date."""
    with folder(options.builds) as builds:
        families = {family: [row_of(point, builds) for point in silicon.published(family)] for family in FAMILIES}
        fetched = next(point for point in silicon.published("neutron-c") if point.network == FETCHED)
        predicted = predictions(fetched, builds)
    rows = [row for own in families.values() for row in own]
    tables = [shown for own in families.values() for shown in report(own)]
    notes = [note for own in families.values() for note in left_out_of(own)]
    notes.append(f"{fetched.title}, {fetched.microseconds:,} us on silicon:")
    for what, microseconds in predicted.items():
        notes.append(f"  {what:<34}{microseconds:>12,.1f}{microseconds / fetched.microseconds - 1:>+9.1%}")
    stale = [f"{r.point.title}: {r.cycles}, not {r.point.cycles}" for r in rows if r.cycles != r.point.cycles]
    problems = [f"cycles in src/deuteron/arch/silicon.toml are out of date: {'; '.join(stale)}"] if stale else []
    data = [{**asdict(row.point), "cycles": row.cycles, "terms": row.terms} for row in rows]
    return Results("quoted and simulated", data, tables, problems, notes)


if __name__ == "__main__":
    sys.exit(main(results, BUILDS))
