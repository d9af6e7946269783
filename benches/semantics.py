"""Small modules with the semantics of real PyTorch code: the program must compute what the module computes.

The bench builds each case for each target, ten in one process, and compares it on fresh samples with a new eager
module. A case agrees, is poor (the build says so), silently wrong, or refused; a refusal must name its line and a
remedy. "module changed" is a build that changes the user's module. Integers may differ if int8 noise of float inputs
changes them in PyTorch too.

make bench-semantics [ARGS="--target cortex-m55 numbers"]
"""

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection

import semantic_cases
from harness import LINES, MINUTES, NAMES, Results, Table, add_line, main, only, option, read_lines, table
from semantic_judge import Row, Verdict, row

from deuteron.arch import targets
from deuteron.builds.options import BuildOptions
from deuteron.frontend.pipeline import Flow

TARGETS = ("imxrt700cm", "cortex-m55", "ethos-u55-128", "ethos-u55-128cm")
OPTIONAL = ("imxrt700", "ethos-u85-256", "cortex-m33")
GROUP = 10
"""Cases in one process."""
SECONDS = 180.0
"""A case that takes longer is a timeout."""
REFUSED = 0.08
"""The share of builds that may be refused."""
FINE = (Verdict.AGREES, Verdict.REFUSED, Verdict.POOR)

Key = tuple[str, str]


def rows(keys: Sequence[Key]) -> Iterator[Row]:
    """The row of each case and target, in order; a process that ends or hangs costs the one that it was at."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__"])
    left = list(keys)
    while left:
        group, near = left[:GROUP], None
        near, far = context.Pipe()
        process = context.Process(target=_work, args=(far, group), daemon=True)
        process.start()
        far.close()
        for case, target in group:
            left.pop(0)
            if not near.poll(SECONDS):
                yield Row(case, target, Verdict.TIMEOUT, f"no end after {SECONDS:.0f} s")
                break
            try:
                yield near.recv()
            except EOFError:
                process.join()
                yield Row(case, target, Verdict.CRASH, f"the process ended with {process.exitcode}")
                break
        process.kill()
        process.join()
        near.close()


def _work(connection: Connection, keys: Sequence[Key]) -> None:
    cases = {case.name: case for case in semantic_cases.CASES}
    for name, target in keys:
        connection.send(row(cases[name], target))


def report(shown: Sequence[Row]) -> Table:
    """A row per kind and target, with the number of each verdict."""
    verdicts = [verdict for verdict in Verdict if any(r.verdict == verdict for r in shown)]
    counts: dict[Key, Counter[str]] = {}
    for r in shown:
        kind = r.case.partition(".")[0]
        for key in ((kind, r.target), ("all", r.target), ("all", "all")):
            counts.setdefault(key, Counter())[r.verdict] += 1
    columns = {"kind": lambda item: item[0][0], "target": lambda item: item[0][1], "builds": lambda i: i[1].total()}
    columns |= {verdict: lambda item, verdict=verdict: item[1][verdict] or None for verdict in verdicts}
    return table(sorted(counts.items(), key=lambda item: (item[0][0] == "all", item[0])), columns)


def problems(shown: Sequence[Row], wanted: int) -> Iterator[str]:
    """Yield the broken bounds."""
    rewrites = {case.name for case in semantic_cases.CASES if case.is_rewrite}
    for r in shown:
        if r.verdict not in FINE:
            yield f"{r.case} on {r.target}: {r.verdict}: {r.text}"
        elif r.case in rewrites and r.verdict == Verdict.REFUSED:
            yield f"{r.case} on {r.target}: a rewrite is refused: {r.text}"
    refused = sum(r.verdict in (Verdict.REFUSED, Verdict.UNCLEAR) for r in shown)
    if refused > REFUSED * len(shown):
        yield f"{refused} of {len(shown)} builds are refused, more than {REFUSED:.0%}"
    if len(shown) < wanted:
        yield f"{wanted - len(shown)} builds are left"


def results(options: argparse.Namespace) -> Results:
    """Each case for each target, until the time is over."""
    made = {(r.case, r.target): r for r in read_lines(options.rows, Row)}
    wanted = [
        (case.name, target)
        for index, target in enumerate(options.target or TARGETS)
        for kind in semantic_cases.KINDS
        for case in list(kind)[index % options.every :: options.every]
        if not options.names or case.name.startswith(tuple(options.names))
    ]
    end = time.monotonic() + 60 * options.minutes
    for result in rows([key for key in wanted if key not in made]):
        made[result.case, result.target] = result
        add_line(options.rows, result)
        if time.monotonic() > end:
            break
    shown = [made[key] for key in wanted if key in made]
    shown_texts = [r for r in shown if r.text and r.verdict in (Verdict.POOR, Verdict.REFUSED)]
    notes = [f"{r.case} on {r.target}: {r.verdict}: {r.text}" for r in shown_texts]
    return Results("measured", shown, [report(shown)], [*problems(shown, len(wanted))], notes)


if __name__ == "__mp_main__":  # in the process of which all others are forks
    for one in TARGETS:
        Flow(targets.load(one), BuildOptions()).recipe()  # imports what takes long

EVERY = option("--every", type=int, default=1, help="each so-many-th case of a kind only, others for each target")

if __name__ == "__main__":
    sys.exit(main(results, NAMES, LINES, only("--target", (*TARGETS, *OPTIONAL)), MINUTES, EVERY))
