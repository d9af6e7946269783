"""The value of planned prefetch: simulated time of one inference, for each reference model, flash and SRAM budget.

Flash of 50, 100, 200 and 400 MB/s; SRAM for weights: just enough to run, half of them, all. Columns: each kernel's
weights copied just before it; the first weights kept in SRAM; planned; and a bound of all plans that fetch each chunk
once. The bound "any cut" is a weaker bound: as if calls were cut as finely as possible at no cost.

make bench-prefetch
"""

import argparse
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import REFERENCES, Results, main, only, option, table

from deuteron import api
from deuteron.arch import targets
from deuteron.arch.engine import Engine, engine
from deuteron.arch.memory import Effort, FetchPolicy
from deuteron.npu.neutron.convert import convert
from deuteron.npu.neutron.kernels.cost import cost
from deuteron.npu.neutron.kernels.dataflow import dataflow
from deuteron.npu.neutron.kernels.processor import NeutronProcessor
from deuteron.npu.neutron.machine import hazards, simulate
from deuteron.npu.neutron.machine.bounds import fetch_bound
from deuteron.npu.neutron.microcode.decode import decode
from deuteron.npu.neutron.microcode.encode import encode
from deuteron.operators.program import Program
from deuteron.planner import Budget, plan, plan_within
from deuteron.planner.prefetch_bound import lower_bound
from deuteron.planner.prefetch_schedule import FetchCosts
from deuteron.planner.weight_chunks import chunks
from deuteron.planner.weight_residency import costs_of, min_area
from deuteron.planner.weight_tiling import tile, unshare_constants
from deuteron.planner.weight_tiling_search import tiled_scratch

TARGET = "imxrt700"
RATES = (50, 100, 200, 400)
BUDGETS = ("least", "half", "all")
GOAL = 1.03


@dataclass(frozen=True, slots=True)
class Point:
    """One model, flash and budget; times in microseconds, simulated; `bound` is for the chunks of the plan."""

    model: str
    flash: int
    budget: str
    area: int
    blocking: float
    resident: float
    ours: float
    bound: float
    proven: bool
    any_cut: float

    @property
    def ratio(self) -> float:
        """Ours over the bound."""
        return self.ours / self.bound

    @property
    def good(self) -> bool:
        """True if it is within the goal, or nothing is faster."""
        return self.ratio <= GOAL or self.proven


def programs(names: Collection[str]) -> Iterator[tuple[str, Program]]:
    """The largest partition of each of these reference models."""
    for example in (example for example in api.REFERENCES if example.name in names):
        print(f"building {example.name}", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "out"
            api.build_model(example.name, output=output)
            parts = [convert(path.read_bytes(), TARGET).program for path in output.glob("npu_?.tflite")]
        yield example.name, max(parts, key=lambda program: len(program.calls))


def point(model: str, program: Program, rate: int, budget: str, effort: Effort) -> Point:
    """The numbers of one point."""
    rates = engine(targets.load(TARGET), flash_bandwidth=rate * 1_000_000)
    linked = plan(program)
    weights = len(linked.weights)
    least = min_area(chunks(unshare_constants(program)))
    area = {"least": least, "half": max(least, weights // 2), "all": weights}[budget]
    limit = Budget(NeutronProcessor(rates), linked.scratch_bytes + area, policy=FetchPolicy.ALWAYS, effort=effort)
    pieces, planned = plan_within(program, limit)
    found = planned.prefetch
    if found is None:
        raise SystemExit(f"{model}: nothing to fetch")
    decoded = decode(encode(pieces, planned))
    wrong = hazards(decoded, dataflow(pieces, planned.constants))
    if wrong:
        raise SystemExit(f"{model}: {wrong[0]}")
    ours = simulate(decoded, rates).cycles
    if ours != found.schedule.cycles or ours < max(found.bound, fetch_bound(decoded, rates)):
        raise SystemExit(f"{model}: {ours} cycles, planned {found.schedule.cycles}, bound {found.bound}")
    return Point(
        model,
        rate,
        budget,
        area,
        rates.microseconds(_first_that_fit(program, rates, 0)),
        rates.microseconds(_first_that_fit(program, rates, area)),
        rates.microseconds(ours),
        rates.microseconds(found.bound),
        found.proven,
        rates.microseconds(_any_cut(program, rates, area)),
    )


def _any_cut(program: Program, rates: Engine, area: int) -> int:
    """Cycles that no plan is faster than, however it cuts calls along their filters.

    A piece of the finest cut takes its share of the whole call, or what it takes alone if that is less, and only the
    first of a call costs the CPU anything.
    """
    whole = unshare_constants(program)
    finest = tile(whole, 0)
    computing: list[int] = []
    for at, (piece, number) in enumerate(zip(finest.program.calls, finest.calls, strict=True)):
        alone, uncut = cost(piece.params, rates), cost(whole.calls[number].params, rates)
        share = uncut.cycles * alone.macs // uncut.macs if uncut.macs else uncut.cycles
        begins = at == 0 or finest.calls[at - 1] != number
        computing.append(min(alone.cycles, share) + rates.call_dispatch * begins)
    scratch = tiled_scratch(finest.program, plan(program).packing)
    return lower_bound(
        chunks(finest.program), FetchCosts(tuple(computing), (), rates.fetch_setup), rates, area, scratch
    )


def _first_that_fit(program: Program, rates: Engine, area: int) -> int:
    """Cycles when the first chunks stay in SRAM, as far as the largest of the others also fits."""
    parts = chunks(program)
    costs = costs_of(program, parts, NeutronProcessor(rates))
    best = sum(costs.calls) + sum(costs.transfers) + costs.setup * len(parts)
    for kept in range(len(parts) + 1):
        rest = parts[kept:]
        largest = max((chunk.nbytes for chunk in rest), default=0)
        if sum(chunk.nbytes for chunk in parts[:kept]) + largest <= area:
            copied = sum(costs.transfers[kept:]) + costs.setup * len(rest)
            best = min(best, sum(costs.calls) + copied)
    return best


def chart(points: list[Point]) -> str:
    """The points as a picture: a bar for (a), (b), (c) and a line for the bound, each as a share of (a)."""
    bar, gap, height, left, top = 9, 14, 70, 150, 40
    models = list(dict.fromkeys(p.model for p in points))
    width = left + len(RATES) * len(BUDGETS) * (3 * bar + gap) + 20
    colours = ("#b0b0b0", "#7aa6d9", "#2f7d4f")
    title = "time as a share of blocking copies, simulated: blocking, kept, planned; line: lower bound"
    body = [f'<text x="10" y="20">{title}</text>']
    for row, model in enumerate(models):
        base = top + (row + 1) * (height + 34)
        body.append(f'<text x="10" y="{base - height // 2}">{model}</text>')
        for column, p in enumerate(q for q in points if q.model == model):
            x = left + column * (3 * bar + gap)
            for i, value in enumerate((p.blocking, p.resident, p.ours)):
                share = value / p.blocking
                body.append(
                    f'<rect x="{x + i * bar}" y="{base - height * share:.1f}" width="{bar - 1}" '
                    f'height="{height * share:.1f}" fill="{colours[i]}"><title>{value:,.1f} us</title></rect>'
                )
            y = base - height * p.bound / p.blocking
            body.append(f'<path d="M{x - 2} {y:.1f}h{3 * bar + 4}" stroke="#c03030"/>')
            body.append(f'<text x="{x}" y="{base + 12}" font-size="8">{p.flash} {p.budget}</text>')
    total = top + len(models) * (height + 34) + 30
    frame = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{total}"'
    return f'<svg {frame} font-family="sans-serif" font-size="12">\n' + "\n".join(body) + "\n</svg>\n"


def results(options: argparse.Namespace) -> Results:
    """All points; none may be slower than blocking copies, and nine of ten must be near the bound."""
    points = [
        point(model, program, rate, budget, options.effort)
        for model, program in programs(options.model or REFERENCES)
        for rate in RATES
        for budget in BUDGETS
    ]
    columns = {"model": "model", "MB/s": "flash", "budget": "budget", "area B": "area", "blocking": "blocking:,.1f"}
    columns |= {"kept": "resident:,.1f", "planned": "ours:,.1f", "bound": "bound:,.1f"}
    columns |= {"planned / bound": lambda p: f"{p.ratio:.3f}{' *' * p.proven}", "any cut": "any_cut:,.1f"}
    good = sum(p.good for p in points)
    problems = [f"{p.model} at {p.flash} MB/s is slower than blocking copies" for p in points if p.ours > p.blocking]
    problems += [f"{good} of {len(points)} points are near the bound"] if good < 0.9 * len(points) else []
    notes = [f"{good} of {len(points)} points within {GOAL} of the bound or proven (*)"]
    if options.json:
        options.json.with_suffix(".svg").write_text(chart(points))
    shown = table(points, columns, "one inference, us; a chart is written with the JSON file")
    return Results("simulated", points, [shown], problems, notes)


EFFORT = option("--effort", type=Effort, choices=tuple(Effort), default=Effort.EXACT, help="as in a build")

if __name__ == "__main__":
    sys.exit(main(results, only("--model", REFERENCES), EFFORT))
