"""Random small modules with dtypes, views, writes in place, control flow and state: a build computes what they do.

The bench exports and rewrites each module as a build does, up to quantization, and compares it with eager PyTorch: the
same values, dtypes and shapes, or a refusal with a line and a hint. It also builds one of 25 as a whole, and judges it
as the bench of semantics does. Hypothesis shrinks what fails; a chunk of modules ends at its first failure.

make bench-semantics-random [ARGS="--modules 500"]
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness import MINUTES, Results, main, only, option, progress
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from semantic_cases.case import Case
from semantic_judge import Verdict, row

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.semantics.check import TARGETS, check, runs
from tests.semantics.programs import SHAPE, Program, programs

MODULES = 5_000
CHUNK = 250
BUILT_EVERY = 25
FINE = (Verdict.AGREES, Verdict.POOR, Verdict.REFUSED)


def rewritten(program: Program, target: str) -> str:
    """Return the fault of the rewritten float graph of a module."""
    return check(program, target)


def built(program: Program, target: str) -> str:
    """Return the fault of the build of a module."""
    found = row(Case("random", program.module, (SHAPE,)), target)
    return "" if found.verdict in FINE else f"{found.verdict}: {found.text}"


def failure(
    number: int, target: str, examples: int, problem: Callable[[Program, str], str]
) -> tuple[Program, str] | None:
    """The smallest module of a chunk that fails, and how; None where all are right."""
    last: list[tuple[Program, str]] = []

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
    )
    @given(programs())
    def holds(program: Program) -> None:
        assume(runs(program))
        if text := problem(program, target):
            last[:] = [(program, text)]
            raise AssertionError(text[:30])

    try:
        holds()
    except AssertionError:
        return last[0]
    return None


def results(options: argparse.Namespace) -> Results:
    """So many modules, in chunks."""
    chunks = -(-options.modules // CHUNK)
    chosen, end = options.target or TARGETS, time.monotonic() + 60 * options.minutes
    problems: list[str] = []
    for index in range(chunks):
        if time.monotonic() > end:
            problems.append(f"{chunks - index} chunks of {CHUNK} modules are left")
            break
        target, number = chosen[index % len(chosen)], options.seed + index
        size = min(CHUNK, options.modules - index * CHUNK)
        for problem, examples in ((rewritten, size), (built, -(-size // BUILT_EVERY))):
            if found := failure(number, target, examples, problem):
                program, text = found
                problems.append(progress(f"chunk {number} on {target}, {problem.__name__}: {text}\n{program.source}"))
        progress(f"chunk {number} on {target}: {size} modules")
    return Results("measured", [], problems=problems, data={"modules": options.modules, "problems": problems})


OPTIONS = (
    option("--modules", type=int, default=MODULES, help=f"how many (default: {MODULES:,})"),
    option("--seed", type=int, default=0, help="of the first chunk; the others follow it"),
    only("--target", TARGETS),
    MINUTES,
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))
