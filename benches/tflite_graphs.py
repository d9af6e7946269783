"""Random TFLite graphs on targets, byte for byte against LiteRT's reference kernels.

Each graph has operators of all kinds and types, joined by QUANTIZE, CAST, RESHAPE, TILE and SLICE, or with `--images`
operators of int8 images that read each other directly, as in networks. One that differs is
reduced to the fewest operators that do. Vela's own arithmetic makes differences on an Ethos-U; those are counted by
operator where no element is further off than the stated bound, and make no failure. Neither do files that Vela refuses.

make bench-tflite-graphs [ARGS="--graphs 20000 --targets cortex-m55"]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness import Results, main, option, table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.tflite.graph_check import Difference, built, check
from tests.tflite.image_graphs import image_graph
from tests.tflite.random_graphs import random_graph

from deuteron.errors import DeuteronError

TARGETS = ("cortex-m33", "cortex-m55", "ethos-u55-128")
GRAPHS = 1000
ANY_TYPE = ("ABS", "FULLY_CONNECTED", "RESIZE_BILINEAR")
"""Operators that differ in files of any type; others in BOUNDS do in uint8 files alone."""

BOUNDS: dict[str, int] = dict.fromkeys(
    (*ANY_TYPE, "AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"), 1
)
"""Most steps between a result of Vela's commands and LiteRT's, by operator; `spec/rounding.md` has the reasons."""


def is_explained(target: str, found: Difference) -> bool:
    """Return True for a difference that Vela's arithmetic explains."""
    names = [op.name for op in found.model.operators]
    is_unsigned = any(tensor.dtype == "UINT8" for tensor in found.model.tensors)
    bound = BOUNDS.get(names[0], 0) if is_unsigned or names[0] in ANY_TYPE else 0
    return target.startswith("ethos") and len(names) == 1 and found.largest <= bound


def rows(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Yield a row per target."""
    for target in options.targets:
        run, counts, explained = built(target), Counter[str](), Counter[str]()
        start = time.monotonic()
        for seed in range(options.first, options.first + options.graphs):
            try:
                found = check(seed, run, image_graph if options.images else random_graph)
            except DeuteronError as error:
                counts["refused"] += 1
                message = " | ".join(str(error).splitlines()[:3])
                print(f"{target} {seed}: {message}", file=sys.stderr, flush=True)
                continue
            if found is None:
                counts["equal"] += 1
            elif is_explained(target, found):
                counts["explained"] += 1
                explained[found.model.operators[0].name] += 1
            else:
                counts["different"] += 1
                print(f"{target} {seed}: {found}", file=sys.stderr, flush=True)
        yield {
            "target": target, "graphs": options.graphs, **{n: counts[n] for n in ("equal", "explained", "refused")},
            "different": counts["different"], "by": dict(explained), "seconds": round(time.monotonic() - start, 1),
        }  # fmt: skip


COLUMNS = ("target", "graphs", "equal", "explained", "refused", "different", "seconds")


def results(options: argparse.Namespace) -> Results:
    """Each target."""
    found = list(rows(options))
    problems = [
        f"{row['target']}: {row['different']} graphs differ, {row['refused']} are refused"
        for row in found
        if row["different"] or (row["refused"] and not str(row["target"]).startswith("ethos"))
    ]
    shown = [table(found, {column: column for column in COLUMNS})]
    return Results("counted on this machine", found, shown, problems)


OPTIONS = (
    option("--graphs", type=int, default=GRAPHS, help="graphs for each target"),
    option("--first", type=int, default=0, help="the first graph's number"),
    option("--images", action="store_true", help="graphs of images"),
    option("--targets", nargs="+", default=TARGETS, help="targets, all of them on this machine"),
)

if __name__ == "__main__":
    sys.exit(main(results, *OPTIONS))
