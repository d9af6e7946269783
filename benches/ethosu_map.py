"""The map from operations of an Ethos-U command stream to operators and source lines, and its check.

Columns count the operations of each build, those with TOSA operators, edge operators and a line, and those that an
independent check confirms. It changes constants of one operator after another, has Vela compile again, and observes
which operation's result changes. "directly" counts those confirmed without their neighbours.

make bench-ethosu-map
"""

import argparse
import sys
import tempfile
from pathlib import Path

from harness import MODELS, REFERENCES, Results, main, option, progress, table

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.npu.ethosu.perturb import confirmed_build

from deuteron import api
from deuteron.builds import manifest as manifests

OF_LARGE = 8
"""In large models, one in so many operators is changed."""
LARGE = 200
"""Operations."""


def model(name: str, target: str, every: int | None, work: Path) -> dict[str, int]:
    """One model."""
    directory = work / name
    api.build_model(name, target=target, output=directory)
    partitions = manifests.read(directory).partitions
    operations = sum(len(entry.kernels) for entry in partitions)
    mapped = sum(
        any(entry.ops[op].nodes and entry.ops[op].source for op in kernel.ops)
        for entry in partitions
        for kernel in entry.kernels
    )
    step = every or (OF_LARGE if operations > LARGE else 1)
    direct, sure, _ = confirmed_build(directory, work, step)
    return {"operations": operations, "mapped": mapped, "confirmed": sure, "directly": direct, "every": step}


def results(options: argparse.Namespace) -> Results:
    """The map of each model."""
    rows: list[dict[str, object]] = []
    for name in options.models or REFERENCES:
        with tempfile.TemporaryDirectory() as scratch:
            found = model(name, options.target, options.every, Path(scratch))
            rows.append(progress({"model": name, **found}))
    wrong = [row["model"] for row in rows if not row["operations"] == row["mapped"] == row["confirmed"]]
    columns = {name: name for name in ("model", "operations", "mapped", "confirmed", "directly", "every")}
    problems = [f"{name}: an operation is not mapped or not confirmed" for name in wrong]
    return Results("counted", rows, [table(rows, columns)], problems)


EVERY = option("--every", type=int, help="change every Nth operator; by default all, in large models fewer")

if __name__ == "__main__":
    sys.exit(main(results, MODELS, option("--target", default="ethos-u55-128", help="of the builds"), EVERY))
