"""Differential testing: random graphs as TFLite files through the compiler and the driver, compared three times.

Each graph's outputs must be those of the IR interpreter bit for bit. Each operator must be within `spec/rounding.md`'s
bound of LiteRT, and each kernel call and TFLite operator must name the other. Every fourth graph also runs on the
reference kernels. A graph that fails, crashes or hangs shrinks itself into `tests/regressions/`.

With `--budgets` each program is also planned for a random part of its memory, and for the minimum of the planner's
error. The bytes must be the same, no unwritten row may be read, and no byte outside its memories may be written.

make bench-differential [SCHEDULER=tcp://host:8786] [ARGS=--budgets]
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path

import harness
import numpy as np
import numpy.typing as npt
from harness import SCHEDULER, Results, Table, option, table
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.differential import regressions
from tests.differential.check import Checked, Driver, Failure, Kind, OpTally, check
from tests.differential.isolated import Worker, wait_any
from tests.differential.shrink import shrink
from tests.graphs import random_graph, random_inputs

from deuteron.npu.neutron.ir.graph import Graph
from deuteron.runtime import driver
from deuteron.sweeps.campaign import PYTHON, REPORT, Part, campaign

GRAPHS = 20_000
REFERENCE_EVERY = 4
MAX_FAILURES = 10
SHARES = (0.0, 0.25, 0.5, 0.75)
"""Shares of its memory in which a graph that failed in some budget shrinks."""
CHECKOUT = Path(__file__).resolve().parents[1]
PART = 200
"""Graphs that go to one of several workers."""

Case = tuple[Graph, tuple[npt.NDArray[np.generic], ...]]


@dataclass(slots=True)
class Totals:
    """All graphs together: operators, kernel calls, programs that compute some rows at a time, failures by seed."""

    graphs: int = 0
    striped: int = 0
    kernels: Counter[str] = field(default_factory=Counter[str])
    operators: dict[str, OpTally] = field(default_factory=dict[str, OpTally])
    failures: dict[int, Failure] = field(default_factory=dict[int, Failure])

    def add(self, seed: int, checked: Checked) -> None:
        """Take a graph's results in."""
        self.graphs += 1
        self.striped += checked.striped
        self.kernels.update(checked.kernels)
        for name, tally in checked.operators.items():
            self.operators.setdefault(name, OpTally()).add(tally)
        if checked.failures:
            self.failures[seed] = checked.failures[0]

    def add_report(self, report: str) -> None:
        """Take in what another run wrote as JSON, whose failures are shrunk and kept."""
        loaded = json.loads(report)
        self.graphs += loaded["graphs"]
        self.striped += loaded["striped"]
        self.kernels.update(loaded["kernels"])
        for name, tally in loaded["operators"].items():
            self.operators.setdefault(name, OpTally()).add(OpTally(**tally))
        for seed, failure in loaded["failures"].items():
            kind, _, text = failure.partition(": ")
            self.failures[int(seed)] = Failure(Kind(kind), text)


@cache
def _driver(name: str) -> Driver:
    return driver.Driver("driver" if name == "driver" else "driver_ref")


def case(seed: int) -> Case:
    """The graph of a seed and its inputs."""
    graph = random_graph(seed, stock=True)
    return graph, tuple(random_inputs(graph, seed))


def drawn(seed: int) -> Sequence[float]:
    """The parts of its memory in which the graph of a seed is planned again."""
    return (np.random.default_rng(seed).random(),)


def check_seed(seed: int, *, budgets: bool = False) -> Checked:
    """Check the graph of a seed, and in part of its memory if requested."""
    drivers = [_driver("driver")] + [_driver("driver_ref")] * (seed % REFERENCE_EVERY == 0)
    return check(*case(seed), drivers, drawn(seed) if budgets else ())


def check_case(given: Case, shares: Sequence[float] = ()) -> Checked:
    """Check a case on both drivers."""
    return check(*given, [_driver("driver"), _driver("driver_ref")], shares)


def results(
    seeds: Sequence[int], jobs: int, work: Callable[[int], Checked] = check_seed
) -> Iterator[tuple[int, Checked]]:
    """Each seed and what came of it, in the order in which they end."""
    left = iter(seeds)
    busy = {Worker(work): seed for _, seed in zip(range(jobs), left, strict=False)}
    try:
        for worker, seed in busy.items():
            worker.begin(seed)
        while busy:
            wait_any([*busy])
            for worker, seed in [*busy.items()]:
                if (checked := worker.poll()) is None:
                    continue
                yield seed, checked
                if (following := next(left, None)) is None:
                    worker.close()
                    del busy[worker]
                else:
                    busy[worker] = following
                    worker.begin(following)
    finally:
        for worker in busy:
            worker.close()


def parts(seeds: Sequence[int], *, budgets: bool) -> list[Part]:
    """The graphs of these seeds, which follow each other, as commands for workers."""
    command = (PYTHON, "benches/differential.py", "--json", REPORT, *(["--budgets"] if budgets else []))
    return [
        Part(f"{own[0]}", (*command, "--seed", f"{own[0]}", "--graphs", f"{len(own)}"), CHECKOUT)
        for own in (seeds[begin : begin + PART] for begin in range(0, len(seeds), PART))
    ]


def keep(seed: int, failure: Failure) -> Path:
    """The file of the shrunk graph of a seed that fails."""
    with Worker(partial(check_case, shares=SHARES if failure.kind is Kind.BUDGET else ())) as worker:

        def fails(graph: Graph, inputs: Sequence[npt.NDArray[np.generic]]) -> bool:
            return any(found.kind is failure.kind for found in worker.run((graph, tuple(inputs))).failures)

        graph, inputs = case(seed)
        if fails(graph, inputs):
            graph, inputs = shrink(graph, inputs, fails)
    path = regressions.DIRECTORY / f"seed{seed}_{failure.kind.value}.ir"
    path.parent.mkdir(exist_ok=True)
    regressions.save(path, graph, inputs, f"{failure.kind.value}: {failure.text}")
    return path


COLUMNS = {"operator": lambda item: item[0]} | {
    title: lambda item, name=name: getattr(item[1], name)
    for title, name in {"count": "count", "elements": "elements", "compared": "compared", "differ": "apart"}.items()
}


def report(totals: Totals) -> Table:
    """A row per operator."""
    every = OpTally()
    for tally in totals.operators.values():
        every.add(tally)
    share = {"differ %": lambda item: f"{100 * item[1].apart / item[1].compared:.3f}" if item[1].compared else ""}
    rows = [*sorted(totals.operators.items()), ("all", every)]
    columns = {**COLUMNS, **share, "largest step": lambda item: item[1].largest}
    return table(rows, columns, "measured against LiteRT, operator by operator")


def compared(options: argparse.Namespace) -> Results:
    """So many graphs; a failure is a problem."""
    totals, began = Totals(), time.perf_counter()
    seeds = range(options.seed, options.seed + options.graphs)
    text = TextColumn("{task.description}")
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), text)
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=options.graphs)
        for _ in _take_in(totals, seeds, options):
            progress.update(task, completed=totals.graphs, description=f"{len(totals.failures)} failures")
            if len(totals.failures) >= MAX_FAILURES:
                break
    seconds = time.perf_counter() - began
    calls = f"{totals.kernels.total():,} calls of {len(totals.kernels)} kernels"
    cut = f"{totals.striped:,} programs in stripes, " if options.budgets else ""
    notes = [f"{totals.graphs:,} graphs, {calls}, {cut}{len(totals.failures)} failures; {seconds:.0f} s measured"]
    problems: list[str] = []
    for seed, failure in sorted(totals.failures.items()):
        file = "" if options.scheduler else f" ({keep(seed, failure)})"  # else the worker has kept it
        problems.append(f"seed {seed}: {failure.kind.value}: {failure.text}{file}")
    return Results("measured", [], [report(totals)], problems, notes, _as_json(totals, options.seed, seconds))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bench."""
    return harness.main(compared, *OPTIONS, arguments=arguments)


OPTIONS = (
    option("--graphs", type=int, default=GRAPHS, help=f"how many graphs (default: {GRAPHS:,})"),
    option("--seed", type=int, default=0, help="seed of the first; the others follow it (default: 0)"),
    option("--jobs", type=int, default=1, help="processes (default: 1)"),
    option("--budgets", action="store_true", help="also in part of their memory"),
    SCHEDULER,
)


def _take_in(totals: Totals, seeds: Sequence[int], args: argparse.Namespace) -> Iterator[None]:
    """Take in what comes of the seeds, here or by the workers of a scheduler, a step at a time."""
    if args.scheduler:
        for part, ended in campaign(parts(seeds, budgets=args.budgets), args.scheduler):
            yield totals.add_report(ended.checked(part).report)
    else:
        for seed, checked in results(seeds, args.jobs, partial(check_seed, budgets=args.budgets)):
            yield totals.add(seed, checked)


def _as_json(totals: Totals, first: int, seconds: float) -> dict[str, object]:
    return {
        "seconds": seconds,
        "first_seed": first,
        "graphs": totals.graphs,
        "striped": totals.striped,
        "kernels": dict(sorted(totals.kernels.items())),
        "operators": {name: asdict(tally) for name, tally in sorted(totals.operators.items())},
        "failures": {seed: f"{found.kind.value}: {found.text}" for seed, found in sorted(totals.failures.items())},
    }


if __name__ == "__main__":
    sys.exit(main())
