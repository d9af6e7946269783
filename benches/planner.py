"""The memory planner on the public MiniMalloc instances: what fits into 1 MiB, and how close to the bound it gets.

The folder holds the challenging set of google/minimalloc, files like `A.1048576.csv` with the columns id, lower, upper
(the first moment a buffer is in use, and the first that it is not any more) and size. Every packing is checked here, by
code that shares nothing with the planner. Percentages are above the bound, the most bytes in use at one moment.

make bench-planner ARGS=FOLDER
"""

import argparse
import csv
import json
import os
import platform
import sys
import time
from bisect import insort
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from deuteron.planner.lifetimes import Lifetime
from deuteron.planner.packing import EXACT_EFFORT, FAST_EFFORT, ORDERS, end_of, greedy, max_live, place
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
    greedy: Mapping[str, int]
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
        packing = place(blocks, effort)
        took = time.perf_counter() - began, time.process_time() - cpu
        ways[way] = Packed(validated(path, packing.offsets), packing.proven, *took)
    began, cpu = time.perf_counter(), time.process_time()
    found = search(blocks, CAPACITY, LIMIT_S * STEPS_PER_SECOND)
    took = time.perf_counter() - began, time.process_time() - cpu
    bound = max_live(blocks)
    fit = Packed(validated(path, found.offsets), end_of(found.offsets) == bound, *took) if found.offsets else None
    orders = {name: validated(path, greedy(blocks, order)) for name, order in ORDERS.items()}
    return Row(path.name.split(".")[0], len(blocks), bound, orders, ways, fit)


def line(row: Row) -> str:
    """The row as text."""

    def above(nbytes: int) -> str:
        return f"{100 * (nbytes / row.bound - 1):+11.1f} %"

    greedies = "".join(above(nbytes) for nbytes in row.greedy.values())
    ways = "".join(f"{above(w.nbytes)}{'*' if w.proven else ' '}{w.cpu_s:7.2f} s" for w in row.ways.values())
    fit = f"{row.fit.nbytes:>11,}{row.fit.cpu_s:8.2f} s{row.fit.wall_s:8.2f} s" if row.fit else "   none found"
    return f"{row.name:<9}{row.buffers:>7}{row.bound:>11,}{greedies}{ways}{fit}"


def main() -> int:
    """Exit status: 1 unless each instance fits into 1 MiB within the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the instances are")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()
    paths = sorted(arguments.folder.glob("*.csv"))
    if not paths:
        parser.error(f"there are no .csv files in {arguments.folder}")
    heads = "".join(f"{name:>13}" for name in ORDERS) + "".join(f"{name:>13}  processor" for name in EFFORTS)
    print(f"instance buffers      bound{heads}  fits 1 MiB processor  elapsed   (* nothing is smaller; measured)")
    rows = []
    for path in paths:
        rows.append(measure(path))
        print(line(rows[-1]), flush=True)
    fitting = [row for row in rows if row.fit and row.fit.nbytes <= CAPACITY and row.fit.wall_s <= LIMIT_S]
    print(f"{len(fitting)} of {len(rows)} fit into {CAPACITY:,} bytes, each within {LIMIT_S} s")
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": sys.version}
        report = {"machine": machine, "capacity": CAPACITY, "rows": [asdict(row) for row in rows]}
        arguments.json.write_text(json.dumps(report, indent=2))
    return int(len(fitting) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
