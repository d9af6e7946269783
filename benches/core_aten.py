"""PyTorch's core ATen operators on a Cortex-M and an Ethos-U: which have a form, and what the others say.

A module with each operator behind a layer is built and compared with eager PyTorch on fresh samples.

make bench-core-aten
"""

import argparse
import sys
from collections.abc import Iterator

from harness import Results, main, option, table
from semantic_cases import core_aten
from semantic_judge import Verdict, row

TARGETS = ("cortex-m55", "ethos-u55-128")
LEAST = 0.9
"""The share of the operators with values that have a form on a CPU."""


def rows(names: list[str]) -> Iterator[dict[str, str]]:
    """Yield a row per operator."""
    for case in core_aten.CASES:
        name = case.name.partition(".")[2]
        if not names or name in names:
            found = {target: row(case, target) for target in TARGETS}
            yield {"operator": name, **{target: one.verdict for target, one in found.items()}}


def results(options: argparse.Namespace) -> Results:
    """Each operator."""
    found = list(rows(options.names))
    problems = [
        f"{one['operator']} on {target}: {one[target]}"
        for one in found
        for target in TARGETS
        if one[target] not in (Verdict.AGREES, Verdict.POOR, Verdict.REFUSED)
    ]
    for target in TARGETS:
        share = sum(one[target] in (Verdict.AGREES, Verdict.POOR) for one in found) / max(1, len(found))
        if share < LEAST and not options.names:
            problems.append(f"{share:.0%} of the operators have a form on {target}; at least {LEAST:.0%} are wanted")
    columns = {"operator": "operator", **{target: target for target in TARGETS}}
    return Results("counted on this machine", found, [table(found, columns)], problems)


OPTIONS = (option("names", nargs="*", help="operators; all by default"),)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))
