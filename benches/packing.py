"""The memory planner on the public MiniMalloc instances: fit into 1 MiB, and distance from the bound.

The folder holds the challenging set of google/minimalloc, files like `A.1048576.csv` with the columns id, lower, upper
(the first moment a buffer is in use, and the first that it is not) and size. The bench checks every packing with
separate code. Percentages are above the bound, the largest number of live bytes.

make bench-packing ARGS=FOLDER
"""

import argparse
import csv
import sys
import time
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from harness import Results, main, option, progress, table

from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing import EXACT_EFFORT, FAST_EFFORT, ORDERS, best_fit_packing, end_of, max_live, pack
from deuteron.planner.packing_search import STEPS_PER_SECOND, search

CAPACITY = 1 << 20
LIMIT_S = 120
EFFORTS = {"heuristic": 0.0, "fast": FAST_EFFORT, "exact": EXACT_EFFORT}


@dataclass(frozen=True, slots=True)
class Packed:
    """Bytes that one way takes, whether it has shown that nothing takes less, and how long it took."""

    nbytes: int
    proven: bool
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One instance; `fit` is the search for a packing of 1 MiB, None if it found none."""

    name: str
    buffers: int
    bound: int
    best_fit_packing: Mapping[str, int]
    ways: Mapping[str, Packed]
    fit: Packed | None


def read(path: Path) -> list[Lifetime]:
    """The buffers of an instance."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [Lifetime((r["id"],), int(r["size"]), int(r["lower"]), int(r["upper"]) - 1) for r in rows]


def validated(path: Path, offsets: Mapping[Lifetime, int]) -> int:
    """Bytes that the packing of an instance takes; ends the bench when it is none.

    Goes through the file again, moment by moment, with the buffers in use in order of their address.
    """
    where = {block.buffers[0]: offset for block, offset in offsets.items()}
    with path.open(newline="") as file:
        rows = [(int(r["lower"]), int(r["upper"]), where[r["id"]], int(r["size"])) for r in csv.DictReader(file)]
    events = sorted(
        [(upper, 0, start, start + size) for _, upper, start, size in rows]
        + [(lower, 1, start, start + size) for lower, _, start, size in rows]
    )
    in_use: list[tuple[int, int]] = []
    for moment, begins, start, end in events:
        if not begins:
            in_use.remove((start, end))
            continue
        insort(in_use, (start, end))
        if start < 0 or any(a[1] > b[0] for a, b in pairwise(in_use)):
            raise SystemExit(f"{path.name}: two buffers overlap at moment {moment}")
    return max(start + size for _, _, start, size in rows)


def measure(path: Path) -> Row:
    """The numbers of one instance."""
    blocks = read(path)
    ways = {}
    for way, effort in EFFORTS.items():
        began, cpu = time.perf_counter(), time.process_time()
        packing = pack(blocks, effort)
        took = time.perf_counter() - began, time.process_time() - cpu
        ways[way] = Packed(validated(path, packing.offsets), packing.proven, *took)
    began, cpu = time.perf_counter(), time.process_time()
    found = search(blocks, CAPACITY, LIMIT_S * STEPS_PER_SECOND)
    took = time.perf_counter() - began, time.process_time() - cpu
    bound = max_live(blocks)
    fit = Packed(validated(path, found.offsets), end_of(found.offsets) == bound, *took) if found.offsets else None
    orders = {name: validated(path, best_fit_packing(blocks, order)) for name, order in ORDERS.items()}
    return Row(path.name.split(".")[0], len(blocks), bound, orders, ways, fit)


def results(options: argparse.Namespace) -> Results:
    """Each instance; all must fit into 1 MiB within the limit."""
    rows = [progress(measure(path)) for path in sorted(options.folder.glob("*.csv"))]

    def above(nbytes: int, row: Row) -> str:
        return f"{100 * (nbytes / row.bound - 1):.1f} %"

    columns = {"instance": "name", "buffers": "buffers", "bound B": "bound"}
    columns |= {name: lambda r, name=name: above(r.best_fit_packing[name], r) for name in ORDERS}
    for name in EFFORTS:
        columns[name] = lambda r, name=name: above(r.ways[name].nbytes, r) + " *" * r.ways[name].proven
        columns[f"{name} s"] = lambda r, name=name: f"{r.ways[name].cpu_s:.2f}"
    columns["1 MiB s"] = lambda r: f"{r.fit.cpu_s:.2f}" if r.fit else "none found"
    unfit = [row for row in rows if not (row.fit and row.fit.nbytes <= CAPACITY and row.fit.wall_s <= LIMIT_S)]
    problems = [f"{row.name} does not fit into {CAPACITY:,} bytes within {LIMIT_S} s" for row in unfit]
    problems += [] if rows else [f"there are no .csv files in {options.folder}"]
    return Results("measured", rows, [table(rows, columns)] if rows else [], problems, data={"capacity": CAPACITY})


if __name__ == "__main__":
    sys.exit(main(results, option("folder", type=Path, help="where the instances are")))
