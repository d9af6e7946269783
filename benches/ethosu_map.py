"""Whether each operation of a command stream for an Arm Ethos-U is traced to operators and lines of the model.

Of the operations of each build: how many have TOSA operators, edge operators and a line; how many of them a way that
does not know the map confirms, which changes constants of one operator after another, has Vela compile again, and looks
which operation's result changes; and how many directly, without asking which neighbours read and write what.

    python benches/ethosu_map.py [MODEL...] [--target TARGET] [--every N] [--json FILE]
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
"""Of the operators that can be changed in large models, how many there are for each that is."""
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
