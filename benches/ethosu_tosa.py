"""Random TOSA graphs on Arm Ethos-U: compiled by Vela, run, and compared with TOSA's reference model bit for bit.

Each graph (`tests/npu/ethosu/tosa_graphs.py`) has 1 to 5 steps of 17 kinds, with shapes, pads, strides, dilations, zero
points and scales that ExecuTorch's flow seldom makes. There is no PyTorch in it and Vela runs in this process, so that
a graph takes about 20 ms. A graph that Vela refuses is counted, with what it said. One that differs is a problem unless
`VELAS` says which commands of Vela's are wrong.

make bench-ethosu-tosa ARGS="--graphs 5000"
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import Results, main, option

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.npu.ethosu.tosa_graphs import outcome

ACCELERATORS = ("ethos-u55-128", "ethos-u85-256", "ethos-u65-512", "ethos-u85-512")
_FORGOTTEN = "of a depthwise convolution of two channels each that reads a slice Vela forgets the pads above and left"
_AT_THE_START = "of a depthwise convolution of two channels each Vela writes the results to the start of what is padded"
VELAS = {
    995: "of an activation, a transpose and a table Vela loses the last on an Ethos-U85",
    1248: "a transpose with an activation Vela writes into a padded tensor with the distance of rows without the pads",
    **dict.fromkeys((1309, 1582, 2810, 3306, 3535, 4295), _FORGOTTEN),
    **dict.fromkeys((19, 2635, 3101, 3829, 4658, 4916), _AT_THE_START),
}
"""Seeds whose commands are wrong, as their listings show."""


def checked(seed: int, accelerator: str) -> dict[str, Any]:
    """Check a graph."""
    try:
        return {"seed": seed, "accelerator": accelerator, **asdict(outcome(seed, accelerator))}
    except RuntimeError as error:  # as Vela's bindings say that they do not take a graph
        return {"seed": seed, "accelerator": accelerator, "operators": (), "results": 0, "different": 0} | {
            "refused": str(error)
        }


def report(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The sums in lines."""
    refused = Counter(row["refused"] for row in rows if row["refused"])
    compared = [row for row in rows if not row["refused"]]
    different = [row for row in compared if row["different"]]
    yield f"{len(compared):,} graphs compared, {sum(row['results'] for row in compared):,} results"
    yield f"by accelerator: {dict(Counter(row['accelerator'] for row in compared))}"
    operators = Counter(name for row in compared for name in row["operators"])
    yield f"operators: {dict(operators.most_common())}"
    yield f"refused by Vela: {sum(refused.values())} {dict(refused)}"
    yield f"different: {len(different)}"
    for row in different:
        yield f"  seed {row['seed']} on {row['accelerator']}: {VELAS.get(row['seed'], ', '.join(row['operators']))}"


def results(options: argparse.Namespace) -> Results:
    """So many graphs; none may differ that Vela is not known to compile wrong."""
    seeds = range(options.first, options.first + options.graphs)
    rows = [checked(seed, ACCELERATORS[seed % len(ACCELERATORS)]) for seed in seeds]
    problems = [
        f"seed {row['seed']} on {row['accelerator']}: {row['different']} of {row['results']} results differ"
        for row in rows
        if row["different"] and row["seed"] not in VELAS
    ]
    problems += [] if any(row["results"] for row in rows) else ["nothing was compared"]
    return Results("counted", rows, problems=problems, notes=list(report(rows)))


OPTIONS = (
    option("--graphs", type=int, default=200, help="how many, with seeds from --first on"),
    option("--first", type=int, default=0, help="the first seed"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))
